"""Winograd's convolution: tiles of the image transformed, multiplied point by point, and back.

A block is some tiles. Their elements at each point are the rows of a matrix product:

    for tiles i of the block, for channels c:  V[:, i, c] = B^T image(i)[:, c] B
    for panels, for points p:                  M[p] = V[p] @ u[p, panel]
        for tiles i:                           result(i)[panel] = A^T M[:, i] A

Both matrices of a block stay in the second-level cache; the products run in the register tile that
matrix products use. What follows the convolution is computed on vectors of channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from rlx.codegen.kernels.access import GroupedWriter, Reader, Writer
from rlx.codegen.kernels.contraction.operands import AHEAD, prefetch_row
from rlx.codegen.kernels.contraction.stores import columns_of, write_columns
from rlx.codegen.kernels.memory import given
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.register_tile import RegisterTile
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, fma, index, maximum, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind
from rlx.dataclass import dataclass
from rlx.ir.declaration import takes
from rlx.ir.lowering import Winograd
from rlx.ir.ops.conv_geometry import WindowDimension, static
from rlx.ir.ops.stored_conv import StoredConvAttributes
from rlx.ir.shape import product
from rlx.ir.types import TensorType
from rlx.ir.winograd import TAPS, Matrix, Transforms, tiles_along, transforms

_LINE = 16
"""Elements between the points: without them all points of a tile would share a few cache sets."""

Element: TypeAlias = Callable[[E, E], E]
"""Reads the vector of channels at a row and column of a tile."""


@scratch("stored_conv", lowering=Winograd)
def winograd_scratch(x: TensorType, *_: TensorType, lowering: Winograd, **__: object) -> int:
    return lowering.workers * _words(lowering, static(x.shape[-1])) * x.dtype.size


def _words(shape: Winograd, inner: int) -> int:
    """Return the elements of both matrices of a block."""
    return (shape.step + TAPS - 1) ** 2 * (_apart(shape, inner) + _apart(shape, shape.columns))


def _apart(shape: Winograd, width: int) -> int:
    """Return the elements from a tile's row of `width` at one point to that at the next."""
    return shape.tiles * width + _LINE


@kernel("stored_conv", lowering=Winograd)
@takes(StoredConvAttributes)
def conv_in_points(
    scope: Scope,
    x: Reader,
    u: Reader,
    out: Writer,
    window: StoredConvAttributes,
    *,
    lowering: Winograd,
) -> None:
    *extents, inner = map(static, x.shape[1:])
    step = lowering.step
    axes = tuple(
        _Axis(extent, axis, step)
        for extent, axis in zip(extents, window.sliding(len(x.shape)), strict=True)
    )
    work = _Blocks(
        scope.k, given(x), given(u), scope.scratch_memory, out.grouped(((0,), (1,), (2,), (3,))),
        lowering, transforms(step), step, axes, inner, static(out.shape[-1]),
    )  # fmt: skip
    work.compute(product_loop(product((*out.shape, work.points, inner))))


@dataclass(frozen=True, slots=True)
class _Axis:
    """Tiles along an axis of an image: neighbors interleave if their elements are apart."""

    extent: int
    sliding: WindowDimension
    step: int

    @property
    def apart(self) -> int:
        """Elements from one of a tile to the next."""
        return self.sliding.dilation

    @property
    def tiles(self) -> int:
        return static(tiles_along(self.positions, self.apart, self.step))

    @property
    def positions(self) -> int:
        return static(self.sliding.positions(self.extent, TAPS))

    def start(self, number: E) -> E:
        """Return the first position of a tile."""
        if self.apart == 1:
            return number * self.step
        return number / self.apart * (self.step * self.apart) + number % self.apart

    def within(self, count: E) -> E:
        """Return how many elements of a tile are in the next `count` ones."""
        return count if self.apart == 1 else (maximum(count, 0) + (self.apart - 1)) / self.apart


@dataclass(frozen=True, slots=True)
class _Place:
    """An image, and where a tile of the result starts in it."""

    image: E
    row: E
    column: E


