"""Windows that reach outside of an image: the taps of a position, and the tiles of a row.

Nothing is padded or guarded. Taps of outer axes that are outside of the image are left out of the
loop over taps. Along a row, the tiles whose windows are inside are one loop; those at its ends are
unrolled, with the rows that each tap reads an element for.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.codegen.kernels.contraction.spans import Range
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, Operand, index, maximum, minimum
from rlx.dataclass import dataclass
from rlx.ir.ops.conv_geometry import WindowDimension


@dataclass(frozen=True, slots=True)
class Segment:
    """Tiles of a row, of equal size but for the last, from position `start` to `stop`."""

    start: int
    stop: int
    size: int
    is_inside: bool


@dataclass(frozen=True, slots=True)
class Border:
    """How windows of `taps` move along an axis of `extent` elements."""

    sliding: WindowDimension
    extent: int
    taps: int
    axis: int
    """Which index of a tile is that of the axis: of the outer ones, then down and across."""

    def taps_at(self, k: KernelBuilder, position: E) -> Range:
        """Return the taps that have an element at a position of the result."""
        sliding = self.sliding
        if (sliding.low, sliding.high) == (0, 0):
            return index(0), index(self.taps)
        seen = k.let("seen", position * sliding.stride - sliding.low)
        return taps_inside(k, seen, sliding.dilation, self.extent, self.taps)

    def rows(self, start: int, count: int, tap: int) -> tuple[int, int] | None:
        """Return which of `count` positions from `start` on a tap has elements for."""
        sliding = self.sliding
        places = ((start + i) * sliding.stride + tap * sliding.dilation for i in range(count))
        inside = [i for i, at in enumerate(places) if 0 <= at - sliding.low < self.extent]
        return (inside[0], inside[-1] + 1) if inside else None

    def segments(self, positions: int, size: int) -> Iterator[Segment]:
        """Yield the positions at the start, the tiles inside, and the positions at the end.

        A row of one or two tiles is these.
        """
        if positions <= 2 * size:
            yield from _pieces(0, positions, -(-positions // -(-positions // size)))
            return
        whole = range(self.taps)
        inside = [at for at in range(positions) if all(self.rows(at, 1, tap) for tap in whole)]
        start, stop = (inside[0], inside[-1] + 1) if inside else (positions, positions)
        yield from _pieces(0, start, size)
        if inside:
            tiles = -(-len(inside) // size)
            yield Segment(start, stop, -(-len(inside) // tiles), True)
        yield from _pieces(stop, positions, size)


def _pieces(start: int, stop: int, size: int) -> Iterator[Segment]:
    for at in range(start, stop, size):
        last = min(at + size, stop)
        yield Segment(at, last, last - at, False)


def taps_inside(k: KernelBuilder, seen: E, dilation: int, extent: Operand, taps: int) -> Range:
    """Return which taps of a window are inside of `extent`, whose first one is at `seen`."""
    first = maximum(ceil_div(seen * -1, dilation), 0)
    stop = minimum(ceil_div(index(extent) - seen, dilation), taps)
    return k.let("first_tap", first), k.let("stop_tap", maximum(stop, 0))


def ceil_div(value: E, divisor: int) -> E:
    """Divide and round up; a negative value gives 0 or less."""
    return value if divisor == 1 else (value + (divisor - 1)) / divisor
