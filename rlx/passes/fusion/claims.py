"""Fusion decisions: which nodes join which kernel.

Four kinds, in this order, each in topological order:

1. *Epilogues*. What reads a product, reduction, norm, softmax or gather elementwise joins it:
   bias, activation, residual, scale, cast. What a reduction folds is larger: its prologue is
   claimed before its epilogue can fill the body.
2. *Prologues*. What only feeds a reduction, norm or softmax joins that; before a norm or
   softmax a value may have other readers, for it can be a further result (residual + norm).
3. *Siblings*. Reductions over the same axes that read one value share the pass over it.
4. *Regions*. The other elementwise nodes of one shape join to maximal convex sets.

Movement, and cheap work that is read through it, belongs to no group: each body that reads it
holds a copy (`recompute`).

What prevents a claim is an `Obstacle`: `missed` repeats the same checks afterwards.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import Shape, format_shape
from rlx.passes.fusion.groups import Group, Groups
from rlx.passes.fusion.long_bodies import join_cut_regions
from rlx.passes.fusion.policy import FusionPolicy, free_source, is_fusable
from rlx.passes.fusion.reasons import Obstacle, Reason
from rlx.passes.phases import setup_nodes


class Claims:
    """The claims on one graph's groups."""

    def __init__(self, groups: Groups, policy: FusionPolicy) -> None:
        self.groups = groups
        self.policy = policy
        self._setup = setup_nodes(groups.graph)

    def run(self) -> None:
        """Merge the groups."""
        nodes = self.groups.graph.nodes
        for node in nodes:
            if self.policy.takes_prologue(node) and self.policy.is_smaller(node):
                self._claim_prologue(node)
            if self.policy.takes_epilogue(node):
                self._claim_epilogue(node)
        for node in nodes:
            if self.policy.takes_prologue(node) and not self.policy.is_smaller(node):
                self._claim_prologue(node)
        for node in nodes:
            self._join_reductions(node)
        for node in nodes:
            if self._is_unclaimed(node):
                self._join_producers(node)
        for node in nodes:
            self._join_siblings(node)
        join_cut_regions(self.groups, self.policy)

    # What prevents a claim

    def after_anchor(self, node: Node, anchor: Node) -> Obstacle | None:
        """Leave a value to the reduction that alone reads it, if its operands stay anyway."""
        if self._reads_moved(node, anchor):
            return Reason.MOVED_OPERAND.because(anchor.op.name)
        later = self._later_product(node, anchor)
        if later is not None:
            return Reason.LATER_PRODUCT.because(later.op.name)
        readers = self.groups.readers[node]
        alone = len(readers) == 1 and node not in self.groups.escaping
        if not alone or not self.policy.takes_prologue(readers[0]):
            return None
        smaller = readers[0].result.shape != node.result.shape
        sources = [source_of(o) for o in node.operands if o.shape == node.result.shape]
        stored = all(len(self.groups.readers[source]) > 1 for source in sources)
        if not (smaller and stored):
            return None
        return Reason.LEFT_TO_READER.because(readers[0].op.name)

    def _later_product(self, node: Node, anchor: Node) -> Node | None:
        """Return the product after `anchor` whose kernel may compute the sum `node`.

        Each product of a long sum then adds to those before it, and no two are stored at a time.
        """
        if node.op is not ops.add or not anchor.op.has(Trait.CONTRACTION):
            return None
        for later in (operand.node for operand in node.operands):
            if later.index <= anchor.index or not later.op.has(Trait.CONTRACTION):
                continue
            alone = self.groups.readers[later] == [node] and later not in self.groups.escaping
            if not alone or not self.policy.takes_epilogue(later):
                continue
            group = self.groups.group_of[later]
            if self.groups.group_of[node] is group or self._fits(group, node, node.result.shape):
                return later
        return None

    def inside_epilogue(self, producer: Node, group: Group, anchor: Node) -> Obstacle | None:
        """Return what keeps a producer out of the epilogue: another reader, or the anchor."""
        # What only the group reads is before the anchor only if that reads it.
        if anchor in self.groups.readers[producer]:
            return Reason.STORED_OPERANDS.because(anchor.op.name)
        if self._reads_moved(producer, anchor):
            return Reason.MOVED_OPERAND.because(anchor.op.name)
        return self._not_private(producer, group)

    def before_anchor(self, producer: Node, group: Group, anchor: Node) -> Obstacle | None:
        """Return what keeps a producer out of the prologue; it must feed operand 0 only."""
        if producer in map(source_of, anchor.operands[1:]):
            return Reason.OTHER_OPERAND.because(anchor.op.name)
        if not self.policy.suits_prologue(producer, anchor):
            return Reason.COSTLY.because(anchor.op.name)
        if self._reads_moved(producer, anchor):
            return Reason.MOVED_OPERAND.because(anchor.op.name)
        shape = anchor.operands[0].shape
        if self.policy.keeps_operand_shape(anchor) and shape == anchor.result.shape:
            return None
        return self._not_private(producer, group)

    def to_merge(self, group: Group, node: Node, shape: Shape) -> Obstacle | None:
        """Return what keeps the group of `node` from joining `group`, which computes `shape`."""
        other = self.groups.group_of[node]
        found = node.results[0].shape
        if found != shape:
            return Reason.SHAPES.because(format_shape(found), format_shape(shape))
        nodes = len(group.members) + len(other.members)
        if nodes > self.policy.largest_body:
            return Reason.LONG_BODY.because(nodes, self.policy.largest_body)
        obstacle = self.groups.obstacle(group, other) or self._of_phases(group, other)
        if obstacle is not None:
            return obstacle
        values = self._values(group, other)
        if values > self.policy.most_values:
            return Reason.MANY_VALUES.because(values, self.policy.most_values)
        return None

    def _of_phases(self, group: Group, other: Group) -> Obstacle | None:
        """Leave a product or reduction in `setup`, where it is computed once for all runs."""
        for one, joined in ((group, other), (other, group)):
            anchor = one.anchor
            if anchor in self._setup and any(node not in self._setup for node in joined.members):
                return Reason.IN_SETUP.because(anchor.op.name)
        return None

    def _not_private(self, node: Node, group: Group) -> Obstacle | None:
        if self.groups.is_private(node, group):
            return None
        readers = {self.groups.group_of[reader] for reader in self.groups.readers[node]}
        return Reason.OTHER_READERS.because(len(readers) + (node in self.groups.escaping))

    def _reads_moved(self, node: Node, anchor: Node) -> bool:
        """True if `node` reads elsewhere, and the kernel of `anchor` takes no such operands."""
        return not self.policy.takes_movement(anchor) and self.groups.reads_moved(node)

    # Claims

    def _claim_epilogue(self, anchor: Node) -> None:
        group = self.groups.group_of[anchor]
        group.anchor = anchor
        shape = anchor.result.shape
        waiting = [reader.index for reader in self.groups.readers[anchor]]
        heapq.heapify(waiting)
        while waiting:
            node = self.groups.graph.nodes[heapq.heappop(waiting)]
            if not self._is_unclaimed(node) or self.after_anchor(node, anchor):
                continue
            if self._try(group, node, shape):
                self._claim_inner_producers(group, node, anchor)
                for reader in self.groups.readers[node]:
                    heapq.heappush(waiting, reader.index)

    def _claim_inner_producers(self, group: Group, node: Node, anchor: Node) -> None:
        """Take in values that only the epilogue reads."""

        def obstacle(producer: Node) -> Obstacle | None:
            return self.inside_epilogue(producer, group, anchor)

        self._claim_backwards(group, node, anchor.result.shape, obstacle)

    def _claim_prologue(self, anchor: Node) -> None:
        group = self.groups.group_of[anchor]
        group.anchor = anchor
        shape = anchor.operands[0].shape

        def obstacle(producer: Node) -> Obstacle | None:
            return self.before_anchor(producer, group, anchor)

        first = source_of(anchor.operands[0])
        if self._is_unclaimed(first) and not obstacle(first) and self._try(group, first, shape):
            self._claim_backwards(group, first, shape, obstacle)

    def _claim_backwards(
        self, group: Group, node: Node, shape: Shape, obstacle: Callable[[Node], Obstacle | None]
    ) -> None:
        waiting = [node]
        while waiting:
            for producer in map(source_of, waiting.pop().operands):
                if not self._is_unclaimed(producer) or obstacle(producer):
                    continue
                if self._try(group, producer, shape):
                    waiting.append(producer)

    def _join_reductions(self, node: Node) -> None:
        """Merge sibling reductions that read all of one value, and what then only they read."""
        latest: dict[object, Group] = {}
        for reader in self.groups.readers[node]:
            group = self.groups.group_of.get(reader)
            if group is None or group.anchor is None or not _is_folded(reader, group.anchor):
                continue
            key = ops.sibling_key(group.anchor)
            other = latest.get(key)
            if other is not None and other is not group and self._are_siblings(other, group):
                group = self.groups.merge(other, group)
                self._claim_shared(group)
            latest[key] = group

    def _are_siblings(self, a: Group, b: Group) -> bool:
        """True if one pass can fold what both fold: neither waits for the other's result."""
        members = {*a.members, *b.members}
        anchors = [node for node in members if ops.sibling_key(node) is not None]
        if len(anchors) > self.policy.most_siblings:
            return False
        if any(self.groups.needs(anchor, anchors, members) for anchor in anchors):
            return False
        (node, *_) = (anchor for anchor in anchors if anchor in b.members)
        return self._fits(a, node, node.result.shape)

    def _claim_shared(self, group: Group) -> None:
        """Take in what only reductions of `group` read: it had two readers before."""
        anchor = group.anchor
        assert anchor is not None, "groups of reductions have an anchor"

        def obstacle(producer: Node) -> Obstacle | None:
            return self.before_anchor(producer, group, anchor)

        for node in list(group.members):
            self._claim_backwards(group, node, anchor.operands[0].shape, obstacle)

    def _join_producers(self, node: Node) -> None:
        group = self.groups.group_of[node]
        for producer in map(source_of, node.operands):
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
        apart = self.groups.group_of[node] is not group
        return apart and self.to_merge(group, node, shape) is None

    def _values(self, a: Group, b: Group) -> int:
        """Return at least the number of operands and results of the union."""
        return len(self.groups.inputs(a, b)) + len(self.groups.stored(a, b))


def _is_folded(reader: Node, anchor: Node) -> bool:
    """True if `anchor` is a reduction, and `reader` is it or works on all that it folds."""
    whole = reader is anchor or reader.results[0].shape == anchor.operands[0].shape
    return ops.sibling_key(anchor) is not None and whole


def source_of(value: Value) -> Node:
    """Return the node that `value` is, or is a broadcast or reshape of."""
    return free_source(value).node
