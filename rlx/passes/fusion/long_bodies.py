"""Long formulas: regions that were cut by their length become one body where cuts cost memory.

A region of elementwise nodes is cut at `largest_body` nodes. Where a cut stores one value, as in a
chain, it costs little. Where it stores many, as between the values and the derivative of a
polynomial, the arena would hold more temporaries than operands and results.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from rlx.ir.graph import Node
from rlx.ir.op import Trait
from rlx.passes.fusion.groups import Group, Groups
from rlx.passes.fusion.policy import FusionPolicy, is_fusable


def join_cut_regions(groups: Groups, policy: FusionPolicy) -> None:
    """Merge regions of one shape between which many values would be stored."""
    joining = _Joining(groups, policy)
    for parts in [*joining.components()]:
        if not joining.join(parts):
            for part in parts:
                joining.bridge(part)
    for group in dict.fromkeys(groups.group_of.values()):
        if _is_fold(group):
            joining.join_before(group)


class _Joining:
    def __init__(self, groups: Groups, policy: FusionPolicy) -> None:
        self.groups = groups
        self.policy = policy

    def components(self) -> Iterator[list[Group]]:
        """Yield the regions that read each other, those of more than one body."""
        seen = set[Group]()
        for group in dict.fromkeys(self.groups.group_of.values()):
            found, pending = set[Group](), [group] if _is_region(group) else []
            while pending:
                reached = pending.pop()
                if reached not in seen:
                    seen.add(reached)
                    found.add(reached)
                    pending += self._neighbors(reached)
            if len(found) > 1:
                yield sorted(found, key=lambda part: part.rank)

    def _neighbors(self, group: Group) -> Iterator[Group]:
        readers = (reader for node in group.members for reader in self.groups.readers[node])
        sources = (value.node for value in group.inputs)
        return self._like(group, itertools.chain(readers, sources))

    def _like(self, group: Group, nodes: Iterable[Node]) -> Iterator[Group]:
        """Yield the other regions of the same shape that `nodes` are in, each once."""
        found = {self.groups.group_of.get(node) for node in nodes} - {None, group}
        return (g for g in found if g and _is_region(g) and _shape(g) == _shape(group))

    def bridge(self, last: Group) -> None:
        """Merge a region with one that it reads, and with what is on paths between them."""
        sources = self._like(last, (value.node for value in last.inputs)) if last.members else ()
        for first in sorted(sources, key=lambda part: part.rank):
            if self.join([first, *self.groups.paths(first, last), last]):
                return

    def join(self, parts: Sequence[Group]) -> bool:
        """Merge `parts`, which are in order, if that saves enough and one kernel may hold them."""
        if not all(_is_region(part) and _shape(part) == _shape(parts[0]) for part in parts):
            return False
        return self._join(parts)

    def join_before(self, fold: Group) -> None:
        """Merge a reduction with the regions of what it folds that only it reads."""
        parts = {fold}
        pending = [fold]
        while pending:
            nodes = (value.node for value in pending.pop().inputs)
            new = {*self._like(fold, nodes)} - parts
            parts |= new
            pending += new
        while outer := [part for part in parts if part is not fold and self._escapes(part, parts)]:
            parts.difference_update(outer)
        if len(parts) > 1:
            self._join(sorted(parts, key=lambda part: part.rank))

    def _escapes(self, part: Group, within: set[Group]) -> bool:
        """True if a result of `part` is read outside of `within`."""
        groups = self.groups
        readers = (groups.group_of[r] for node in part.stored for r in groups.readers[node])
        return not groups.escaping.isdisjoint(part.stored) or not within.issuperset(readers)

    def _join(self, parts: Sequence[Group]) -> bool:
        if sum(len(part.members) for part in parts) > self.policy.longest_body:
            return False
        inputs, stored = self.groups.union(parts)
        saved = sum(len(part.stored) for part in parts) - len(stored)
        few = len(inputs) + len(stored) <= self.policy.most_long_values
        if not few or saved < self.policy.least_saved * (len(parts) - 1):
            return False
        if not self.groups.is_convex(parts):
            return False
        self.groups.merge_all(parts)
        return True


def _is_region(group: Group) -> bool:
    return group.anchor is None and is_fusable(group.members[0])


def _is_fold(group: Group) -> bool:
    """True for a reduction that computes what it folds, all of it as it reads it."""
    anchor = group.anchor
    if anchor is None or not anchor.op.has(Trait.REDUCTION) or group.members[0] is anchor:
        return False
    return not anchor.op.has(Trait.ROW_WISE) and not anchor.op.has(Trait.ALL_ELEMENTS)


def _shape(group: Group) -> object:
    """Return the shape that a region computes, or that a reduction folds."""
    return group.members[0].results[0].shape
