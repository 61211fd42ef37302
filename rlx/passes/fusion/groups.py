"""Convex groups: a partition of a graph's nodes whose every part can become one node.

A set of nodes is convex if no path leaves it and comes back; only then does contracting it
leave the graph acyclic. The groups are kept in a topological order. Whether two may merge, and
how the order changes if they do, is found by looking at what is between them, from both ends
in turn, until one end sees nothing more (after Pearce and Kelly's dynamic topological sort).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from operator import attrgetter

from rlx.dataclass import dataclass
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.fusion.policy import is_literal
from rlx.passes.fusion.reasons import Obstacle, Reason
from rlx.passes.fusion.recompute import Recomputed

_MOST_EDGES = 1024
"""Edges looked at from either end. Groups that are further apart stay apart: so fusion is linear
in nodes, and what is lost are regions between distant parts of a large graph."""


class Groups:
    """The groups of a graph; at first every node that is neither leaf nor recomputed is its own."""

    def __init__(self, graph: Graph, recomputed: Recomputed) -> None:
        self.graph = graph
        self.recomputed = recomputed
        self.readers: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
        """For each node, the nodes that read it, directly or through what is recomputed."""
        self.escaping = {s.node for output in graph.outputs for s in self.sources(output)}
        """Nodes that a graph output is, or is recomputed from."""
        self.group_of: dict[Node, Group] = {}
        self._sources: dict[Node, list[Node]] = {}
        for node in graph.nodes:
            if self._is_grouped(node):
                self._add(node)
        for node, group in self.group_of.items():
            if node in self.escaping or self.readers[node]:
                group.stored.add(node)

    def sources(self, value: Value) -> tuple[Value, ...]:
        """Return the stored values (and scalars) that a body computes `value` from."""
        return self.recomputed.sources[value]

    def reads_moved(self, node: Node) -> bool:
        """True if `node` reads something at another index than its own."""
        return any(map(self.recomputed.moves, node.operands))

    def _is_grouped(self, node: Node) -> bool:
        """True for nodes that are neither leaves nor recomputed."""
        return not node.op.has(Trait.LEAF) and not self.recomputed.holds(node)

    def _add(self, node: Node) -> None:
        stored = [source for operand in node.operands for source in self.sources(operand)]
        sources = list(dict.fromkeys(source.node for source in stored))
        for source in sources:
            self.readers[source].append(node)
        self._sources[node] = [source for source in sources if source in self.group_of]
        self.group_of[node] = group = Group(node)
        group.inputs.update(source for source in stored if not is_literal(source.node))
        for operand in filter(self.recomputed.moves, node.operands):
            group.moved.update(source.node for source in self.sources(operand))

    def obstacle(self, a: Group, b: Group) -> Obstacle | None:
        """Return what keeps `a` and `b` apart: their union is not convex, or they are far apart.

        A kernel reads its own results at no other index: it may not have stored them yet.
        """
        if self._reads_elsewhere(a, b) or self._reads_elsewhere(b, a):
            return Reason.MOVED_RESULT.because()
        between = self._between(a, b, itertools.repeat(None, _MOST_EDGES))
        return Reason.BETWEEN.because() if between is None else None

    def _reads_elsewhere(self, a: Group, b: Group) -> bool:
        return any(self.group_of.get(node) is b for node in a.moved)

    def merge(self, a: Group, b: Group) -> Group:
        """Merge `b` into `a`, which is returned; they must have no `obstacle`."""
        return self._merge(a, b, itertools.repeat(None, _MOST_EDGES))

    def merge_all(self, parts: Sequence[Group]) -> Group:
        """Merge `parts`, which are in order and whose union `is_convex`; the first is returned.

        Those may have more edges than are looked at elsewhere: all of their own are.
        """
        merged, *others = parts
        for part in others:
            self._merge(merged, part, itertools.repeat(None))
        return merged

    def _merge(self, a: Group, b: Group, steps: Iterable[None]) -> Group:
        between = self._between(a, b, steps)
        assert between is not None, "only groups whose union is convex are merged"
        a.inputs, a.stored = self.inputs(a, b), self.stored(a, b)
        for node in b.members:
            self.group_of[node] = a
        a.members = sorted([*a.members, *b.members], key=attrgetter("index"))
        a.moved |= b.moved
        a.anchor = a.anchor or b.anchor
        b.members = []
        between.place(a)
        return a

    def inputs(self, a: Group, b: Group) -> set[Value]:
        """Return the values that the union of `a` and `b` would read from outside."""
        found = self.group_of.get
        of_a = {value for value in a.inputs if found(value.node) is not b}
        return of_a.union(value for value in b.inputs if found(value.node) is not a)

    def stored(self, a: Group, b: Group) -> set[Node]:
        """Return the members whose results the union of `a` and `b` would store for others."""
        read = {value.node for group in (a, b) for value in group.inputs}
        return {n for n in a.stored | b.stored if n not in read or self._is_stored(n, a, b)}

    def _is_stored(self, node: Node, *within: Group) -> bool:
        if node in self.escaping:
            return True
        return any(self.group_of[reader] not in within for reader in self.readers[node])

    def union(self, parts: Sequence[Group]) -> tuple[set[Value], set[Node]]:
        """Return what the union of `parts` would read from outside, and store for others."""
        own = {*parts}
        read = {value for part in parts for value in part.inputs}
        inputs = {value for value in read if self.group_of.get(value.node) not in own}
        stored = {node for part in parts for node in part.stored if self._is_stored(node, *parts)}
        return inputs, stored

    def is_convex(self, parts: Sequence[Group]) -> bool:
        """True if the union of `parts` can be one kernel: no path leaves it and comes back.

        It reads its own results at no other index. Far paths count as ones that come back.
        """
        own, last = {*parts}, max(part.rank for part in parts)
        if any(self.group_of.get(node) in own for part in parts for node in part.moved):
            return False
        seen, pending, edges = {*parts}, [*parts], 0
        while pending:
            group = pending.pop()
            readers = [self.group_of[r] for node in group.members for r in self.readers[node]]
            if group not in own:
                edges += len(readers)
                if edges > _MOST_EDGES or not own.isdisjoint(readers):
                    return False
            following = {r for r in readers if r not in seen and r.rank < last}
            seen |= following
            pending += following
        return True

    def paths(self, first: Group, last: Group) -> list[Group]:
        """Return the groups on paths from `first` to `last`, in order; none if they are too far."""
        reached = self._reached(first, last, self.readers)
        needed = self._reached(last, first, self._sources)
        return sorted(reached & needed, key=lambda group: group.rank)

    def _reached(
        self, start: Group, goal: Group, edges: Mapping[Node, Sequence[Node]]
    ) -> set[Group]:
        found: list[Group] = []
        walk = self._walk(start, goal, edges, found)
        is_done = any(next(walk, None) is None for _ in range(_MOST_EDGES))
        return {*found} if is_done else set()

    def is_private(self, node: Node, group: Group) -> bool:
        """True if nothing outside `group` reads `node`."""
        if node in self.escaping:
            return False
        return all(self.group_of[reader] is group for reader in self.readers[node])

    def needs(self, node: Node, others: Sequence[Node], within: Set[Node]) -> bool:
        """True if `node` depends on one of `others` by a path inside of `within`."""
        waiting, seen = [node], {node}
        while waiting:
            for source in self._sources[waiting.pop()]:
                if source in others:
                    return True
                if source in within and source not in seen:
                    seen.add(source)
                    waiting.append(source)
        return False

    def _between(self, a: Group, b: Group, steps: Iterable[None]) -> _Between | None:
        """Return what has to move if `a` and `b` merge, or None if they had better not.

        For each of `steps`, an edge is looked at from either end.
        """
        first, second = (a, b) if a.rank < b.rank else (b, a)
        before = _Between(first.rank, is_before=True)
        after = _Between(second.rank, is_before=False)
        walks = (
            (before, self._walk(second, first, self._sources, before.groups)),
            (after, self._walk(first, second, self.readers, after.groups)),
        )
        for _ in steps:
            for between, walk in walks:
                leads_back = next(walk, None)
                if leads_back is None:
                    return between
                if leads_back:
                    return None
        return None

    def _walk(
        self, start: Group, goal: Group, edges: Mapping[Node, Sequence[Node]], found: list[Group]
    ) -> Iterator[bool]:
        """Collect the groups that edges lead to from `start` on the way to `goal`.

        Yields for each edge whether it leads to `goal` from another group than `start`.
        """
        low, high = sorted((start.rank, goal.rank))
        seen, pending = {start}, [start]
        while pending:
            group = pending.pop()
            for node in group.members:
                for other in map(self.group_of.__getitem__, edges[node]):
                    yield other is goal and group is not start
                    if other not in seen and low < other.rank < high:
                        seen.add(other)
                        found.append(other)
                        pending.append(other)


class Group:
    """A convex set of nodes, in topological order, with one anchor at most, or siblings."""

    __slots__ = ("anchor", "inputs", "members", "moved", "rank", "stored")

    def __init__(self, node: Node) -> None:
        self.members: list[Node] = [node]
        self.anchor: Node | None = None
        """What its kernel is built around; of sibling reductions one."""
        self.inputs: set[Value] = set()
        """What the members read from outside: no scalars, which a body has as literals."""
        self.stored: set[Node] = set()
        """Members whose results are read outside, or outputs of the graph."""
        self.moved: set[Node] = set()
        """What the members read through movement."""
        self.rank: tuple[int, ...] = (node.index,)
        """The place in the topological order of groups; what moves to a place extends its rank,
        which is not used from then on."""


@dataclass(frozen=True, slots=True)
class _Between:
    """The groups that move to the place of one of two groups which merge there."""

    rank: tuple[int, ...]
    is_before: bool
    """True for what the second needs: it moves before the merged group, else after it."""
    groups: list[Group] = field(default_factory=list)

    def place(self, merged: Group) -> None:
        """Order the groups around the merged one, where one of its parts was."""
        if not self.groups:
            merged.rank = self.rank
            return
        moved = sorted(self.groups, key=lambda group: group.rank)
        ordered = [*moved, merged] if self.is_before else [merged, *moved]
        for number, group in enumerate(ordered):
            group.rank = (*self.rank, number)
