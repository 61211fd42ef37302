"""Schedules of contractions of bytes for a matrix unit.

Tile registers (AMX) have fixed sizes. Vectors of two rows by two columns (`smmla`) take the tiles
of other vectors: half as many instructions, and one to interleave each two columns.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.ir.lowering import Schedule
from rlx.passes.layout.split_product import Matrices, product_loops
from rlx.target import Target

_REGISTER = 16
"""Rows, words of a row and columns of a tile register."""

_SQUARE = 4
"""Words of two rows of two."""

_REGISTERS = 28
"""Of 32, those of sums and of columns; rows take the others."""

_FEWEST_ROWS = 8
"""Rows from which on a tile is faster than vectors."""


def matrix_unit_tile(
    rows: int, columns: int, words: int, target: Target, *, whole: bool = False
) -> Schedule | None:
    """Return the tile for a product of `rows` by `words` by `columns`; None if vectors are faster.

    `whole` panels have as many columns as the matrix, which is not packed.
    """
    if target.multiplies_byte_squares and rows > 1 and words % 2 == 0 and not whole:
        return _square_tile(rows, columns)
    if not target.multiplies_byte_matrices or rows < _FEWEST_ROWS or words < _REGISTER // 2:
        return None
    if whole and columns < _REGISTER:
        return None
    high = 1 if words % _REGISTER else 2
    wide = 2 if columns > _REGISTER and (not whole or columns >= 2 * _REGISTER) else 1
    height = min(rows, high * _REGISTER)
    return Schedule(height, wide * _REGISTER, _REGISTER, unit="matrix")


def _square_tile(rows: int, columns: int) -> Schedule:
    """Return the tile of squares that takes the fewest instructions.

    Two steps load each row, load and interleave each column, and multiply.
    """

    def cost(tile: Schedule) -> int:
        vectors = tile.columns // _SQUARE
        each = tile.rows + 3 * vectors + (tile.rows + 1) // 2 * 2 * vectors
        return -(-rows // tile.rows) * -(-columns // tile.columns) * each

    tiles = (
        Schedule(min(rows, high), wide * _SQUARE, _SQUARE, unit="squares")
        for high in range(2, _REGISTERS, 2)
        for wide in range(1, _REGISTERS // (high + 2) + 1)
    )
    return min(tiles, key=cost)


def loops_around(tile: Schedule, matrices: Matrices) -> Schedule:
    """Return the schedule of a product of bytes by `tile`: a matrix unit sums all steps at once."""
    schedule = product_loops(tile, matrices)
    if tile.unit == "vectors":
        return schedule
    return replace(schedule, depth=0, left="in_place", prefetch=0)
