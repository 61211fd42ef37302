"""Kernels along axes: one slice at a time where the axis runs fastest, else blocks of columns.

A kernel along an axis sees its operand as (outer, axis, inner). With nothing inside, a slice
is contiguous: one loop over slices, and vectors run along the axis. Otherwise vectors run
across `COLUMNS` neighboring slices, whose accumulators are small local arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.loops.expr import E, minimum
from rlx.codegen.loops.nodes import LoopKind
from rlx.ir.shape import Extent, Shape, normalize_axis, product, upper

COLUMNS = 64
"""Neighboring slices worked on together: four cache lines of f32 per step along the axis."""


@dataclass(frozen=True, slots=True)
class Slices:
    """A shape split around one axis."""

    shape: Shape
    axis: int

    @property
    def groups(self) -> Groups:
        axes = tuple(range(len(self.shape)))
        return axes[: self.axis], (self.axis,), axes[self.axis + 1 :]

    @property
    def length(self) -> Extent:
        return self.shape[self.axis]

    @property
    def outer(self) -> Extent:
        return product(self.shape[: self.axis])

    @property
    def inner(self) -> Extent:
        return product(self.shape[self.axis + 1 :])

    @property
    def are_rows(self) -> bool:
        """True if each slice is contiguous."""
        return self.inner == 1


def slices(shape: Shape, axis: int) -> Slices:
    return Slices(shape, normalize_axis(axis, len(shape)))


@dataclass(frozen=True, slots=True)
class Columns:
    """A block of neighboring slices: `outer` index, first column and number of columns."""

    outer: E
    start: E
    width: E


@contextmanager
def column_blocks(scope: Scope, outer: Extent, inner: Extent, work: Extent) -> Iterator[Columns]:
    """Open the loop over blocks of at most `COLUMNS` columns."""
    k, extents = scope.k, scope.extents
    count = (extents(inner) + (COLUMNS - 1)) / COLUMNS
    kind = LoopKind.PARALLEL if is_large(work) else LoopKind.SERIAL
    with k.loop("block", extents(outer) * count, kind=kind) as block:
        if upper(inner) <= COLUMNS:
            yield Columns(block, extents(0), extents(inner))
            return
        before = extents(0) if outer == 1 else k.let("outer", block / count)
        start = k.let("start", (block if outer == 1 else block % count) * COLUMNS)
        width = extents(COLUMNS)
        if not isinstance(inner, int) or inner % COLUMNS:
            width = k.let("width", minimum(extents(inner) - start, COLUMNS))
        yield Columns(before, start, width)


def column_width(inner: Extent) -> int:
    """Return the elements that a local array of one block needs."""
    return max(1, min(COLUMNS, upper(inner)))
