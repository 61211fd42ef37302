"""Depthwise convolution of images whose channels lie side by side: channels fill the vectors.

Some positions of a row are computed together, so that each tap is loaded once for them all and
each element once for all taps that meet it:

    for rows:  for tiles of a row:  for vectors of channels c:
        for taps a, b:  for positions i:  sums[i] += x[at(i) + (a, b), c] * w[a, b, c]

Rows of taps that lie outside of the image are left out, and so are taps at the ends of a row,
whose positions are written out: nothing is padded or guarded. Each tile that is written out costs
time to compile, so there are few: the last tile inside of a row and the last vector of channels
overlap those before them, unless the kernel works in place, where nothing may be computed twice.
What follows on the sums is written once for all positions of a tile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from rlx.codegen.kernels.access import GroupedWriter, Reader, Writer
from rlx.codegen.kernels.parallel import rows
from rlx.codegen.kernels.pool.pool import ceil_div
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.declaration import takes
from rlx.ir.lowering import Windowed
from rlx.ir.ops.conv_geometry import ConvAttributes, Sliding, static
from rlx.ir.shape import product

_MOST_POSITIONS = 8
_REGISTERS_BESIDE, _REGISTERS_EACH = 4, 3
"""Registers of a tile: taps and to spare, and for a position its sum and about two elements."""


@kernel("conv_channels_last", lowering=Windowed)
@takes(ConvAttributes)
def conv_depthwise_channels_last(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Windowed,
) -> None:
    if x.memory is None or w.memory is None:
        raise InternalError("operands of a depthwise convolution must be in memory")
    k, rank = scope.k, len(out.shape)
    target = out.grouped(tuple((axis,) for axis in range(rank)))
    budget = (scope.target.vector_registers - _REGISTERS_BESIDE) // _REGISTERS_EACH
    repeats = not any(memory.may_alias for memory in scope.body.inputs.values())
    work = _Rows(
        k, x.memory, w.memory, target, lowering.lanes, window.groups,
        tuple(map(static, x.shape[1:-1])), tuple(map(static, w.shape[:-2])),
        tuple(map(static, out.shape[1:-1])), window.sliding(rank),
        max(1, min(_MOST_POSITIONS, budget)), repeats,
    )  # fmt: skip
    lines = math.prod(work.positions[:-1])
    with rows(k, "line", target.extent(0) * lines, product((*out.shape, *w.shape[:-2]))) as line:
        work.compute(line)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Tiles of a row, of equal size, from position `start` to `stop`."""

    start: int
    stop: int
    size: int


