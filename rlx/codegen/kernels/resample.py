"""Weighted sums of elements at given positions along one axis.

Where axes follow the resampled one, an element of the result is a row of sums in vectors.
Along the last axis elements are anywhere in a row: positions and weights are read once for a
few rows, which are resampled side by side.
"""

from __future__ import annotations

import functools
import operator

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.indexing import checked_index, clamped_index
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import LoopKind
from rlx.dataclass import dataclass
from rlx.errors import InternalError, ShapeError
from rlx.ir.shape import Extent, divide, normalize_axis, product

_SIDE_BY_SIDE = (8, 4, 2)
"""Rows that may share positions and weights."""


@kernel("resample")
def resample(
    scope: Scope, x: Reader, indices: Reader, weights: Reader, y: Writer, *, axis: int
) -> None:
    """Sum elements of `x` at the positions of each element of the result."""
    axis = normalize_axis(axis, len(x.shape))
    axes = tuple(range(len(x.shape)))
    groups = (axes[:axis], (axis,), axes[axis + 1 :])
    work = _Work(scope, x.grouped(groups), y.grouped(groups), y.type.elements)
    flat = ((0, 1),)
    clamps = _clamps(x, indices, axis)
    taps = _Taps(work, indices.grouped(flat), weights.grouped(flat), _count(indices), clamps)
    if product(x.shape[axis + 1 :]) == 1:
        _along_rows(work, taps, _side_by_side(product(x.shape[:axis])))
    else:
        _across_rows(work, taps)
    if clamps:
        taps.check()


def _clamps(x: Reader, indices: Reader, axis: int) -> bool:
    """True if any index can be moved into the axis, so that the checks may come last."""
    extent = x.shape[axis]
    known = isinstance(extent, int) and extent > 0
    return known and not compute_prim(indices.dtype).is_float


def _count(indices: Reader) -> int:
    count = indices.shape[0]
    if not isinstance(count, int):
        raise InternalError("the number of taps must be known")
    return count


@dataclass(frozen=True, slots=True)
class _Work:
    """What is read and written: axes in front, the resampled one, and those after it."""

    scope: Scope
    source: GroupedReader
    target: GroupedWriter
    elements: Extent


@dataclass(frozen=True, slots=True)
class _Taps:
    """Positions and weights of the elements of a result, `[taps, size]` each."""

    work: _Work
    indices: GroupedReader
    weights: GroupedReader
    count: int
    clamps: bool

    def at(self, position: E) -> list[tuple[E, E]]:
        """Name the positions and weights of one element."""
        scope, size = self.work.scope, self.work.target.extent(1)
        read = clamped_index if self.clamps else checked_index
        found = []
        for tap in range(self.count):
            at = size * tap + position
            index = read(scope, self.indices, at, self.work.source.extent(1))
            found.append((index, scope.k.let("weight", self.weights.read_real(at))))
        return found

    def check(self) -> None:
        """Leave the kernel if a position is outside of the axis."""
        scope = self.work.scope
        with scope.k.loop("at", self.work.target.extent(1) * self.count) as at:
            checked_index(scope, self.indices, at, self.work.source.extent(1))


def _side_by_side(outer: Extent) -> int:
    """Return how many rows share positions and weights: all must come in groups of so many."""
    for count in _SIDE_BY_SIDE:
        try:
            divide(outer, count)
        except ShapeError:
            continue
        return count
    return 1


def _along_rows(work: _Work, taps: _Taps, count: int) -> None:
    """Resample `count` rows at a time, element by element."""
    k, nothing = work.scope.k, work.scope.extents(0)
    with rows(k, "block", work.source.extent(0) / count, work.elements) as block:
        lines = [k.let("row", block * count + number) for number in range(count)]
        with k.loop("j", work.target.extent(1)) as j:
            chosen = taps.at(j)
            for line in lines:
                total = _sum([(work.source.read_real(line, i, nothing), w) for i, w in chosen])
                work.target.write(line, j, nothing, value=total)


def _across_rows(work: _Work, taps: _Taps) -> None:
    """Sum rows in vectors."""
    k, count = work.scope.k, work.target.extent(1)
    with rows(k, "row", work.source.extent(0) * count, work.elements) as row:
        outer, position = k.let("outer", row / count), k.let("position", row % count)
        plane = work.source.at(outer)
        parts = [(plane.at(index), weight) for index, weight in taps.at(position)]
        result = work.target.at(outer, position)
        with k.loop("i", result.extent(0), kind=LoopKind.SIMD) as i:
            result.write(i, value=_sum([(part.read_real(i), weight) for part, weight in parts]))


def _sum(terms: list[tuple[E, E]]) -> E:
    return functools.reduce(operator.add, (value * weight for value, weight in terms))
