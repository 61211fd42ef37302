"""The axes of an iteration space in groups, and affine addresses over them.

A kernel iterates over a shape whose axes it gathers into groups, with one flat index per
group. Reading a value at an iteration point takes, for each axis of the value, an affine
function of the iteration axes (`rlx.ir.index_maps`); folded with the value's strides that is
one affine address. Over a group it collapses to `index * stride` where the strides allow, else
the group's index is taken apart by division and remainder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias

from rlx.codegen.kernels.extents import Extents
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import Binary, BinaryOp, Const, Expr
from rlx.dataclass import dataclass
from rlx.ir.index_maps import Box, Index, Interval, whole
from rlx.ir.shape import Extent, Shape, product

Groups: TypeAlias = tuple[tuple[int, ...], ...]
"""The axes of an iteration shape, gathered; within a group the last axis runs fastest."""


@dataclass(frozen=True, slots=True)
class Grid:
    """An iteration shape with its axes gathered into groups."""

    shape: Shape
    groups: Groups
    extents: Extents
    box: Box
    """What is iterated of `shape`: all, or the part that a split loop goes over."""

    @classmethod
    def over(cls, shape: Shape, groups: Groups, extents: Extents) -> Grid:
        """Return the grid of all of `shape`."""
        return cls(shape, groups, extents, whole(shape))

    def within(self, axis: int, interval: Interval) -> Grid:
        """Return the part of the grid where `axis` is in `interval`."""
        return replace(self, box=(*self.box[:axis], interval, *self.box[axis + 1 :]))

    def extent(self, group: int) -> Extent:
        """Return the number of iterations of a group's flat index."""
        return product(self.shape[axis] for axis in self.groups[group])

    def offset(self, group: int, index: Index, at: E) -> E:
        """Return what the flat index `at` of one group contributes to an affine index."""
        runs = self.runs(group, index)
        total = self.extents(0)
        rest = at
        while runs:
            extent, stride = runs.pop()
            coordinate = rest % self.extents(extent) if runs else rest
            total = sum_of(coordinate * self.extents(stride), total)
            if all(stride == 0 for _, stride in runs):
                break
            rest = rest / self.extents(extent)
        return total

    def runs(self, group: int, index: Index) -> list[tuple[Extent, Extent]]:
        """Return the group as the fewest (extent, stride) pairs for an affine index."""
        runs: list[tuple[Extent, Extent]] = []
        for axis in self.groups[group]:
            extent, stride = self.shape[axis], index.coefficients[axis]
            if extent == 1:
                continue
            if runs and runs[-1][1] == stride * extent:
                extent = runs.pop()[0] * extent
            runs.append((extent, stride))
        return runs


def collapse(
    shape: Shape, axes: Sequence[int], indices: Iterable[Index], first: Collection[int] = ()
) -> Groups:
    """Gather `axes` into the fewest groups that are single runs for every one of `indices`.

    Those in `first` start a group.
    """
    known = list(indices)
    groups: list[list[int]] = []
    for axis in axes:
        if shape[axis] == 1:
            continue
        joins = groups and axis not in first
        if joins and all(_continues(shape, groups[-1][-1], axis, index) for index in known):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return tuple(tuple(group) for group in groups)


def sum_of(first: E, *rest: E) -> E:
    """Return a sum of indices, associated to the left so that it prints without parentheses."""
    total = first
    for term in rest:
        total = _plus(total, term.node)
    return total


def _plus(total: E, term: Expr) -> E:
    if isinstance(term, Binary) and term.op is BinaryOp.ADD:
        return _plus(_plus(total, term.a), term.b)
    if isinstance(term, Const) and term.value < 0 and not isinstance(total.node, Const):
        return total - -int(term.value)
    return total + E(term)


def divides(expression: Expr) -> bool:
    """True if index arithmetic holds a division or remainder, worth computing once."""
    if not isinstance(expression, Binary):
        return False
    if expression.op in (BinaryOp.DIV, BinaryOp.MOD):
        return True
    return divides(expression.a) or divides(expression.b)


def _continues(shape: Shape, outer: int, inner: int, index: Index) -> bool:
    return index.coefficients[outer] == index.coefficients[inner] * shape[inner]
