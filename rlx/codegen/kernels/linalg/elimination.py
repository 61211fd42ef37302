"""Gaussian elimination with partial pivoting on a tile: in loops, or spelled out.

The pivot of a step is the entry of its column that is largest in size, the first among equals;
a NaN outranks all numbers, so that it reaches the result. Sizes compare as integers: the bits
of nonnegative floats are in order. No product is contracted with a sum, so that small integer
matrices of deficient rank are found to be singular.
"""

from __future__ import annotations

import math
from typing import Protocol

from rlx.codegen.kernels.linalg.arithmetic import Variable, filled, is_zero, size
from rlx.codegen.kernels.slice_tiles import Tile
from rlx.codegen.kernels.values import Scalar, chosen_where, let, real
from rlx.codegen.loops.builder import Mutable
from rlx.codegen.loops.expr import E, const, index, minimum, select
from rlx.codegen.loops.nodes import Buffer, Prim

_MOST_UNROLLED = 42
"""Elements of matrix and columns up to which elimination is spelled out in registers."""
_TOGETHER = 4
"""Columns reduced together: they share the comparison of rows and the multiples."""


def integer_of(prim: Prim) -> Prim:
    """The integer of a float's size: rows of a vector's lanes are counted in it."""
    return Prim.I32 if prim is Prim.F32 else Prim.I64


def size_bits(x: Scalar) -> E:
    """The bits of |x| as an integer."""
    found = size(x)
    return found.bitcast(integer_of(found.type.prim))


def smallest_size(pivot: Scalar, before: E) -> E:
    """The lesser of |pivot| and `before`; a NaN counts for nothing."""
    return minimum(size(pivot), before)


# In loops


def factor(tile: Tile, height: int, *, pivots: Buffer | None = None) -> Mutable:
    """Eliminate below the diagonal in all columns; return the least size of a pivot.

    With `pivots`, which holds one integer per row and lane, the rows that were exchanged are
    stored there, and the multipliers below the diagonal.
    """
    k = tile.k
    least = k.mutable("least", tile.constant(math.inf))
    with k.loop("c", height) as c:
        row = _pivot_row(tile, c, height)
        if pivots is not None:
            k.store(pivots, c * tile.lanes, row)
        if tile.lanes == 1:
            first = c if pivots is None else index(0)
            _exchange_rows(tile, c, row.cast(Prim.I64), first)
        else:
            _exchange_column(tile, c, row, c)
        pivot = let(k, "pivot", tile.load(c, c))
        least.set(smallest_size(pivot, least))
        if pivots is not None:  # a column of zeros is eliminated already
            pivot = let(k, "divisor", chosen_where(is_zero(pivot), filled(1.0, pivot), pivot))
        if tile.lanes == 1:
            _subtract_rows(tile, c, pivot)
        else:
            _subtract_columns(tile, c, row, pivot)
            if pivots is not None:  # the multipliers before column c move with their rows
                with k.loop("j", c) as j:
                    _exchange_column(tile, c, row, j)
    return least


def _subtract_rows(tile: Tile, c: E, pivot: Scalar) -> None:
    """Subtract multiples of row c from those below."""
    k = tile.k
    with k.loop("r", tile.height, start=c + 1) as r:
        multiple = let(k, "multiple", tile.load(r, c) / pivot)
        tile.store(r, c, multiple)
        subtract_row(tile, r, c, multiple, start=c + 1, stop=index(tile.width))


def _exchange_rows(tile: Tile, c: E, chosen: E, first: E) -> None:
    k = tile.k
    row = k.let("chosen", chosen)
    with k.if_(row.ne(c)), k.loop("j", tile.width, start=first, kind=tile.inner) as j:
        upper = let(k, "upper", tile.load(c, j))
        tile.store(c, j, tile.load(row, j))
        tile.store(row, j, upper)


# Of several slices, each has its own pivot row, found again by comparing row numbers: all steps
# of a column are taken together, so that its entries are moved once.


def _exchange_column(tile: Tile, c: E, chosen: E, j: E) -> None:
    """Exchange rows c and `chosen` in column j."""
    k = tile.k
    upper = let(k, "upper", tile.load(c, j))
    lower = Variable.of(k, "lower", upper)
    with k.loop("r", tile.height, start=c + 1) as r:
        is_chosen = k.let("is_chosen", _is_row(chosen, r))
        entry = let(k, "entry", tile.load(r, j))
        lower.set(chosen_where(is_chosen, entry, lower.value))
        tile.store(r, j, chosen_where(is_chosen, upper, entry))
    tile.store(c, j, lower.value)


def _subtract_columns(tile: Tile, c: E, chosen: E, pivot: Scalar) -> None:
    """Exchange rows c and `chosen` after column c, and subtract multiples of row c below."""
    k = tile.k
    with k.loop("r", tile.height, start=c + 1) as r:
        tile.store(r, c, tile.load(r, c) / pivot)
    whole = k.let("whole", c + 1 + (tile.width - 1 - c) / _TOGETHER * _TOGETHER)
    with k.loop("j", whole, start=c + 1, step=_TOGETHER) as j:
        _subtract_from(tile, c, chosen, [j + next for next in range(_TOGETHER)])
    with k.loop("j", tile.width, start=whole) as j:
        _subtract_from(tile, c, chosen, [j])


