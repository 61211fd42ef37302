"""Fusion: which nodes become one kernel.

Three claims, in this order, each in topological order:

1. *Epilogues*. What reads a product, reduction, norm, softmax or gather elementwise joins it:
   bias, activation, residual, scale, cast.
2. *Prologues*. What only feeds a reduction, norm or softmax joins that; before a norm or
   softmax a value may have other readers, for it can be a further result (residual + norm).
3. *Regions*. The other elementwise nodes of one shape join to maximal convex sets.

Movement, and cheap work that is read through it, belongs to no group: each body that reads it
holds a copy (`recompute`).

What a node costs and whether it fits is decided in `fusion_policy`; that a claim leaves the
graph acyclic in `fusion_groups`; bodies are built in `fusion_bodies`.
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Callable

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import Shape
from rlx.passes.fusion.bodies import contract
from rlx.passes.fusion.groups import Group, Groups
from rlx.passes.fusion.policy import FusionPolicy, free_source, is_fusable
from rlx.passes.fusion.recompute import find_recomputed
from rlx.passes.rewrite import (
    GraphPass,
    Rewritten,
    copy_node,
    finish,
    map_bodies,
    unchanged,
)
from rlx.passes.rewrites.dead_code import dead_code


def fuse(policy: FusionPolicy | None = None) -> GraphPass:
    """Return the pass that forms `fused` nodes; their contract is in `rlx.ir.ops.fused`.

        %3: f32[8, 4] = matmul %0, %1
        %4: f32[8, 4] = add %3, %2       ->      %3: f32[8, 4] = fused %0, %1, %2 {body = ...}
        %5: f32[8, 4] = relu %4

    Requires decomposed ops. Nothing costly is computed twice, and a value that others read
    becomes a further result of its fusion.
    """
    chosen = policy or FusionPolicy()

    def fuse_live(graph: Graph) -> Rewritten:
        groups = Groups(graph, find_recomputed(graph, chosen))
        _Claims(groups, chosen).run()
        return contract(groups, chosen)

    def run(graph: Graph) -> Rewritten:
        done = dead_code.rewrite(graph).then(inner)
        return done.then(live)

    def fuse_inner(graph: Graph) -> Rewritten:
        return _with_bodies(graph, lambda body: run(body).graph)

    inner, live = GraphPass("fuse-inner", fuse_inner), GraphPass("fuse", fuse_live)
    return GraphPass("fuse", run, inspect.getdoc(fuse) or "")


def _holds_nodes(node: Node) -> bool:
    return node.op.has(Trait.CONTROL) and not node.is_one_kernel


def _with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Rewritten:
    """Change the bodies of loops and branches, which are graphs of their own."""
    changed = {node: map_bodies(node.attrs, change) for node in graph.nodes if _holds_nodes(node)}
    if all(attrs is node.attrs for node, attrs in changed.items()):
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        copy_node(target, node, value_map, attrs=changed.get(node))
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


class _Claims:
    def __init__(self, groups: Groups, policy: FusionPolicy) -> None:
        self.groups = groups
        self.policy = policy

    def run(self) -> None:
        nodes = self.groups.graph.nodes
        for node in nodes:
            if self.policy.takes_epilogue(node):
                self._claim_epilogue(node)
        for node in nodes:
            if self.policy.takes_prologue(node):
                self._claim_prologue(node)
        for node in nodes:
            if self._is_unclaimed(node):
                self._join_producers(node)
        for node in nodes:
            self._join_siblings(node)

    def _claim_epilogue(self, anchor: Node) -> None:
        group = self.groups.group_of[anchor]
        group.anchor = anchor
        shape = anchor.result.shape
        waiting = [reader.index for reader in self.groups.readers[anchor]]
        heapq.heapify(waiting)
        while waiting:
            node = self.groups.graph.nodes[heapq.heappop(waiting)]
            if self._may_follow(node, anchor) and self._try(group, node, shape):
                self._claim_inner_producers(group, node, anchor)
                for reader in self.groups.readers[node]:
                    heapq.heappush(waiting, reader.index)

    def _may_follow(self, node: Node, anchor: Node) -> bool:
        """Leave a value to the reduction that alone reads it, if its operands stay anyway."""
        if not self._is_unclaimed(node) or self._reads_moved(node, anchor):
            return False
        readers = self.groups.readers[node]
        alone = len(readers) == 1 and node not in self.groups.escaping
        if not alone or not self.policy.takes_prologue(readers[0]):
            return True
        smaller = readers[0].result.shape != node.result.shape
        sources = [_source(o) for o in node.operands if o.shape == node.result.shape]
        stored = all(len(self.groups.readers[source]) > 1 for source in sources)
        return not (smaller and stored)

    def _reads_moved(self, node: Node, anchor: Node) -> bool:
        """True if `node` reads elsewhere, and the kernel of `anchor` takes no such operands."""
        return not self.policy.takes_movement(anchor) and self.groups.reads_moved(node)

    def _claim_inner_producers(self, group: Group, node: Node, anchor: Node) -> None:
        """Take in values that only the epilogue reads."""

        def wanted(producer: Node) -> bool:
            # What only the group reads is before the anchor only if that reads it.
            before_anchor = anchor in self.groups.readers[producer]
            if before_anchor or self._reads_moved(producer, anchor):
                return False
            return self.groups.is_private(producer, group)

        self._claim_backwards(group, node, anchor.result.shape, wanted)

    def _claim_prologue(self, anchor: Node) -> None:
        group = self.groups.group_of[anchor]
        group.anchor = anchor
        operand = anchor.operands[0]
        others = {_source(other) for other in anchor.operands[1:]}
        as_result = self.policy.keeps_operand_shape(anchor) and operand.shape == anchor.result.shape

        def wanted(producer: Node) -> bool:
            suits = producer not in others and self.policy.suits_prologue(producer, anchor)
            suits = suits and not self._reads_moved(producer, anchor)
            return suits and (as_result or self.groups.is_private(producer, group))

        first = _source(operand)
        if wanted(first) and self._try(group, first, operand.shape):
            self._claim_backwards(group, first, operand.shape, wanted)

    def _claim_backwards(
        self, group: Group, node: Node, shape: Shape, wanted: Callable[[Node], bool]
    ) -> None:
        waiting = [node]
        while waiting:
            for producer in map(_source, waiting.pop().operands):
                known = self.groups.group_of.get(producer)
                if known is None or known is group or not wanted(producer):
                    continue
                if self._try(group, producer, shape):
                    waiting.append(producer)

    def _join_producers(self, node: Node) -> None:
        group = self.groups.group_of[node]
        for producer in map(_source, node.operands):
            if self._is_region(producer) and self._fits(group, producer, node.result.shape):
                group = self.groups.merge(self.groups.group_of[producer], group)

    def _join_siblings(self, node: Node) -> None:
        """Merge regions that read all of one value: it is then loaded once."""
        regions: dict[Shape, Node] = {}
        for reader in self.groups.readers[node]:
            shape = reader.results[0].shape
            if not self._is_region(reader) or all(r.shape != shape for r in node.results):
                continue
            first = regions.setdefault(shape, reader)
            if self._fits(self.groups.group_of[first], reader, shape):
                self.groups.merge(self.groups.group_of[first], self.groups.group_of[reader])

    def _is_unclaimed(self, node: Node) -> bool:
        group = self.groups.group_of.get(node)
        return (
            group is not None
            and group.anchor is None
            and len(group.members) == 1
            and is_fusable(node)
        )

    def _is_region(self, node: Node) -> bool:
        group = self.groups.group_of.get(node)
        return group is not None and group.anchor is None and is_fusable(node)

    def _try(self, group: Group, node: Node, shape: Shape) -> bool:
        """Merge an unclaimed `node` of `shape` into `group` if that is sound."""
        if not self._is_unclaimed(node) or not self._fits(group, node, shape):
            return False
        self.groups.merge(group, self.groups.group_of[node])
        return True

    def _fits(self, group: Group, node: Node, shape: Shape) -> bool:
        other = self.groups.group_of[node]
        return (
            other is not group
            and node.results[0].shape == shape
            and len(group.members) + len(other.members) <= self.policy.largest_body
            and self.groups.can_merge(group, other)
            and self._values(group, other) <= self.policy.most_values
        )

    def _values(self, a: Group, b: Group) -> int:
        """Return at least the number of operands and results of the union."""
        members = {*a.members, *b.members}
        read = [operand for node in members for operand in node.operands]
        operands = {source for operand in read for source in self.groups.sources(operand)}
        outside = {value for value in operands if value.node not in members}
        results = [n for n in members if n in self.groups.escaping]
        shared = [n for n in members if any(r not in members for r in self.groups.readers[n])]
        return len(outside) + len({*results, *shared})


def _source(value: Value) -> Node:
    return free_source(value).node
