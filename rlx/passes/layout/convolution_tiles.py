"""Tile size selection: the register tile of least cost for a convolution.

A step of a tile takes the multiply-adds that start in a cycle, or two loads per cycle, whichever
take longer, and no less than a multiply-add takes until its result can be added to. The cost of a
tile is that of a step, of all tiles that cover the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Node
from rlx.ir.lowering import Schedule
from rlx.ir.ops.conv_geometry import Geometry, Planes, geometry
from rlx.ir.shape import upper
from rlx.target import Target

LEAST_WORK = 8 * 1024
"""Multiply-adds below which packing and padding cost more than they save."""

FEWEST_LANES = 4
"""Vectors narrower than this gain nothing over plain loops, whose rows are vectors."""

_REGISTERS_BESIDE_TILE = 2
"""Registers besides the sums and the row of a panel: an element of the input, and one to spare."""

_MOST_VECTORS = 4
_LATENCY = 4
"""Cycles until the result of a multiply-add can be added to."""


def sliding_of(node: Node) -> Geometry:
    """Return the geometry of a convolution."""
    names = ("stride", "padding", "dilation", "input_dilation")
    return geometry(node.result.rank - 2, *map(node.attribute, names))


def has_channels_last(node: Node) -> bool:
    """True if `node` is a convolution of images that are stored with their channels last."""
    return node.op is ops.stored_conv and bool(node.attribute("channels_last"))


def only_pads(sliding: Geometry) -> bool:
    """True if no element is spread apart or cropped."""
    return all(min(axis.low, axis.high) >= 0 and axis.input_dilation == 1 for axis in sliding)


def is_bare(node: Node) -> bool:
    """True for one group, and an input that is neither padded nor spread apart."""
    sides = ((axis.low, axis.high, axis.input_dilation) for axis in sliding_of(node))
    return node.attribute("groups") == 1 and set(sides) == {(0, 0, 1)}


def is_pointwise(node: Node) -> bool:
    """True if every element of the result reads one element of each channel."""
    return is_bare(node) and set(node.operands[1].shape[2:]) == {1}


@dataclass(frozen=True, slots=True)
class Vectors:
    """What a target offers to tiles of one type of element."""

    lanes: int
    registers: int
    units: int
    """Multiply-adds of whole vectors that start in a cycle."""

    @classmethod
    def of(cls, target: Target, size: int) -> Vectors:
        """Return the vectors of elements of `size` bytes."""
        return cls(target.lanes(size), target.vector_registers, target.multiply_units)


def cheapest_tile(planes: Planes, each: int, vectors: Vectors) -> Schedule | None:
    """Choose the tile of least cost; of several the largest, the widest panel, and rows.

    `each` output channels of one group fill vectors of at most `lanes`; None if they are too few.
    """
    lanes = vectors.lanes
    while lanes >= 2 * each:
        lanes //= 2
    if lanes < FEWEST_LANES:
        return None
    _, rows, columns = map(upper, planes.positions)
    return cheapest_tile_over(rows, columns, each, replace(vectors, lanes=lanes))


def cheapest_tile_over(rows: int, columns: int, each: int, vectors: Vectors) -> Schedule:
    """Choose the tile of least cost over so many positions."""
    found = tiles_that_fit(rows, columns, each, vectors.lanes, vectors.registers)

    def cost(tile: Schedule) -> float:
        return cycles_of_tiles(tile, rows, columns, each, vectors.units)

    return min(found, key=lambda t: (cost(t), -_size(t), -t.columns, -t.across))


def tiles_that_fit(
    rows: int, columns: int, each: int, lanes: int, registers: int
) -> Iterator[Schedule]:
    """Yield the tiles that fit the registers and the result."""
    for vectors in range(1, min(_MOST_VECTORS, -(-each // lanes)) + 1):
        budget = most_rows(vectors, registers)
        for wide in range(1, min(columns, budget) + 1):
            for high in range(1, min(rows, budget // wide) + 1):
                yield Schedule(high, vectors * lanes, lanes, wide)


def most_rows(vectors: int, registers: int) -> int:
    """Return the most rows of so many vectors that fit the registers."""
    return (registers - vectors - _REGISTERS_BESIDE_TILE) // vectors


def cycles_of_tiles(tile: Schedule, rows: int, columns: int, each: int, units: int) -> float:
    """Return the cycles of a step, over all tiles that cover the result."""
    positions, vectors = tile.rows * tile.across, tile.columns // tile.lanes
    tiles = -(-rows // tile.rows) * -(-columns // tile.across) * -(-each // tile.columns)
    return tiles * cycles_of_step(positions, vectors, units)


def cycles_of_step(rows: int, vectors: int, units: int) -> float:
    """Return the cycles in which a tile adds one product to each of its sums."""
    loads = rows + 2 * vectors  # rows of a panel come from the second-level cache
    return max(rows * vectors / units, loads / 2, _LATENCY)


def _size(tile: Schedule) -> int:
    return tile.rows * tile.across * tile.columns
