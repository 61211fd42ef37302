"""Algorithm selection: which convolutions Winograd's transforms pay for, and in which blocks.

The cost of a convolution is its cycles: those of the register tiles, those of the transforms, and
those in which weights stream by that the second-level cache does not hold. Winograd's is chosen
where it costs clearly less than the cheapest direct tile; a program of strict precision has none,
nor have integers that are multiplied as floats, whose sums are exact.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.lowering import Winograd
from rlx.ir.op import Trait
from rlx.ir.ops.conv_geometry import Geometry
from rlx.ir.shape import Extent, product, upper
from rlx.ir.winograd import STEPS, TAPS, tiles_along
from rlx.passes.layout.convolution_tiles import (
    FEWEST_LANES,
    Vectors,
    cheapest_tile_over,
    cycles_of_step,
    cycles_of_tiles,
    most_rows,
)
from rlx.target import Target

_CACHE = 768 * 1024
"""Bytes that the second-level cache keeps while a block is computed."""

_NEAR = 24
"""Bytes that come from there in a cycle."""

_FIRST, _AGAIN = 4.5, 12.0
"""Bytes that stream in a cycle from beyond that cache: for the first time, and again."""

_TRANSFORM = 14
"""Cycles that a point takes to transform a vector of channels: measured, steps of 2 and 4."""

_ITEMS = 4
"""Pieces of work that a convolution is cut into at least, so that threads can share it."""

_WORKERS = 8
_FEWEST_ROWS = 4
_MOST_VECTORS = 2
_MOST_STRIPS = 8
_GAIN = 0.92
"""Of the direct cost: what the model leaves out must not turn a gain into a loss."""


@dataclass(frozen=True, slots=True)
class Images:
    """Images and weights of one convolution of three by three taps with channels last."""

    count: int
    extents: tuple[int, int]
    sliding: Geometry
    inner: int
    outputs: int
    size: int
    """Bytes of an element."""

    @property
    def positions(self) -> tuple[int, int]:
        height, width = (
            s.positions(n, TAPS) for n, s in zip(self.extents, self.sliding, strict=True)
        )
        return upper(height), upper(width)

    def tiles(self, step: int) -> int:
        axes = zip(self.positions, self.sliding, strict=True)
        along = tuple(tiles_along(n, axis.dilation, step) for n, axis in axes)
        return self.count * upper(product(along))


@dataclass(frozen=True, slots=True)
class WinogradChoice:
    """Blocks of tiles, and the cycles that they save."""

    lowering: Winograd
    saved: float


def images_of(
    x: tuple[Extent, ...], taps: tuple[Extent, ...], outputs: Extent, sliding: Geometry, size: int
) -> Images | None:
    """Return what a convolution of `x` `[N, H, W, C]` works on; None if Winograd's does not fit."""
    plain = all(
        (axis.stride, axis.input_dilation) == (1, 1)
        and min(axis.low, axis.high) >= 0
        and max(axis.low, axis.high) <= (TAPS - 1) * axis.dilation
        for axis in sliding
    )
    if taps != (TAPS, TAPS) or not plain:
        return None
    _, height, width, inner = x  # two axes of taps: images
    if not all(isinstance(e, int) and e > 0 for e in (height, width, inner, outputs)):
        return None
    extents = upper(height), upper(width)
    return Images(max(1, upper(x[0])), extents, sliding, upper(inner), upper(outputs), size)


def choose_winograd(images: Images, target: Target) -> WinogradChoice | None:
    """Choose step and blocks of least cost; None where a direct convolution costs as much."""
    vectors = Vectors.of(target, images.size)
    few = min(images.inner, images.outputs) < vectors.lanes
    if target.is_strict or vectors.lanes < FEWEST_LANES or few:
        return None
    found = _cheapest(images, vectors)
    if found is None or not target.is_serial:
        return found
    return replace(found, lowering=replace(found.lowering, workers=1))


def sums_integers(node: Node) -> bool:
    """True if both operands of a product are integers in floats: transforms would round them."""
    return all(map(_holds_integers, node.operands))


def _holds_integers(value: Value) -> bool:
    while value.op.has(Trait.MOVEMENT):
        value = value.node.operands[0]
    if value.op is ops.constant:
        array = value.node.attribute("value").array
        return bool(np.array_equal(array, np.trunc(array)))
    return value.op is ops.cast and value.node.operands[0].dtype.is_int


@functools.lru_cache(maxsize=256)  # convolutions of a network are alike
def _cheapest(images: Images, vectors: Vectors) -> WinogradChoice | None:
    direct = _direct_cycles(images, vectors)
    streams = images.inner * images.outputs * images.size * TAPS * TAPS > _CACHE
    cost, *_, best = min(
        (
            (
                _cycles(images, blocks, total, vectors.units),
                -blocks.columns if streams else 0,
                -blocks.rows,
                blocks,
            )
            for step, total in ((step, images.tiles(step)) for step in STEPS)
            for blocks in _blocks(images, step, total, vectors.lanes, vectors.registers)
        ),
        key=lambda each: each[:3],
    )
    return WinogradChoice(best, direct - cost) if cost < _GAIN * direct else None


def _direct_cycles(images: Images, vectors: Vectors) -> float:
    """Return the cycles of the cheapest tiles, and of streaming the weights by once."""
    rows, columns = images.positions
    tile = cheapest_tile_over(rows, columns, images.outputs, vectors)
    each = cycles_of_tiles(tile, rows, columns, images.outputs, vectors.units)
    weights = TAPS * TAPS * images.inner * images.outputs * images.size
    return each * TAPS * TAPS * images.inner * images.count + weights / _FIRST


def _blocks(
    images: Images, step: int, total: int, lanes: int, registers: int
) -> Iterator[Winograd]:
    """Yield blocks of whole register tiles, from one to all tiles of the images."""
    for vectors in range(1, min(_MOST_VECTORS, images.outputs // lanes) + 1):
        columns = vectors * lanes
        for rows in range(_FEWEST_ROWS, most_rows(vectors, registers) + 1):
            for strips in range(1, min(_MOST_STRIPS, -(-total // rows)) + 1):
                blocks = -(-total // (rows * strips))
                groups = min(-(-images.outputs // columns), -(-_ITEMS // blocks))
                workers = min(_WORKERS, blocks * groups)
                yield Winograd(step, rows * strips, rows, columns, lanes, groups, workers)


def _cycles(images: Images, shape: Winograd, total: int, units: int) -> float:
    """Return the cycles of products, transforms, and what streams by."""
    points, inner, outputs = (shape.step + TAPS - 1) ** 2, images.inner, images.outputs
    blocks = -(-total // shape.tiles)
    computed, panels = blocks * shape.tiles, -(-outputs // shape.columns)
    strips = computed // shape.rows * points * panels
    step = cycles_of_step(shape.rows, shape.columns // shape.lanes, units)
    products = strips * inner * max(step, shape.columns * images.size / _NEAR)
    vectors = -(-inner // shape.lanes) * shape.groups + panels * (shape.columns // shape.lanes)
    transforms = computed * vectors * points * _TRANSFORM
    weights = points * inner * outputs * images.size
    tiles = points * shape.tiles * inner * images.size
    waiting = points * shape.tiles * shape.columns * images.size
    again = 0 if weights + tiles + waiting <= _CACHE else weights * (blocks - 1)
    again += 0 if tiles + waiting <= _CACHE else blocks * panels * tiles
    return products + transforms + weights / _FIRST + again / _AGAIN