@dataclass(frozen=True, slots=True)
class _Place:
    """A line of the result, and the taps of outer axes that meet an element."""

    indices: tuple[E, ...]
    """Image, and positions along all axes but the last."""
    seen: tuple[E, ...]
    """Along each of these axes, the element that its first tap meets."""
    first: tuple[E, ...]
    stop: tuple[E, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows of one convolution."""

    k: KernelBuilder
    x: Buffer
    w: Buffer
    target: GroupedWriter
    lanes: int
    channels: int
    extents: tuple[int, ...]
    taps: tuple[int, ...]
    positions: tuple[int, ...]
    sliding: tuple[Sliding, ...]
    tile: int
    """Positions that are computed together at most."""
    repeats: bool
    """True if an element may be computed twice: no operand lies where the result does."""

    def compute(self, line: E) -> None:
        """Compute one line of the result."""
        k, place = self.k, self._place(line)
        for segment in self._segments():
            if segment.stop - segment.start <= segment.size:
                self._channels(place, segment.start, segment.size)
                continue
            span = k.loop("column", segment.stop, start=segment.start, step=segment.size)
            with span as column:
                first = self._not_beyond(column, segment)
                self._channels(place, first, segment.size)

    def _not_beyond(self, at: E, segment: _Segment) -> E:
        """Return where a tile begins: the last one of a segment ends with it."""
        if (segment.stop - segment.start) % segment.size == 0:
            return at
        return self.k.let("first", minimum(at, segment.stop - segment.size))

    def _place(self, line: E) -> _Place:
        k = self.k
        places: list[E] = []
        for extent in reversed(self.positions[:-1]):
            places.append(k.let("place", line % extent))
            line = k.let("rest", line / extent)
        place = tuple(reversed(places))
        axes = list(zip(place, self.sliding, self.extents, self.taps, strict=False))
        seen = tuple(k.let("seen", at * axis.stride - axis.low) for at, axis, _, _ in axes)
        first, stop = [], []
        for at, (_, axis, extent, taps) in zip(seen, axes, strict=True):
            plain = (axis.low, axis.high) == (0, 0)
            before = maximum(ceil_div(at * -1, axis.dilation), 0)
            after = minimum(ceil_div(extent - at, axis.dilation), taps)
            first.append(index(0) if plain else k.let("first_tap", before))
            stop.append(index(taps) if plain else k.let("stop_tap", maximum(after, 0)))
        return _Place((line, *place), seen, tuple(first), tuple(stop))

    def _segments(self) -> Iterator[_Segment]:
        """Yield the tiles of a row; those whose windows lie inside the image are one segment."""
        columns = self.positions[-1]
        if self.repeats and columns > 2 * self.tile:
            yield from self._edges_and_inside(columns)
            return
        size = -(-columns // -(-columns // self.tile)) if columns else 1
        inside: list[int] = []
        for start in range(0, columns, size):
            count = min(size, columns - start)
            if count == size and self._is_inside(start, count):
                inside.append(start)
                continue
            if inside:
                yield _Segment(inside[0], inside[-1] + size, size)
                inside = []
            yield _Segment(start, start + count, count)
        if inside:
            yield _Segment(inside[0], inside[-1] + size, size)

    def _edges_and_inside(self, columns: int) -> Iterator[_Segment]:
        """Yield the positions at the start, the tiles inside, and the positions at the end."""
        inside = [at for at in range(columns) if self._is_inside(at, 1)]
        start, stop = (inside[0], inside[-1] + 1) if inside else (columns, columns)
        yield from self._pieces(0, start)
        if inside:
            tiles = -(-len(inside) // self.tile)
            yield _Segment(start, stop, -(-len(inside) // tiles))
        yield from self._pieces(stop, columns)

    def _pieces(self, start: int, stop: int) -> Iterator[_Segment]:
        """Yield the tiles of positions whose windows reach beyond the image."""
        for at in range(start, stop, self.tile):
            last = min(at + self.tile, stop)
            yield _Segment(at, last, last - at)

    def _is_inside(self, start: int, count: int) -> bool:
        axis = self.sliding[-1]
        last = (start + count - 1) * axis.stride + (self.taps[-1] - 1) * axis.dilation - axis.low
        return start * axis.stride >= axis.low and last < self.extents[-1]

    def _channels(self, place: _Place, start: E | int, size: int) -> None:
        """Compute a tile, vector of channels by vector, and one by one what is left."""
        k, whole = self.k, self.channels // self.lanes * self.lanes
        if self.repeats and 0 < whole < self.channels:
            with k.loop("vector", whole + self.lanes, step=self.lanes) as vector:
                c = k.let("c", minimum(vector, self.channels - self.lanes))
                self._tile(place, start, size, c, self.lanes)
            return
        if whole:
            with k.loop("c", whole, step=self.lanes) as c:
                self._tile(place, start, size, c, self.lanes)
        if whole < self.channels:
            with k.loop("c", self.channels, start=whole) as c:
                self._tile(place, start, size, c, 1)

    def _tile(self, place: _Place, start: E | int, size: int, c: E, lanes: int) -> None:
        k = self.k
        sums = k.local("sums", self.x.prim, size * lanes)
        with k.loop("i", size, kind=LoopKind.UNROLL) as i:
            k.store(sums, i * lanes, const(0, self.x.prim, lanes))
        self._outer_taps(
            place, [], lambda taps: self._row(place, taps, sums, start, size, c, lanes)
        )
        totals = k.local("totals", self.x.prim, size * lanes)
        with k.loop("i", size, kind=LoopKind.UNROLL) as i:
            k.store(totals, i * lanes, k.load(sums, i * lanes, lanes))
        with k.loop("i", size) as i:
            position = self.target.at(*place.indices, index(start) + i)
            value = k.load(totals, i * lanes, lanes)
            if lanes == 1:
                position.write(c, value=value)
            else:
                position.write_vector(c, value=value)

    def _outer_taps(self, place: _Place, taps: list[E], body: Callable[[list[E]], None]) -> None:
        """Go over the taps of all axes but the last that meet an element."""
        axis = len(taps)
        if axis == len(self.taps) - 1:
            body(taps)
            return
        name = ("a", "z")[len(self.taps) - 2 - axis]
        with self.k.loop(name, place.stop[axis], start=place.first[axis]) as tap:
            self._outer_taps(place, [*taps, tap], body)

    def _row(
        self,
        place: _Place,
        taps: list[E],
        sums: Buffer,
        start: E | int,
        size: int,
        c: E,
        lanes: int,
    ) -> None:
        """Add what the taps of one row give to a tile."""
        k, axis, width = self.k, self.sliding[-1], self.extents[-1]
        row, weights = place.indices[0], index(0)
        for at, tap, extent, count, other in zip(
            place.seen, taps, self.extents, self.taps, self.sliding, strict=False
        ):
            row, weights = row * extent + (at + tap * other.dilation), weights * count + tap
        left = start * axis.stride - axis.low
        source = k.let("source", (row * width + left) * self.channels + c)
        weights = k.let("weights", weights * (self.taps[-1] * self.channels) + c)

        def add(b: E, first: int, stop: int) -> None:
            tap = k.let("tap", k.load(self.w, weights + b * self.channels, lanes))
            with k.loop("i", stop, start=first, kind=LoopKind.UNROLL) as i:
                away = (i * axis.stride + b * axis.dilation) * self.channels
                total = k.load(sums, i * lanes, lanes)
                k.store(sums, i * lanes, fma(k.load(self.x, source + away, lanes), tap, total))

        if not isinstance(start, int) or self._is_inside(start, size):
            with k.loop("b", self.taps[-1], kind=LoopKind.UNROLL) as b:
                add(b, 0, size)
            return
        for number in range(self.taps[-1]):
            met = [
                i
                for i in range(size)
                if 0 <= left + i * axis.stride + number * axis.dilation < width
            ]
            if met:
                add(index(number), met[0], met[-1] + 1)
