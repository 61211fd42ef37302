"""Depthwise convolution: every output channel reads one input channel.

There is nothing to share between channels, so positions of a row fill the vectors, and the taps
of a channel stay in registers over its whole image:

    for channels:  for rows:  for vectors of positions j:
        y[j] = sum over taps t of tap[t] * x[j * stride + t]

With stride 2 a vector is every second element of two that are loaded. Small images are padded on
the stack, a few at a time; larger ones come padded.

Of bytes, four taps of a row are one word: a position's is shuffled out of the bytes of its row.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.memory import given
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.transposes import every_second
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, dot_bytes, fma, index, shuffle
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.ir.declaration import takes
from rlx.ir.lowering import Windowed
from rlx.ir.ops.byte_products import BYTES
from rlx.ir.ops.conv_geometry import (
    ConvAttributes,
    Geometry,
    Planes,
    padded_shape,
    static,
    three,
    undilated,
)
from rlx.ir.shape import Shape, product, upper

_MOST_IN_REGISTERS = 25
"""Taps that are kept in registers and written out; more of them are loops."""

_LARGEST_STEP = 2
"""Between neighboring positions of a row."""

_MOST_SUMS = 2048
"""Elements of a narrow image that are computed before they are stored: half an L1 cache in f64."""


@kernel("conv", "stored_conv", lowering=Windowed)
@takes(ConvAttributes)
def conv_depthwise(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Windowed,
    **_: object,
) -> None:
    k = scope.k
    sliding = window.sliding(len(x.shape))
    planes = Planes.of(padded_shape(x.shape, sliding), w.shape, undilated(sliding))
    outputs, spatial = static(out.shape[1]), tuple(range(2, len(out.shape)))
    each = (spatial,) if planes.flat else tuple((axis,) for axis in spatial)
    target = out.grouped(((0,), (1,), *each))
    taps = w.grouped(((0,), tuple(range(1, len(w.shape)))))
    kind = LoopKind.PARALLEL if is_large(product((*out.shape, *w.shape[1:]))) else LoopKind.SERIAL
    groups = window.groups
    images = _Image(k, given(x), x.shape[2:], sliding, scope.extents, lowering.lanes)

    def plane_at(number: E, memory: Buffer, start: E) -> _Plane:
        image, channel = k.let("image", number / outputs), k.let("channel", number % outputs)
        lines, own = target.at(image, channel), taps.at(channel)
        return _Plane(k, memory, own, lines, start, planes, scope.extents, lowering.lanes)

    def source_of(number: E) -> E:
        return number / outputs * groups + number % outputs / (outputs // groups)

    some = _together(images, planes, lowering.lanes, outputs)
    with k.loop("plane", target.extent(0) * (outputs // some), kind=kind) as plane:
        if some == 1:
            memory, start = images.padded(source_of(plane))
            plane_at(plane, memory, start).compute()
            return
        copies, volume = images.zeros(some), images.volume
        count = _through_rows(planes)
        assert x.memory is not None, "images are read from memory"
        sums = k.local("sums", sum_prim(x.memory), some * count)
        with k.loop("c", some) as c:
            images.copy(source_of(plane * some + c), copies, c * volume)
        with k.loop("c", some) as c:
            plane_at(plane * some + c, copies, c * volume).sum_through(sums, c * count)
        with k.loop("c", some) as c:
            plane_at(plane * some + c, copies, c * volume).store_rows(sums, c * count)


def _together(images: _Image, planes: Planes, lanes: int, outputs: int) -> int:
    """Return how many small images are padded, then summed, then stored.

    What was stored in pieces is loaded in vectors: at once, that waits for the stores.
    """
    if not images.is_copied or planes.positions[0] != 1 or not _is_narrow(planes, lanes):
        return 1
    fit = (n for n in (8, 4, 2) if outputs % n == 0 and n * images.volume <= _MOST_SUMS)
    return next(fit, 1)


@dataclass(frozen=True, slots=True)
class _Image:
    """One channel of an image as stored, and its zero padding."""

    k: KernelBuilder
    memory: Buffer
    spatial: Shape
    sliding: Geometry
    extents: Extents
    lanes: int

    @property
    def is_copied(self) -> bool:
        """True unless images come padded; bytes are read past the end of their rows."""
        padded = any((axis.low, axis.high) != (0, 0) for axis in self.sliding)
        return padded or holds_bytes(self.memory)

    @property
    def volume(self) -> int:
        """The elements of a padded image."""
        return math.prod(self._extents())

    def padded(self, number: E) -> tuple[Buffer, E]:
        """Return the buffer and offset of the padded image: a copy, if it is not padded already."""
        if not self.is_copied:
            return self.memory, self.k.let("start", self._start(number))
        copy = self.zeros(1)
        self.copy(number, copy, index(0))
        return copy, index(0)

    def zeros(self, count: int) -> Buffer:
        """Return room for padded images, filled with zeros."""
        past = 2 * _LARGEST_STEP * self.lanes if holds_bytes(self.memory) else 0
        zeros = self.k.local("padded", self.memory.prim, count * self.volume + past)
        with self.k.loop("i", count * self.volume + past, kind=LoopKind.SIMD) as i:
            self.k.store(zeros, i, 0)
        return zeros

    def copy(self, number: E, target: Buffer, at: E) -> None:
        """Copy an image to where the zeros around it begin."""
        k, low = self.k, three(tuple(axis.low for axis in self.sliding), 0)
        start = k.let("start", self._start(number))
        layers, rows, columns = three(tuple(map(static, self.spatial)))
        _, high, wide = three(self._extents())
        with k.loop("z", layers) as z, k.loop("a", rows) as a:
            line = at + ((z + low[0]) * high + (a + low[1])) * wide + low[2]
            given = start + (z * rows + a) * columns
            for j, lanes in _covered(k, columns, self.lanes):
                k.store(target, line + j, k.load(self.memory, given + j, lanes))

    def _start(self, number: E) -> E:
        return number * self.extents.number(product(self.spatial))

    def _extents(self) -> tuple[int, ...]:
        """Return the spatial extents of the padded image."""
        return tuple(map(static, padded_shape((0, 0, *self.spatial), self.sliding)[2:]))


@dataclass(frozen=True, slots=True)
class _Plane:
    """One channel of one image."""

    k: KernelBuilder
    x: Buffer
    taps: GroupedReader
    target: GroupedWriter
    start: E
    planes: Planes
    extents: Extents
    lanes: int

    def compute(self) -> None:
        k, planes = self.k, self.planes
        kept = self._kept()
        plane = self.extents.number(product(planes.extents[1:]) * planes.strides[0])
        with k.loop("layer", self.extents.number(planes.positions[0])) as layer:
            start = k.let("first", self.start + layer * plane)
            if _is_narrow(planes, self.lanes):
                self._through(layer, start, kept)
            else:
                self._by_row(layer, start, kept)

    def _through(self, layer: E, start: E, kept: list[E] | None) -> None:
        """Compute straight through all rows, also between them, and store what is in the result."""
        sums = self.k.local("sums", sum_prim(self.x), _through_rows(self.planes))
        self._sum_through(sums, index(0), start, kept)
        self._store_rows(sums, index(0), layer)

    def sum_through(self, sums: Buffer, at: E) -> None:
        """Compute all rows of the only layer, from `at` on."""
        self._sum_through(sums, at, self.start, self._kept())

    def store_rows(self, sums: Buffer, at: E) -> None:
        """Store the only layer from what `sum_through` computed."""
        self._store_rows(sums, at, index(0))

    def _sum_through(self, sums: Buffer, at: E, start: E, kept: list[E] | None) -> None:
        k = self.k
        for i, lanes in _covered(k, _through_rows(self.planes), self.lanes):
            k.store(sums, at + i, self._total(k.let("at", start + i), lanes, kept))

    def _store_rows(self, sums: Buffer, at: E, layer: E) -> None:
        k, planes = self.k, self.planes
        _, rows, columns = map(static, planes.positions)
        with k.loop("row", rows) as row:
            target = self.target.at(*self._outer(layer, row))
            line = at + row * static(planes.extents[2])
            with k.loop("j", columns, kind=LoopKind.SIMD) as j:
                target.write(j, value=k.load(sums, line + j))

    def _by_row(self, layer: E, start: E, kept: list[E] | None) -> None:
        k, planes = self.k, self.planes
        _, rows, columns = map(self.extents.number, planes.positions)
        down = self.extents.number(planes.extents[2] * planes.strides[1])
        with k.loop("row", rows) as row:
            line = k.let("line", start + row * down)
            target = self.target.at(*self._outer(layer, row))
            for first, last, lanes in _pieces(columns, self.lanes):
                with k.loop("j", last, start=first, step=lanes) as j:
                    at = k.let("at", line + j * planes.strides[2])
                    total = self._total(at, max(lanes, self._fewest), kept)
                    if lanes >= max(2, self._fewest):
                        target.write_vector(j, value=total)
                        continue
                    for lane in range(lanes):
                        one = total if total.type.lanes == 1 else total.lane(lane)
                        target.write(j + lane, value=one)

    def _outer(self, layer: E, row: E) -> tuple[E, ...]:
        """Return the indices of the result's spatial axes but the last."""
        axes = len(self.target.grid.groups) - 2
        return ((), (row,), (layer, row))[axes - 1]

    @property
    def _fewest(self) -> int:
        """Lanes of the narrowest vector."""
        return BYTES if holds_bytes(self.x) else 1

    @property
    def _step(self) -> int:
        """Taps along a row that are multiplied at a time."""
        return BYTES if holds_bytes(self.x) else 1

    def _kept(self) -> list[E] | None:
        """Return the taps by name; None for so many that loops read them."""
        count = product(self.planes.taps)
        if not isinstance(count, int) or count > self._step * _MOST_IN_REGISTERS:
            return None
        return [self.k.let("tap", self._tap(index(t))) for t in range(0, count, self._step)]

    def _tap(self, number: E) -> E:
        """Return a tap, or four as a word."""
        if not holds_bytes(self.x):
            return self.taps.read_real(number)
        return self.taps.read_vector(number, lanes=BYTES).bitcast(Prim.I32)

    def _total(self, at: E, lanes: int, kept: list[E] | None) -> E:
        """Return the sums of `lanes` positions whose first window starts at `at`."""
        if kept is None:
            return self._looped(at, lanes)
        total, (layers, rows, columns) = const(0, sum_prim(self.x), lanes), self.planes.taps
        places = itertools.product(range(layers), range(rows), range(0, columns, self._step))
        for tap, place in zip(kept, places, strict=True):
            far = self._far(*map(index, place))
            total = self.k.let("total", self._add(tap, at + far, total))
        return total

    def _add(self, tap: E, at: E, total: E) -> E:
        """Return a total with a tap of each of its lanes' positions."""
        elements = self._elements(at, total.type.lanes)
        return (dot_bytes(elements, tap, total) if holds_bytes(self.x)
                else fma(tap, elements, total))  # fmt: skip

    def _looped(self, at: E, lanes: int) -> E:
        k, taps = self.k, self.planes.taps
        total = k.mutable("total", const(0, sum_prim(self.x), lanes))
        with (
            k.loop("z", taps[0]) as z,
            k.loop("a", taps[1]) as a,
            k.loop("b", taps[2], step=self._step) as b,
        ):
            tap = self._tap((z * taps[1] + a) * taps[2] + b)
            total.set(self._add(tap, at + self._far(z, a, b), total))
        return total

    def _far(self, z: E, a: E, b: E) -> E:
        """Return the offset of a tap from the first one."""
        planes, (_, high, wide) = self.planes, map(self.extents.number, self.planes.extents)
        return (z * planes.dilations[0] * high + a * planes.dilations[1]) * wide + (
            b * planes.dilations[2]
        )

    def _elements(self, at: E, lanes: int) -> E:
        """Return the elements that `lanes` neighboring positions read under one tap, or word."""
        k, stride = self.k, self.planes.strides[2]
        if holds_bytes(self.x):
            return _words(k.let("row", k.load(self.x, at, 2 * stride * lanes)), lanes, stride)
        if lanes == 1 or stride == 1:
            return k.load(self.x, at, lanes)
        low, high = k.load(self.x, at, lanes), k.load(self.x, at + (lanes - 1), lanes)
        return every_second(low, high)


