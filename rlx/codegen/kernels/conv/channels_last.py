"""Convolution of images whose channels lie side by side, in register tiles.

A tile is some positions by one panel of output channels, kept in registers while taps and input
channels run:

    for taps t, for channels c:
        for every position i of the tile:  tile[i][:] += x[at(i) + t, c] * panel[t, c][:]

It is the tile of a matrix product whose rows are positions: channels are the vectors of operand and
result, so nothing is turned or copied, and what follows the convolution (bias, activation,
residual) is computed on vectors of channels before they are stored.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedWriter, Reader, Writer
from rlx.codegen.kernels.conv.channel_vectors import ask_for_row, channels_of, write_channels
from rlx.codegen.kernels.extents import Extents
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.products.panel_order import PanelOrder, panel_order
from rlx.codegen.kernels.register_tile import RegisterTile, TileSpan, tile_span
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, index, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.declaration import takes
from rlx.ir.lowering import Direct
from rlx.ir.ops.conv_channels_last import planes_of
from rlx.ir.ops.conv_geometry import ConvAttributes, Planes, static
from rlx.ir.shape import Extent, floor_divide, product


@kernel("conv_channels_last", lowering=Direct)
@takes(ConvAttributes)
def conv_channels_last(
    scope: Scope,
    x: Reader,
    w: Reader,
    out: Writer,
    window: ConvAttributes,
    *,
    lowering: Direct,
) -> None:
    if x.memory is None or w.memory is None or window.groups != 1:
        raise InternalError("operands of a convolution in tiles must be in memory, in one group")
    k, rank = scope.k, len(out.shape)
    planes = planes_of(x.shape, w.shape, window.sliding(rank))
    spatial = tuple(range(1, rank - 1))
    each = (spatial,) if planes.flat else tuple((axis,) for axis in spatial)
    target = out.grouped(((0,), *each, (rank - 1,)))
    work = _Tiles(
        k, x.memory, w.memory, target, lowering, planes, scope.extents, static(w.shape[-1])
    )
    kind = product_loop(product((*out.shape, *w.shape[:-1])))
    work.compute(kind, panel_order(x.shape, w.shape, x.prim.size, work.bands, work.panels))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tile lies, and which of its positions are stored."""

    image: E
    layer: E
    row: TileSpan
    column: TileSpan


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

    @property
    def panels(self) -> int:
        return -(-self.outputs // self.shape.columns)

    @property
    def bands(self) -> Extent:
        """Bands of rows of a layer."""
        return floor_divide(self.planes.positions[1] + (self.shape.high - 1), self.shape.high)

    def compute(self, kind: LoopKind, order: PanelOrder) -> None:
        """Go over panels, images and bands of rows, and over the tiles of each band."""
        k, shape, columns = self.k, self.shape, self.planes.positions[2]
        layers, bands = map(self.extents.number, (self.planes.positions[0], self.bands))
        groups = self.extents.number(floor_divide(self.bands + (order.bands - 1), order.bands))
        images, panels = self.target.extent(0), self.panels
        with k.loop("item", images * (panels * layers * groups), kind=kind) as item:
            if order.panels_first:
                group, layer, image, panel = _parts(k, item, [groups, layers, images, panels])
            else:
                panel, group, layer, image = _parts(k, item, [panels, groups, layers, images])
            panel = k.let("panel", panel)
            first = k.let("first_band", group * order.bands)
            stop = k.let("stop_band", minimum(first + order.bands, bands))
            with k.loop("band", stop, start=first) as band:
                row = self._span("row", band * shape.high, shape.high, 1)
                with k.loop("first", self.extents(columns), step=shape.wide) as at:
                    place = _Place(image, layer, row, self._span("column", at, shape.wide, 2))
                    self._finish(panel, self._sums(panel, place), place)

    def _span(self, name: str, first: E, size: int, axis: int) -> TileSpan:
        return tile_span(self.k, name, first, size, self.planes.positions[axis], self.extents)

    def _sums(self, panel: E, place: _Place) -> Buffer:
        """Compute a tile; return its sums, positions first."""
        k, shape, planes = self.k, self.shape, self.planes
        positions, taps, inner = shape.high * shape.wide, planes.taps, planes.channels
        at = k.let("at", self._start(place))
        tile = RegisterTile.of(k, "tile", positions, shape.columns, shape.lanes, self.w.prim)
        tile.zero()
        with k.loop("z", taps[0]) as z, k.loop("a", taps[1]) as a, k.loop("b", taps[2]) as b:
            far = z * planes.dilations[0] * self._extent(1) + a * planes.dilations[1]
            far = far * self._extent(2) + b * planes.dilations[2]
            source = k.let("source", at + far * inner)
            number = ((z * taps[1] + a) * taps[2] + b) * self.panels + panel
            weights = k.let("weights", number * (inner * shape.columns))
            with k.loop("c", inner) as c:
                row = k.let("panel_row", weights + c * shape.columns)
                ask_for_row(k, self.w, row, shape.columns)
                tile.accumulate(
                    lambda i: k.load(self.x, source + self._position(i) + c),
                    lambda j: k.load(self.w, row + j, shape.lanes),
                )
        done = k.local("done", self.w.prim, positions * shape.columns)
        tile.store(lambda i, j, value: k.store(done, i * shape.columns + j, value))
        return done

    def _start(self, place: _Place) -> E:
        """Return where the first tap of a tile's first position lies."""
        planes = self.planes
        at = place.image * self._extent(0) + place.layer * planes.strides[0]
        at = at * self._extent(1) + place.row.start * planes.strides[1]
        return (at * self._extent(2) + place.column.start * planes.strides[2]) * planes.channels

    def _extent(self, axis: int) -> int | E:
        """Return an extent of the input."""
        return self.extents.number(self.planes.extents[axis])

    def _position(self, i: E) -> E:
        """Return how far position `i` of a tile lies behind its first one."""
        planes, wide = self.planes, self.shape.wide
        across = planes.strides[2] * planes.channels
        if self.shape.high == 1:
            return i * across
        down = self.extents.number(planes.extents[2] * (planes.strides[1] * planes.channels))
        return i / wide * down + i % wide * across

    def _finish(self, panel: E, sums: Buffer, place: _Place) -> None:
        """Compute what follows the convolution on vectors of channels, and store."""
        k, shape = self.k, self.shape
        channels = channels_of(k, panel, shape.columns, self.outputs)
        with (
            k.loop("i", place.row.stop, start=place.row.first) as i,
            k.loop("m", place.column.stop, start=place.column.first) as m,
        ):
            line = self._target(place, i, m)
            at = k.let("sum", (i * shape.wide + m) * shape.columns)
            write_channels(k, line, sums, at, channels, shape.lanes, self.outputs)

    def _target(self, place: _Place, i: E, m: E) -> GroupedWriter:
        """Return the writer of one position's channels."""
        row, column = place.row.start + i, place.column.start + m
        axes = len(self.target.grid.groups) - 2
        outer = ((column,), (row, column), (place.layer, row, column))[axes - 1]
        return self.target.at(place.image, *outer)


def _parts(k: KernelBuilder, item: E, counts: list[int | E]) -> list[E]:
    """Split a flat number into parts, the first of which runs fastest."""
    parts: list[E] = []
    for count in counts[:-1]:
        single = isinstance(count, int) and count == 1
        parts.append(index(0) if single else k.let("part", item % count))
        item = item if single else k.let("rest", item / count)
    return [*parts, item]
