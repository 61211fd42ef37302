"""Kernels along axes: one slice at a time where the axis runs fastest, else blocks of columns.

A kernel along an axis sees its operand as (outer, axis, inner). With nothing inside, a slice
is contiguous: one loop over slices, and vectors run along the axis. Otherwise vectors run
across a block of neighboring slices, whose accumulators are small local arrays. Blocks are as
wide as leaves enough of them for the threads: every step along the axis is then a long run
through memory, which the prefetcher can follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.kernels.affine import Groups
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope
from rlx.codegen.loops.expr import E, minimum
from rlx.dataclass import dataclass
from rlx.ir.shape import Extent, Shape, normalize_axis, product, upper

FEWEST_COLUMNS, MOST_COLUMNS = 64, 1024
"""Neighboring slices worked on together: from four cache lines of f32 to a page."""

_BLOCKS = 8
"""Blocks that are wanted before they get wider."""

_KEPT_ELEMENTS = 1 << 16
"""Elements of a block that is read several times: 256 KiB of f32 stay in the second cache."""


@dataclass(frozen=True, slots=True)
class Slices:
    """A shape split by the axes that slices run along: one, or several that are folded."""

    shape: Shape
    groups: Groups
    """The axes before the last of the slices' axes, these, and the axes after it."""

    @property
    def length(self) -> Extent:
        return self._extent(1)

    @property
    def outer(self) -> Extent:
        return self._extent(0)

    @property
    def inner(self) -> Extent:
        return self._extent(2)

    @property
    def are_rows(self) -> bool:
        """True if each slice is contiguous, or some runs that are."""
        return self.inner == 1

    def _extent(self, group: int) -> Extent:
        return product(self.shape[axis] for axis in self.groups[group])


def slices(shape: Shape, *axes: int) -> Slices:
    """Split a shape by axes in ascending order."""
    own = tuple(normalize_axis(axis, len(shape)) for axis in axes)
    kept = [axis for axis in range(len(shape)) if axis not in own]
    outer = tuple(axis for axis in kept if axis < own[-1])
    return Slices(shape, (outer, own, tuple(kept[len(outer) :])))


@dataclass(frozen=True, slots=True)
class Columns:
    """A block of neighboring slices: `outer` index, first column and number of columns."""

    outer: E
    start: E
    width: E
    most: int
    """The largest number of columns of any block: what local arrays have to hold."""


@contextmanager
def column_blocks(
    scope: Scope, outer: Extent, inner: Extent, work: Extent, *, kept: Extent = 1
) -> Iterator[Columns]:
    """Open the loop over blocks of columns; `kept` rows of a block are read more than once."""
    k, extents = scope.k, scope.extents
    columns = column_width(outer, inner, kept)
    count = (extents(inner) + (columns - 1)) / columns
    with rows(k, "block", extents(outer) * count, work) as block:
        if upper(inner) <= columns:
            yield Columns(block, extents(0), extents(inner), columns)
            return
        before = extents(0) if outer == 1 else k.let("outer", block / count)
        start = k.let("start", (block if outer == 1 else block % count) * columns)
        width = extents(columns)
        if not isinstance(inner, int) or inner % columns:
            width = k.let("width", minimum(extents(inner) - start, columns))
        yield Columns(before, start, width, columns)


def column_width(outer: Extent, inner: Extent, kept: Extent = 1) -> int:
    """Return how many columns a block has: fewer where blocks are few, or many rows are kept."""
    width = MOST_COLUMNS
    while width > FEWEST_COLUMNS and (
        upper(outer) * -(-upper(inner) // width) < _BLOCKS or upper(kept) * width > _KEPT_ELEMENTS
    ):
        width //= 2
    return max(1, min(width, upper(inner)))