def _subtract_from(tile: Tile, c: E, chosen: E, columns: list[E]) -> None:
    k, height = tile.k, tile.height
    uppers = [let(k, "upper", tile.load(c, j)) for j in columns]
    lowers = [Variable.of(k, "lower", upper) for upper in uppers]
    with k.loop("r", height, start=c + 1) as r:
        is_chosen = k.let("is_chosen", _is_row(chosen, r))
        for j, lower in zip(columns, lowers, strict=True):
            lower.set(chosen_where(is_chosen, tile.load(r, j), lower.value))
    with k.loop("r", height, start=c + 1) as r:
        is_chosen = k.let("is_chosen", _is_row(chosen, r))
        multiple = let(k, "multiple", tile.load(r, c))
        for j, upper, lower in zip(columns, uppers, lowers, strict=True):
            entry = chosen_where(is_chosen, upper, tile.load(r, j))
            tile.store(r, j, entry - multiple * lower.value)
    for j, lower in zip(columns, lowers, strict=True):
        tile.store(c, j, lower.value)


def _is_row(chosen: E, r: E) -> E:
    return chosen.eq(r.cast(chosen.type.prim))


def subtract_row(tile: Tile, r: E, c: E, multiple: Scalar, *, start: E, stop: E) -> None:
    """row r -= multiple * row c, from column `start` to `stop`."""
    k = tile.k
    with k.loop("j", stop, start=start, kind=tile.inner) as j:
        tile.store(r, j, tile.load(r, j) - multiple * tile.load(c, j))


def substitute_back(tile: Tile, height: int) -> None:
    """Solve the upper triangle for the columns after it, in place."""
    k = tile.k
    stop = index(tile.width)
    with k.loop("step", height) as step:
        c = k.let("c", height - 1 - step)
        divide_row(tile, c, let(k, "pivot", tile.load(c, c)), height)
        with k.loop("r", c) as r:
            multiple = let(k, "multiple", tile.load(r, c))
            subtract_row(tile, r, c, multiple, start=index(height), stop=stop)


def divide_row(tile: Tile, c: E, pivot: Scalar, first: int) -> None:
    """Divide the columns from `first` on, in row c."""
    with tile.k.loop("j", tile.width, start=first, kind=tile.inner) as j:
        tile.store(c, j, tile.load(c, j) / pivot)


def _pivot_row(tile: Tile, c: E, height: int) -> E:
    """Find the row of the largest entry of column c, from row c on."""
    k, bits = tile.k, integer_of(tile.prim)
    best = k.mutable("best", size_bits(tile.load(c, c)))
    row = k.mutable("row", c.cast(bits).splat(tile.lanes))
    with k.loop("r", height, start=c + 1) as r:
        size = k.let("size", size_bits(tile.load(r, c)))
        is_larger = k.let("is_larger", size > best)
        row.set(select(is_larger, r.cast(bits), row))
        best.set(select(is_larger, size, best))
    return row


# Spelled out


def is_unrolled(height: int, width: int) -> bool:
    return height * width <= _MOST_UNROLLED


def solve_unrolled(tile: Tile, height: int) -> E:
    """Solve for the columns after the matrix, all in registers; return the least pivot."""
    rows = [[real(tile.load(i, j)) for j in range(tile.width)] for i in range(height)]
    least = eliminate_rows(tile.k, rows)
    for i in range(height):
        for j in range(height, tile.width):
            tile.store(i, j, rows[i][j])
    return least


class Naming(Protocol):
    """What names the steps of an elimination: a kernel's builder, or values of a region."""

    def let(self, name: str, value: E) -> E: ...

    def comment(self, text: str) -> None: ...


def eliminate_rows(k: Naming, rows: list[list[E]]) -> E:
    """Solve for the columns after the matrix, in place; return the least pivot.

    Rows are exchanged while the pivot is searched for: each that is larger moves up.
    """
    height, width = len(rows), len(rows[0])
    for i, row in enumerate(rows):
        row[:] = [k.let(f"m{i}{j}", entry) for j, entry in enumerate(row)]
    first = rows[0][0].type
    least = const(math.inf, first.prim, first.lanes)
    for c in range(height):
        if c + 1 < height:
            k.comment(f"Row {c} becomes the one with the largest entry in column {c}.")
        for r in range(c + 1, height):
            _move_up(k, rows, c, r)
        least = k.let("least", smallest_size(rows[c][c], least))
        for r in range(c + 1, height):
            multiple = k.let("multiple", rows[r][c] / rows[c][c])
            for j in range(c + 1, width):
                rows[r][j] = k.let(f"m{r}{j}", rows[r][j] - multiple * rows[c][j])
    k.comment("The solution, from the last row up.")
    for c in reversed(range(height)):
        for j in range(height, width):
            rows[c][j] = k.let(f"x{c}", rows[c][j] / rows[c][c])
            for r in range(c):
                rows[r][j] = k.let(f"m{r}{j}", rows[r][j] - rows[r][c] * rows[c][j])
    return least


def _move_up(k: Naming, rows: list[list[E]], c: int, r: int) -> None:
    """Exchange rows c and r in the slices where r has the larger entry in column c."""
    is_larger = k.let("is_larger", size_bits(rows[r][c]) > size_bits(rows[c][c]))
    for j in range(c, len(rows[c])):
        upper, lower = rows[c][j], rows[r][j]
        rows[c][j] = k.let(f"m{c}{j}", select(is_larger, lower, upper))
        rows[r][j] = k.let(f"m{r}{j}", select(is_larger, upper, lower))
