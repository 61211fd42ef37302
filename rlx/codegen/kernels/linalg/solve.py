"""Kernels of linear systems: the columns of a tile after its matrix become the solution."""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import Variable, spoiled
from rlx.codegen.kernels.linalg.elimination import (
    divide_row,
    factor,
    is_unrolled,
    smallest_size,
    solve_unrolled,
    substitute_back,
    subtract_row,
)
from rlx.codegen.kernels.linalg.rows import matrices_of
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.slice_blocks import Block, Load, Settled, blocks, unchanged
from rlx.codegen.kernels.slice_tiles import SliceBatch, Tile
from rlx.codegen.kernels.values import Scalar, chosen_where, let
from rlx.codegen.loops.expr import E, Operand, index
from rlx.dataclass import dataclass
from rlx.ir.types import TensorType


def _solve_batch(a: TensorType, b: TensorType, *, vector: bool) -> SliceBatch:
    return SliceBatch.of(a, 1 if vector else b.shape[-1])


@scratch("solve")
def solve_scratch(a: TensorType, b: TensorType, *, vector: bool, **_: object) -> int:
    return _solve_batch(a, b, vector=vector).scratch_bytes


@kernel("solve")
def solve(
    scope: Scope,
    a: Reader,
    b: Reader,
    x: Writer,
    *,
    vector: bool,
    transposed: bool,
    on_singular: str,
) -> None:
    batch = _solve_batch(a.type, b.type, vector=vector)
    with blocks(scope, batch, spelled_out=_is_spelled_out(batch, a, b)) as block:
        block.read(a, transposed=transposed)
        block.read(b, batch.height, vector=vector)
        settled = _eliminate(block, batch, on_singular)
        block.write_columns(x, batch.height, vector=vector, settled=settled)


def _is_spelled_out(batch: SliceBatch, *operands: Reader) -> bool:
    """True if elimination of one slice takes few steps, all known."""
    known = all(isinstance(extent, int) for each in operands for extent in each.shape[-2:])
    small = is_unrolled(batch.height, batch.width) and not operands[0].dtype.is_complex
    return known and small


def _is_unrolled(tile: Tile) -> bool:
    return not tile.is_complex and is_unrolled(tile.height, tile.width)


def _eliminate(block: Block, batch: SliceBatch, on_singular: str) -> Settled:
    tile, height = block.tile, batch.height
    least: E
    if _is_unrolled(tile):
        least = solve_unrolled(tile, height)
    else:
        least = factor(tile, height)
        substitute_back(tile, height)
    return settle(block, least, on_singular, first=height)


@scratch("triangular_solve")
def triangular_solve_scratch(a: TensorType, b: TensorType, *, left: bool, **_: object) -> int:
    batch = _triangular_batch(a, b, left=left)
    return batch.right_sides.scratch_bytes if batch.parts else 0


@kernel("triangular_solve")
def triangular_solve(
    scope: Scope,
    a: Reader,
    b: Reader,
    x: Writer,
    *,
    lower: bool,
    unit_diagonal: bool,
    transposed: bool,
    left: bool,
    on_singular: str,
) -> None:
    """`x @ t = b` is `t.T @ x.T = b.T`; a transposed lower triangle is an upper one.

    Of one slice at a time, the triangle is read where it is, and the tile has the right sides only.
    """
    batch = _triangular_batch(a.type, b.type, left=left)
    flipped = transposed == left
    is_single = batch.at_a_time(scope.lanes(batch.prim)) == 1
    first = 0 if is_single else batch.height
    with blocks(scope, batch.right_sides if is_single else batch) as block:
        tile, entry = block.tile, block.tile.load
        if is_single:
            matrix = matrices_of(a).at(block.first)

            def entry(i: Operand, j: Operand) -> Scalar:
                row, column = (j, i) if flipped else (i, j)
                return matrix.at(index(row)).read(index(column))
        else:
            block.read(a, transposed=flipped)
        block.read(b, first, transposed=not left)
        triangle = _Triangle(tile, entry, first, forward=lower != flipped, is_unit=unit_diagonal)
        least = triangle.solve(by_rows=is_single and tile.width == 1 and not flipped)
        settled: Settled = unchanged
        if not unit_diagonal:
            settled = settle(block, least, on_singular, first=first)
        block.write_columns(x, first, transposed=not left, settled=settled)


def _triangular_batch(a: TensorType, b: TensorType, *, left: bool) -> SliceBatch:
    return SliceBatch.of(a, b.shape[-1 if left else -2])


@dataclass(frozen=True, slots=True)
class _Triangle:
    """A triangular system: what reads its matrix, and the right sides in a tile."""

    tile: Tile
    entry: Load
    first: int
    """The column of the tile where right sides begin."""
    forward: bool
    is_unit: bool

    def solve(self, *, by_rows: bool) -> E:
        """Solve in place; return the least size on the diagonal."""
        k, height = self.tile.k, self.tile.height
        least = k.mutable("least", self.tile.constant(math.inf))
        with k.loop("step", height) as step:
            c = step if self.forward else k.let("c", height - 1 - step)
            if by_rows:
                self._subtract_solved(c)
            if not self.is_unit:
                pivot = let(k, "pivot", self.entry(c, c))
                least.set(smallest_size(pivot, least))
                divide_row(self.tile, c, pivot, self.first)
            if not by_rows:
                self._subtract_from_rest(c)
        return least

    def _subtract_from_rest(self, c: E) -> None:
        """Subtract unknown c, times its column, from the right sides of the rows to come."""
        k, tile = self.tile.k, self.tile
        start, stop = (c + 1, index(tile.height)) if self.forward else (index(0), c)
        with k.loop("r", stop, start=start) as r:
            multiple = let(k, "multiple", self.entry(r, c))
            subtract_row(tile, r, c, multiple, start=index(self.first), stop=index(tile.width))

    def _subtract_solved(self, r: E) -> None:
        """Subtract all unknowns that are known, times row r, from its only right side."""
        k, tile = self.tile.k, self.tile
        start, stop = (index(0), r) if self.forward else (r + 1, index(tile.height))
        total = Variable.of(k, "total", tile.load(r, 0))
        with k.loop("j", stop, start=start) as j:
            total.set(total.value - self.entry(r, j) * tile.load(j, 0))
        tile.store(r, 0, total.value)


def settle(block: Block, least: E, on_singular: str, *, first: int) -> Settled:
    """Fail, or return what makes NaN of slices whose `least` pivot is not positive.

    The columns of several slices from `first` on are replaced in the tile, those of one when they
    are written.
    """
    k, tile = block.k, block.tile
    if on_singular == "error":
        block.fail_where_zero(least)
        return unchanged
    is_singular = k.let("is_singular", least <= 0.0)

    def settled(value: Scalar) -> Scalar:
        return chosen_where(is_singular, spoiled(value), value)

    if tile.lanes == 1:
        return settled
    with k.loop("i", tile.height) as i, k.loop("j", tile.width, start=first) as j:
        tile.store(i, j, settled(tile.load(i, j)))
    return unchanged