@dataclass(frozen=True, slots=True)
class _Blocks:
    """All blocks of one convolution, and where their elements come from and go."""

    k: KernelBuilder
    x: Buffer
    u: Buffer
    memory: Buffer
    """Scratch: both matrices of every worker."""
    target: GroupedWriter
    shape: Winograd
    made: Transforms
    step: int
    axes: tuple[_Axis, ...]
    """Down and across an image."""
    inner: int
    outputs: int

    @property
    def tile(self) -> int:
        return self.step + TAPS - 1

    @property
    def points(self) -> int:
        return self.tile**2

    @property
    def panels(self) -> int:
        return -(-self.outputs // self.shape.columns)

    def compute(self, kind: LoopKind) -> None:
        """Share blocks and groups of panels among workers, each with matrices of its own."""
        k, shape = self.k, self.shape
        count = k.let("tiles", self.target.extent(0) * (self.axes[0].tiles * self.axes[1].tiles))
        items = k.let("items", (count + (shape.tiles - 1)) / shape.tiles * shape.groups)
        kind = LoopKind.SERIAL if shape.workers == 1 else kind
        with k.loop("worker", shape.workers, kind=kind) as worker:
            images = k.let("images", worker * _words(shape, self.inner))
            first = k.let("first", worker * items / shape.workers)
            last = k.let("last", (worker + 1) * items / shape.workers)
            with k.loop("item", last, start=first) as item:
                start = k.let("start", item / shape.groups * shape.tiles)
                self._compute(images, start, item % shape.groups, count)

    def _compute(self, images: E, start: E, group: E, count: E) -> None:
        """Compute a group of panels for the tiles from `start` on, of `count` in all."""
        k, shape = self.k, self.shape
        with k.loop("i", shape.tiles) as i:
            place = self._place(minimum(start + i, count - 1))
            self._transform(place, images + i * self.inner)
        sums = k.let("sums", images + self.points * _apart(shape, self.inner))
        first = k.let("first_panel", group * self.panels / shape.groups)
        last = k.let("last_panel", (group + 1) * self.panels / shape.groups)
        with k.loop("panel", last, start=first) as panel:
            self._multiply(panel, images, sums)
            with k.loop("i", k.let("stop", minimum(count - start, shape.tiles))) as i:
                at = k.let("at", sums + i * shape.columns)
                self._finish(self._place(start + i), panel, at)

    def _place(self, number: E) -> _Place:
        """Return which image, row and column of tiles a tile is in."""
        k, (down, across) = self.k, self.axes
        rest = k.let("rest", number / across.tiles)
        return _Place(
            k.let("image", rest / down.tiles),
            k.let("row", down.start(rest % down.tiles)),
            k.let("column", across.start(number % across.tiles)),
        )

    # Into the points

    def _transform(self, place: _Place, to: E) -> None:
        """Write the points of one tile of all channels."""
        k, (down, across) = self.k, self.axes
        top = k.let("top", place.row - down.sliding.low)
        left = k.let("left", place.column - across.sliding.low)
        line = (place.image * down.extent + top) * across.extent + left
        source = k.let("source", line * self.inner)
        within = (top >= 0) & (top + ((self.tile - 1) * down.apart + 1) <= down.extent)
        within = within & (left >= 0)
        within = within & (left + ((self.tile - 1) * across.apart + 1) <= across.extent)
        to = k.let("to", to)
        with k.if_(within):
            self._each_vector(
                lambda c, lanes: self._into_points(
                    lambda a, b: k.load(self.x, source + self._offset(a, b) + c, lanes),
                    to + c,
                    lanes,
                )
            )
        with k.else_():
            self._each_vector(
                lambda c, lanes: self._into_points(
                    self._at_border((top, left), source + c, lanes), to + c, lanes
                )
            )

    def _offset(self, a: E, b: E) -> E:
        """Return the offset of an element of a tile from its first one."""
        down, across = self.axes
        return (a * (down.apart * across.extent) + b * across.apart) * self.inner

    def _each_vector(self, body: Callable[[E, int], None]) -> None:
        """Go over the channels of an element in vectors, and one by one over what is left."""
        k, lanes, inner = self.k, self.shape.lanes, self.inner
        whole = inner // lanes * lanes
        with k.loop("c", whole, step=lanes) as c:
            body(c, lanes)
        if whole < inner:
            with k.loop("c", inner, start=whole) as c:
                body(c, 1)

    def _at_border(self, start: tuple[E, E], source: E, lanes: int) -> Element:
        """Copy a tile that is partly outside of the image; return how the copy is read."""
        k, tile = self.k, self.tile
        patch = k.local("patch", self.x.prim, self.points * lanes)
        with k.loop("p", self.points) as p:
            k.store(patch, p * lanes, const(0, self.x.prim, lanes))
        sides = tuple(zip(self.axes, start, strict=True))
        first = [k.let("first", axis.within(maximum(-at, 0))) for axis, at in sides]
        stop = [k.let("stop", minimum(axis.within(axis.extent - at), tile)) for axis, at in sides]
        with k.loop("a", stop[0], start=first[0]) as a, k.loop("b", stop[1], start=first[1]) as b:
            element = k.load(self.x, source + self._offset(a, b), lanes)
            k.store(patch, (a * tile + b) * lanes, element)
        return lambda a, b: k.load(patch, (a * tile + b) * lanes, lanes)

    def _into_points(self, read: Element, to: E, lanes: int) -> None:
        """Transform the columns of a tile, then its rows."""
        k, tile, apart = self.k, self.tile, _apart(self.shape, self.inner)
        half = k.local("half", self.x.prim, self.points * lanes)
        with k.loop("b", tile) as b:
            column = [read(index(i), b) for i in range(tile)]
            for i, value in enumerate(self._transformed(self.made.image, column)):
                k.store(half, (b + i * tile) * lanes, value)
        with k.loop("a", tile) as a:
            row = [k.load(half, (a * tile + i) * lanes, lanes) for i in range(tile)]
            for i, value in enumerate(self._transformed(self.made.image, row)):
                k.store(self.memory, to + (a * tile + i) * apart, value)

    def _transformed(self, stages: tuple[Matrix, Matrix], given: list[E]) -> list[E]:
        """Multiply the matrices of a transform by vectors."""
        for stage in stages:
            named = [self.k.let("v", value) for value in given]
            given = [_combination(row, named) for row in stage]
        return given

    # The products

    def _multiply(self, panel: E, images: E, sums: E) -> None:
        """Multiply the tiles of a block by a panel of weights at every point."""
        k, shape, inner = self.k, self.shape, self.inner
        rows, columns = shape.rows, shape.columns
        with k.loop("point", self.points) as point:
            weights = k.let("weights", (point * self.panels + panel) * (inner * columns))
            with k.loop("strip", shape.tiles, step=rows) as strip:
                left = k.let("left", images + (point * _apart(shape, inner) + strip * inner))
                tile = RegisterTile.of(k, "tile", rows, columns, shape.lanes, self.x.prim)
                tile.zero()
                with k.loop("c", inner) as c:
                    row = k.let("panel_row", weights + c * columns)
                    prefetch_row(k, self.u, row + AHEAD * columns, columns)
                    tile.accumulate(
                        lambda i: k.load(self.memory, left + i * inner + c),
                        lambda j: k.load(self.u, row + j, shape.lanes),
                    )
                to = k.let("to", sums + (point * _apart(shape, columns) + strip * columns))
                tile.store(lambda i, j, value: k.store(self.memory, to + i * columns + j, value))

    # Out of the points

    def _finish(self, place: _Place, panel: E, at: E) -> None:
        """Compute the results of a tile and what follows them, and store."""
        k, step, shape = self.k, self.step, self.shape
        done = k.local("done", self.x.prim, step * step * shape.columns)
        with k.loop("j", shape.columns, step=shape.lanes) as j:
            self._out_of_points(at + j, done, j)
        channels = columns_of(k, panel, shape.columns, self.outputs)
        down, across = self.axes
        rows, columns = (
            k.let("count", minimum(axis.within(axis.positions - start), step))
            for axis, start in ((down, place.row), (across, place.column))
        )
        with k.loop("p", rows) as p, k.loop("q", columns) as q:
            row, column = place.row + p * down.apart, place.column + q * across.apart
            line = self.target.at(place.image, row, column)
            sums = k.let("sum", (p * step + q) * shape.columns)
            write_columns(k, line, done, sums, channels, shape.lanes)

    def _out_of_points(self, at: E, done: Buffer, j: E) -> None:
        """Transform one vector of channels: the columns of a tile, then its rows."""
        k, tile, step, lanes = self.k, self.tile, self.step, self.shape.lanes
        apart = _apart(self.shape, self.shape.columns)
        half = k.local("half", self.x.prim, step * tile * lanes)
        with k.loop("b", tile) as b:
            column = [k.load(self.memory, at + (b + a * tile) * apart, lanes) for a in range(tile)]
            for i, value in enumerate(self._transformed(self.made.result, column)):
                k.store(half, (b + i * tile) * lanes, value)
        with k.loop("p", step) as p:
            row = [k.load(half, (p * tile + b) * lanes, lanes) for b in range(tile)]
            for i, value in enumerate(self._transformed(self.made.result, row)):
                k.store(done, (p * step + i) * self.shape.columns + j, value)


def _combination(row: tuple[Fraction, ...], values: Sequence[E]) -> E:
    """Return the sum of `values` by their factors; one whose factor is 1 comes first."""
    terms = [(factor, value) for factor, value in zip(row, values, strict=True) if factor]
    terms.sort(key=lambda term: term[0] != 1)
    (factor, total), *others = terms
    total = total if factor == 1 else total * _number(factor, total)
    for factor, value in others:
        if abs(factor) == 1:
            total = total + value if factor > 0 else total - value
        else:
            total = fma(value, _number(factor, value), total)
    return total


def _number(factor: Fraction, like: E) -> E:
    return const(float(factor), like.type.prim, like.type.lanes)
