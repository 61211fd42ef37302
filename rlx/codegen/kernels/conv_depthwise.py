"""Depthwise convolution: every output channel sees one input channel.

There is nothing to share between channels, so positions of a row fill the vectors, and the taps
of a channel stay in registers over its whole image:

    for channels:  for rows:  for vectors of positions j:
        y[j] = sum over taps t of tap[t] * x[j * stride + t]

With stride 2 a vector is every second element of two that are loaded. Small images are padded on
the stack, one at a time; larger ones come padded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlx.codegen.kernels.access import GroupedReader, GroupedWriter, Reader, Writer
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.parallel import is_large
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.transposes import every_second
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.errors import InternalError
from rlx.ir.lowering import Windowed
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Numbers,
    Pads,
    Planes,
    bare,
    geometry,
    padded_shape,
    static,
    three,
)
from rlx.ir.shape import Shape, product, upper

_MOST_IN_REGISTERS = 25
"""Taps that are kept in registers and written out; more of them are loops."""

_MOST_SUMS = 2048
"""Elements of a narrow image that are computed before they are stored: half an L1 cache in f64."""


@kernel("conv", lowering=Windowed)
def conv_depthwise(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    *,
    lowering: Windowed,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    input_dilation: Numbers,
    groups: int,
) -> None:
    k = scope.k
    sliding = geometry(len(x.shape) - 2, stride, padding, dilation, input_dilation)
    planes = Planes.of(padded_shape(x.shape, sliding), w.shape, bare(sliding))
    if x.memory is None:
        raise InternalError("the input of a depthwise convolution must lie in memory")
    outputs, spatial = static(out.shape[1]), tuple(range(2, len(out.shape)))
    each = (spatial,) if planes.flat else tuple((axis,) for axis in spatial)
    target = out.grouped(((0,), (1,), *each))
    taps = w.grouped(((0,), tuple(range(1, len(w.shape)))))
    kind = LoopKind.PARALLEL if is_large(product((*out.shape, *w.shape[1:]))) else LoopKind.SERIAL
    with k.loop("plane", target.extent(0) * outputs, kind=kind) as plane:
        image, channel = k.let("image", plane / outputs), k.let("channel", plane % outputs)
        source = image * groups + channel / (outputs // groups)
        memory, start = _Image(k, x.memory, x.shape[2:], sliding, scope.extents).padded(source)
        lines = target.at(image, channel)
        _Plane(
            k, memory, taps.at(channel), lines, start, planes, scope.extents, lowering.lanes
        ).compute()


@dataclass(frozen=True, slots=True)
class _Image:
    """One channel of an image as it lies in memory, and the zeros around it."""

    k: KernelBuilder
    memory: Buffer
    spatial: Shape
    sliding: Geometry
    extents: Extents

    def padded(self, number: E) -> tuple[Buffer, E]:
        """Return where the padded image lies and starts: a copy, if it is not padded already."""
        k, low = self.k, three(tuple(axis.low for axis in self.sliding), 0)
        start = k.let("start", number * self.extents.number(product(self.spatial)))
        if all((axis.low, axis.high) == (0, 0) for axis in self.sliding):
            return self.memory, start
        layers, rows, columns = three(tuple(map(static, self.spatial)))
        _, high, wide = three(self._extents())
        volume = math.prod(self._extents())
        copy = k.local("padded", self.memory.prim, volume)
        with k.loop("i", volume, kind=LoopKind.SIMD) as i:
            k.store(copy, i, 0)
        with k.loop("z", layers) as z, k.loop("a", rows) as a:
            line = ((z + low[0]) * high + (a + low[1])) * wide + low[2]
            with k.loop("j", columns, kind=LoopKind.SIMD) as j:
                element = k.load(self.memory, start + (z * rows + a) * columns + j)
                k.store(copy, line + j, element)
        return copy, index(0)

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
            if self._is_narrow():
                self._through(layer, start, kept)
            else:
                self._by_row(layer, start, kept)

    def _is_narrow(self) -> bool:
        """True if rows of known extents leave many lanes idle, and windows move by one element."""
        _, rows, columns = self.planes.positions
        area = rows * self.planes.extents[2]
        small = isinstance(area, int) and area <= _MOST_SUMS and upper(columns) < 2 * self.lanes
        return small and set(self.planes.strides[1:]) == {1}

    def _through(self, layer: E, start: E, kept: list[E] | None) -> None:
        """Compute straight through all rows, also between them, and store what is in the result."""
        k, planes = self.k, self.planes
        _, rows, columns = map(static, planes.positions)
        wide = static(planes.extents[2])
        count = (rows - 1) * wide + columns
        sums = k.local("sums", self.x.prim, count)
        for first, last, lanes in _pieces(count, self.lanes):
            with k.loop("i", last, start=first, step=lanes) as i:
                k.store(sums, i, self._total(k.let("at", start + i), lanes, kept))
        with k.loop("row", rows) as row:
            target = self.target.at(*self._outer(layer, row))
            with k.loop("j", columns, kind=LoopKind.SIMD) as j:
                target.write(j, value=k.load(sums, row * wide + j))

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
                    total = self._total(at, lanes, kept)
                    if lanes == 1:
                        target.write(j, value=total)
                    else:
                        target.write_vector(j, value=total)

    def _outer(self, layer: E, row: E) -> tuple[E, ...]:
        """Return the indices of the result's spatial axes but the last."""
        axes = len(self.target.grid.groups) - 2
        return ((), (row,), (layer, row))[axes - 1]

    def _kept(self) -> list[E] | None:
        """Return the taps by name; None for so many that loops read them."""
        count = product(self.planes.taps)
        if not isinstance(count, int) or count > _MOST_IN_REGISTERS:
            return None
        return [self.k.let("tap", self.taps.read_real(index(t))) for t in range(count)]

    def _total(self, at: E, lanes: int, kept: list[E] | None) -> E:
        """Return the sums of `lanes` positions whose first window starts at `at`."""
        if kept is None:
            return self._looped(at, lanes)
        total = const(0.0, self.x.prim, lanes)
        places = itertools.product(*map(range, self.planes.taps))
        for tap, place in zip(kept, places, strict=True):
            far = self._far(*map(index, place))
            total = self.k.let("total", fma(tap, self._elements(at + far, lanes), total))
        return total

    def _looped(self, at: E, lanes: int) -> E:
        k, taps = self.k, self.planes.taps
        total = k.mutable("total", const(0.0, self.x.prim, lanes))
        with (
            k.loop("z", taps[0]) as z,
            k.loop("a", taps[1]) as a,
            k.loop("b", taps[2]) as b,
        ):
            tap = self.taps.read_real((z * taps[1] + a) * taps[2] + b)
            total.set(fma(tap, self._elements(at + self._far(z, a, b), lanes), total))
        return total

    def _far(self, z: E, a: E, b: E) -> E:
        """Return how far a tap lies behind the first one."""
        planes, (_, high, wide) = self.planes, map(self.extents.number, self.planes.extents)
        return (z * planes.dilations[0] * high + a * planes.dilations[1]) * wide + (
            b * planes.dilations[2]
        )

    def _elements(self, at: E, lanes: int) -> E:
        """Return the elements that `lanes` neighboring positions meet under one tap."""
        k = self.k
        if lanes == 1 or self.planes.strides[2] == 1:
            return k.load(self.x, at, lanes)
        low, high = k.load(self.x, at, lanes), k.load(self.x, at + (lanes - 1), lanes)
        return every_second(low, high)


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
