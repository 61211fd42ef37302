"""Convolution in register tiles, the input read where it lies.

A tile is some positions of a row (or of several rows) by one panel of output channels, kept in
registers while input channels and taps run:

    for channels c, for taps t:
        for every position i of the tile:  tile[i][:] += x[c, at(i) + t] * panel[c, t][:]

Each step loads one row of the panel, a few vectors, and one element of the input per position: no
copy of the windows is ever made, whatever stride and dilation are. Finished tiles are turned, so
that channels lie apart and positions together, as in the result; then what follows the convolution
(bias, activation, residual) is computed on rows of positions, and stored.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial

from rlx.codegen.kernels.access import GroupedWriter, Reader, Writer
from rlx.codegen.kernels.conv.channel_vectors import ask_for_row
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.products.panel_order import PanelOrder, panel_order
from rlx.codegen.kernels.register_tile import (
    Accumulate,
    RegisterTile,
    TileSpan,
    multiply_add,
    multiply_add_bf16,
    multiply_add_bytes,
    tile_span,
)
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.transposes import turned
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.declaration import takes
from rlx.ir.lowering import Direct
from rlx.ir.ops.conv_geometry import ConvAttributes, Planes, static
from rlx.ir.shape import Extent, floor_divide, product

_REACH = 256 * 1024
"""Bytes of planes beyond which a row of each is more pages than the first-level TLB holds, in few
sets of the cache."""

_MOST_COPIED = 64 * 1024
"""Bytes of a band that are copied side by side, on the stack."""

_FEW_WEIGHTS = 512 * 1024
"""Bytes of weights that every band may read anew: they stay in the second-level cache."""

_AHEAD = 8
"""Planes that are asked for before they are copied."""

_LINE = 64

_SQUARE = 8
"""Rows and lanes that change places in registers at a time: 24 shuffles for 64 elements."""


@takes(ConvAttributes)
def _convolve(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Direct,
    add: Accumulate,
    sums: Prim | None = None,
) -> None:
    planes = Planes.of(x.shape, w.shape, window.sliding(len(x.shape)))
    if x.memory is None or w.memory is None:
        raise InternalError("operands of a convolution in tiles must be in memory")
    k, outputs, groups = scope.k, static(out.shape[1]), window.groups
    spatial = tuple(range(2, len(out.shape)))
    each = (spatial,) if planes.flat else tuple((axis,) for axis in spatial)
    target = out.grouped(((0,), (1,), *each))
    panels = -(-(outputs // groups) // lowering.columns)
    work = _Tiles(
        k, x.memory, w.memory, target, lowering, planes, scope.extents, outputs, groups, panels,
        sums or w.memory.prim, add,
    )  # fmt: skip
    kind = product_loop(product((*out.shape, *w.shape[1:])))
    if work.copies:
        work.compute_by_bands(kind)
    else:
        work.compute(kind, panel_order(x.shape, w.shape, x.prim.size, work.bands, panels * groups))


kernel("conv", lowering=Direct)(partial(_convolve, add=multiply_add))
# Elements are words of four bytes of channels, and of two channels with sums in f32.
kernel("conv_bytes", lowering=Direct)(partial(_convolve, add=multiply_add_bytes))
kernel("conv_bf16", lowering=Direct)(partial(_convolve, add=multiply_add_bf16, sums=Prim.F32))


@dataclass(frozen=True, slots=True)
class _Tiles:
    """All tiles of one convolution, and where their elements come from and go."""

    k: KernelBuilder
    x: Buffer
    w: Buffer
    target: GroupedWriter
    shape: Direct
    planes: Planes
    extents: Extents
    outputs: int
    groups: int
    panels: int
    """Panels of one group."""
    prim: Prim
    """What the sums are: of the type of the weights, unless these are words."""
    add: Accumulate

    @property
    def bands(self) -> Extent:
        """Bands of rows of a layer."""
        return floor_divide(self.planes.positions[1] + (self.shape.high - 1), self.shape.high)

    def compute(self, kind: LoopKind, order: PanelOrder) -> None:
        """Go over panels, images and bands of rows, and over the tiles of each band."""
        k, shape, panels = self.k, self.shape, self.groups * self.panels
        layers, bands = map(self.extents.number, (self.planes.positions[0], self.bands))
        parts = self.extents.number(floor_divide(self.bands + (order.bands - 1), order.bands))
        images = self.target.extent(0)
        with k.loop("item", images * (panels * layers * parts), kind=kind) as item:
            if order.panels_first:
                part, rest = _split(item, parts)
                layer, rest = _split(rest, layers)
                image, panel = rest % images, k.let("panel", rest / images)
            else:
                panel, rest = _split(item, panels)
                panel = k.let("panel", panel)
                part, rest = _split(rest, parts)
                layer, image = _split(rest, layers)
            image = k.let("image", image)
            group, number = self._group(panel)
            first = k.let("first_band", part * order.bands)
            stop = k.let("stop_band", minimum(first + order.bands, bands))
            with k.loop("band", stop, start=first) as band:
                row = self._span("row", band * shape.high, shape.high, 1)
                with self._each_tile() as at:
                    column = self._span("column", at, shape.wide, 2)
                    place = _Place(image, group, number, layer, row, column)
                    source = self._in_place(k.let("at", self._start(place)))
                    self._finish(self._sums(panel, source), place)

    def _each_tile(self) -> AbstractContextManager[E]:
        return self.k.loop("first", self.extents(self.planes.positions[2]), step=self.shape.wide)

    # Bands that are copied

    @property
    def copies(self) -> bool:
        """True if single taps meet many planes far apart: a band of all is copied side by side.

        Rows of so many planes drive each other out of the first-level cache and its TLB, and every
        panel would fetch them again.
        """
        planes, size = self.planes, self.x.prim.size
        if planes.taps != (1, 1, 1) or planes.flat or self.shape.high != 1:
            return False
        band, plane = planes.positions[2], product(planes.extents)
        weights = planes.channels * self.panels * self.shape.columns
        return (
            isinstance(band, int)
            and isinstance(plane, int)
            and planes.channels * plane * size > _REACH
            and planes.channels * band * size <= _MOST_COPIED
            and weights * size <= _FEW_WEIGHTS
        )

    def compute_by_bands(self, kind: LoopKind) -> None:
        """Go over images and bands of one row each, and over the panels that meet a copy of it."""
        k, shape = self.k, self.shape
        layers, bands = map(self.extents.number, (self.planes.positions[0], self.bands))
        images = self.target.extent(0)
        with k.loop("item", images * (self.groups * layers * bands), kind=kind) as item:
            band, rest = _split(item, bands)
            layer, rest = _split(rest, layers)
            group, image = _split(rest, self.groups)
            group, image = k.let("group", group), k.let("image", image)
            row = self._span("row", band, 1, 1)
            start = TileSpan(index(0), index(0), shape.wide)
            first = self._start(_Place(image, group, index(0), layer, row, start))
            copy = self._copied(k.let("at", first))
            with k.loop("number", self.panels) as number, self._each_tile() as at:
                column = self._span("column", at, shape.wide, 2)
                place = _Place(image, group, number, layer, row, column)
                source = copy.moved(column.start)
                self._finish(self._sums(group * self.panels + number, source), place)

    def _copied(self, at: E) -> _Source:
        """Copy the positions of a row of all planes of a group side by side."""
        k, planes = self.k, self.planes
        wide, plane = static(planes.positions[2]), static(product(planes.extents))
        k.comment("A row of each plane, copied side by side.")
        copy = k.local("band", self.x.prim, planes.channels * wide)
        line = max(1, _LINE // self.x.prim.size)
        with k.loop("c", planes.channels) as c:
            ahead = at + (c + _AHEAD) * plane
            with k.loop("j", wide * planes.strides[2], step=line, kind=LoopKind.UNROLL) as j:
                k.prefetch(self.x, ahead + j)
            with k.loop("j", wide, kind=LoopKind.SIMD) as j:
                k.store(copy, c * wide + j, k.load(self.x, at + c * plane + j * planes.strides[2]))
        return _Source(copy, index(0), wide, 1)

    # Where

    def _in_place(self, at: E) -> _Source:
        plane = self.extents.number(product(self.planes.extents))
        return _Source(self.x, at, plane, self.planes.strides[2])

    def _group(self, panel: E) -> tuple[E, E]:
        """Return the group that a panel is of, and its number there."""
        if self.groups == 1:
            return index(0), panel
        number, group = _split(panel, self.panels)
        return self.k.let("group", group), self.k.let("number", number)

    def _span(self, name: str, first: E, size: int, axis: int) -> TileSpan:
        return tile_span(self.k, name, first, size, self.planes.positions[axis], self.extents)

    def _start(self, place: _Place) -> E:
        """Return where the first tap of a tile's first position lies."""
        planes = self.planes
        plane = (place.image * self.groups + place.group) * planes.channels
        at = plane * self._extent(0) + place.layer * planes.strides[0]
        at = at * self._extent(1) + place.row.start * planes.strides[1]
        return at * self._extent(2) + place.column.start * planes.strides[2]

    def _extent(self, axis: int) -> int | E:
        """Return an extent of the input."""
        return self.extents.number(self.planes.extents[axis])

    # One tile

    def _sums(self, panel: E, x: _Source) -> Buffer:
        """Compute a tile of positions of `x`; return its sums, positions first."""
        k, shape, planes = self.k, self.shape, self.planes
        taps, rows, columns = planes.taps, self._extent(1), self._extent(2)
        steps = planes.channels * taps[0] * taps[1] * taps[2]
        start = k.let("panel_start", panel * (steps * shape.columns))
        positions = shape.high * shape.wide
        k.comment(f"A tile: {positions} positions by {shape.columns} output channels.")
        tile = RegisterTile.of(
            k, "tile", positions, shape.columns, shape.lanes, self.prim, add=self.add
        )
        tile.zero()
        with ExitStack() as loops:
            c = loops.enter_context(k.loop("c", planes.channels))
            tap = [
                loops.enter_context(k.loop(name, count))
                for name, count in zip(("z", "a", "b"), taps, strict=True)
            ]
            step = ((c * taps[0] + tap[0]) * taps[1] + tap[1]) * taps[2] + tap[2]
            source = (tap[0] * planes.dilations[0] * rows + tap[1] * planes.dilations[1]) * columns
            source = source + tap[2] * planes.dilations[2]
            source = k.let("source", x.at + (c * x.plane + source))
            weights = k.let("weights", start + step * shape.columns)
            ask_for_row(k, self.w, weights, shape.columns)
            if planes.taps == (1, 1, 1) and not planes.flat and x.memory is self.x:
                # The next tile: planes are pages apart, which no hardware follows.
                k.prefetch(self.x, source + shape.wide * planes.strides[2])
            tile.accumulate(
                lambda i: k.load(x.memory, source + self._position(i, x)),
                lambda j: k.load(self.w, weights + j, shape.lanes),
            )
        done = k.local("done", self.prim, positions * shape.columns)
        tile.store(lambda i, j, value: k.store(done, i * shape.columns + j, value))
        return done

    def _position(self, i: E, x: _Source) -> E:
        """Return how far position `i` of a tile lies behind its first one."""
        planes, wide = self.planes, self.shape.wide
        if self.shape.high == 1:
            return i * x.step
        down = self.extents.number(planes.extents[2] * planes.strides[1])
        return i / wide * down + i % wide * planes.strides[2]

    def _finish(self, sums: Buffer, place: _Place) -> None:
        """Turn a tile, compute what follows the convolution, and store."""
        k, shape, each = self.k, self.shape, self.outputs // self.groups
        turned_sums, stride = self._turn(sums)
        first = k.let("first_channel", place.number * shape.columns)
        count = k.let("channels", minimum(each - first, shape.columns))
        with k.loop("channel", count) as channel:
            target = self.target.at(place.image, place.group * each + (first + channel))
            with k.loop("i", place.row.stop, start=place.row.first) as i:
                row = target.at(*self._outer(place.layer, place.row.start + i))
                span = place.column
                with k.loop("j", span.stop, start=span.first, kind=LoopKind.SIMD) as j:
                    value = k.load(turned_sums, channel * stride + (i * shape.wide + j))
                    row.write(span.start + j, value=value)

    def _outer(self, layer: E, row: E) -> tuple[E, ...]:
        """Return the indices of the result's spatial axes but the last."""
        axes = len(self.target.grid.groups) - 2
        return ((), (row,), (layer, row))[axes - 1]

    def _turn(self, sums: Buffer) -> tuple[Buffer, int]:
        """Return the sums by channels, and the elements from one channel to the next."""
        k, shape = self.k, self.shape
        square, positions = min(_SQUARE, shape.lanes), shape.high * shape.wide
        stride = -(-positions // square) * square
        k.comment("Turned as the result lies: channels apart, positions together.")
        result = k.local("by_channel", self.prim, shape.columns * stride)
        with (
            k.loop("j", shape.columns, step=square) as j,
            k.loop("i", positions, step=square) as i,
        ):
            lines = []
            for number in range(square):
                at = i + number if positions % square == 0 else minimum(i + number, positions - 1)
                lines.append(k.let("line", k.load(sums, at * shape.columns + j, square)))
            for number, values in enumerate(turned(k, lines)):
                k.store(result, (j + number) * stride + i, values)
        return result, stride


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the elements of a tile's positions lie."""

    memory: Buffer
    at: E
    """The first tap of the first position."""
    plane: int | E
    """Elements from a channel to the next."""
    step: int
    """Elements from a position to the next."""

    def moved(self, by: E) -> _Source:
        return replace(self, at=self.at + by * self.step)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tile lies, and which of its positions are stored."""

    image: E
    group: E
    number: E
    """The panel's number in its group."""
    layer: E
    row: TileSpan
    column: TileSpan


def _split(number: E, count: int | E) -> tuple[E, E]:
    """Return remainder and quotient; a single part is not divided for."""
    single = isinstance(count, int) and count == 1
    return (index(0), number) if single else (number % count, number / count)