def _words(row: E, lanes: int, stride: int) -> E:
    """Return the word of four bytes of each of `lanes` positions that are `stride` bytes apart.

    First words are moved to the sixteen bytes in which they are needed, then bytes inside of these:
    processors do both in one instruction each, or in one together.
    """
    words, last = row.bitcast(Prim.U32), row.type.lanes // BYTES - 1
    near = [
        min(first * stride + word, last) for first in range(lanes // BYTES) for word in range(BYTES)
    ]
    bytes = shuffle(words, words, near).bitcast(Prim.U8)
    each = [i * stride + byte for i in range(BYTES) for byte in range(BYTES)]
    places = [first + place for first in range(0, lanes * BYTES, len(each)) for place in each]
    return shuffle(bytes, bytes, places).bitcast(Prim.I32 if row.type.prim is Prim.I8 else Prim.U32)


def holds_bytes(image: Buffer) -> bool:
    return image.prim.size == 1


def sum_prim(image: Buffer) -> Prim:
    """Return the type in which the elements of an image are summed."""
    return Prim.I32 if holds_bytes(image) else image.prim


def _is_narrow(planes: Planes, lanes: int) -> bool:
    """True if rows of known extents leave many lanes idle, and windows move by one element."""
    _, rows, columns = planes.positions
    area = rows * planes.extents[2]
    small = isinstance(area, int) and area <= _MOST_SUMS and upper(columns) < 2 * lanes
    return small and set(planes.strides[1:]) == {1}


def _through_rows(planes: Planes) -> int:
    """Return the positions of all rows and of the gaps between them."""
    _, rows, columns = map(static, planes.positions)
    return (rows - 1) * static(planes.extents[2]) + columns


def _covered(k: KernelBuilder, count: int, lanes: int) -> Iterator[tuple[E, int]]:
    """Yield where vectors begin that cover `count` elements, and their lanes.

    The last one overlaps the one before: what both store must be the same.
    """
    lanes = min(lanes, 1 << count.bit_length() >> 1)
    if count == 0:
        return
    with k.loop("i", count // lanes * lanes, step=lanes) as i:
        yield i, lanes
    if count % lanes:
        yield index(count - lanes), lanes


def _pieces(columns: int | E, lanes: int) -> Iterator[tuple[int | E, int | E, int]]:
    """Yield (first, last, lanes) of the parts of a row, each in vectors half as wide."""
    first: int | E = 0
    while lanes:
        last = first + _whole(columns - first, lanes)
        if not isinstance(last, int) or not isinstance(first, int) or last > first:
            yield first, last, lanes
        first, lanes = last, lanes // 2


def _whole(count: int | E, lanes: int) -> int | E:
    """Return the elements of the vectors that are full."""
    return count // lanes * lanes if isinstance(count, int) else count / lanes * lanes
