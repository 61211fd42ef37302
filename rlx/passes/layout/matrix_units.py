"""Schedules of contractions of bytes for a matrix unit, whose tile registers have fixed sizes."""

from __future__ import annotations

from dataclasses import replace

from rlx.ir.lowering import Schedule
from rlx.passes.layout.split_product import Matrices, product_loops
from rlx.target import Target

_REGISTER = 16
"""Rows, words of a row and columns of a tile register."""

_FEWEST_ROWS = 8
"""Rows from which on a tile is faster than vectors."""


def matrix_unit_tile(
    rows: int, columns: int, words: int, target: Target, *, whole: bool = False
) -> Schedule | None:
    """Return the tile for a product of `rows` by `words` by `columns`; None if vectors are faster.

    `whole` panels have as many columns as the matrix, which is not packed.
    """
    if not target.multiplies_byte_matrices or rows < _FEWEST_ROWS or words < _REGISTER // 2:
        return None
    if whole and columns < _REGISTER:
        return None
    high = 1 if words % _REGISTER else 2
    wide = 2 if columns > _REGISTER and (not whole or columns >= 2 * _REGISTER) else 1
    height = min(rows, high * _REGISTER)
    return Schedule(height, wide * _REGISTER, _REGISTER, unit="matrix")


def loops_around(tile: Schedule, matrices: Matrices) -> Schedule:
    """Return the schedule of a product of bytes by `tile`: a matrix unit sums all steps at once."""
    schedule = product_loops(tile, matrices)
    if tile.unit == "vectors":
        return schedule
    return replace(schedule, depth=0, left="in_place", prefetch=0)
