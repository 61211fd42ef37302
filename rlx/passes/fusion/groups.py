"""Convex groups: a partition of a graph's nodes whose every part can become one node.

A set of nodes is convex if no path leaves it and comes back; only then does contracting it
leave the graph acyclic. Dependencies between groups are kept transitively closed as bit
masks over node indices, so that asking is one `and` and merging touches only what changes.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.ir.graph import Graph, Node
from rlx.ir.op import Trait
from rlx.passes.fusion.policy import free_source, is_free


class Groups:
    """The groups of a graph; at first every node that is neither leaf nor free is its own."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers = _readers(graph)
        """For each node, the nodes that read it, directly or through free nodes."""
        self.escaping = {free_source(output).node for output in graph.outputs}
        """Nodes that a graph output is, or is a free function of."""
        self.group_of: dict[Node, Group] = {}
        self.groups: list[Group] = []
        self.ancestors: dict[Node, int] = {}
        """For each node the nodes that it depends on, as bits; merging does not change it."""
        for node in graph.nodes:
            if is_grouped(node):
                self._add(node)
        self._close_below()

    def _add(self, node: Node) -> None:
        group = Group(node)
        for operand in node.operands:
            source = self.group_of.get(free_source(operand).node)
            if source is not None:
                group.above |= source.above | source.bits
        self.group_of[node] = group
        self.groups.append(group)
        self.ancestors[node] = group.above

    def _close_below(self) -> None:
        for group in reversed(self.groups):
            for reader in self.readers[group.members[0]]:
                below = self.group_of[reader]
                group.below |= below.below | below.bits

    def can_merge(self, a: Group, b: Group) -> bool:
        """True if the union of `a` and `b` is convex."""
        return not (a.below & b.above or b.below & a.above)

    def merge(self, a: Group, b: Group) -> Group:
        """Merge `b` into `a`, which is returned; `can_merge` must hold."""
        bits = a.bits | b.bits
        above = (a.above | b.above) & ~bits
        below = (a.below | b.below) & ~bits
        for group in self._at((a.below ^ b.below) & ~bits):
            group.above |= above | bits
        for group in self._at((a.above ^ b.above) & ~bits):
            group.below |= below | bits
        for node in b.members:
            self.group_of[node] = a
        a.members = sorted([*a.members, *b.members], key=lambda node: node.index)
        a.anchor = a.anchor or b.anchor
        a.bits, a.above, a.below = bits, above, below
        b.members = []
        return a

    def is_private(self, node: Node, group: Group) -> bool:
        """True if nothing outside `group` reads `node`."""
        if node in self.escaping:
            return False
        return all(self.group_of[reader] is group for reader in self.readers[node])

    def _at(self, mask: int) -> Iterator[Group]:
        while mask:
            lowest = mask & -mask
            group = self.group_of[self.graph.nodes[lowest.bit_length() - 1]]
            yield group
            mask &= ~(lowest | group.bits)


class Group:
    """A convex set of nodes, in topological order, with at most one anchor."""

    __slots__ = ("above", "anchor", "below", "bits", "members")

    def __init__(self, node: Node) -> None:
        self.members: list[Node] = [node]
        self.anchor: Node | None = None
        self.bits = 1 << node.index
        self.above = 0
        """Nodes that the group depends on, itself left out; closed under groups."""
        self.below = 0
        """Nodes that depend on the group."""


def is_grouped(node: Node) -> bool:
    """True for nodes that are neither leaves nor free."""
    return not node.op.has(Trait.LEAF) and not is_free(node)


def _readers(graph: Graph) -> dict[Node, list[Node]]:
    found: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for node in graph.nodes:
        if is_grouped(node):
            for source in dict.fromkeys(free_source(operand).node for operand in node.operands):
                found[source].append(node)
    return found
