"""Kernels of linear systems: the columns of a tile after its matrix become the solution."""

from __future__ import annotations

import math

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import let, spoiled
from rlx.codegen.kernels.linalg.elimination import (
    divide_row,
    factor,
    is_unrolled,
    smallest_size,
    solve_unrolled,
    substitute_back,
    subtract_row,
)
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.slice_blocks import Block, blocks
from rlx.codegen.kernels.slice_tiles import SliceBatch, Tile
from rlx.codegen.kernels.values import chosen_where
from rlx.codegen.loops.expr import E, index
from rlx.ir.types import TensorType


def _solve_batch(a: TensorType, b: TensorType, *, vector: bool) -> SliceBatch:
    return SliceBatch.of(a, 1 if vector else b.shape[-1])


@scratch("solve")
def solve_scratch(
    operands: list[TensorType], results: list[TensorType], *, vector: bool, **_: object
) -> int:
    del results
    return _solve_batch(*operands, vector=vector).scratch_bytes


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
        _eliminate(block, batch, on_singular)
        block.write_columns(x, batch.height, vector=vector)


def _is_spelled_out(batch: SliceBatch, *operands: Reader) -> bool:
    """True if elimination of one slice takes few steps, all known."""
    known = all(isinstance(extent, int) for each in operands for extent in each.shape[-2:])
    small = is_unrolled(batch.height, batch.width) and not operands[0].dtype.is_complex
    return known and small


def _is_unrolled(tile: Tile) -> bool:
    return not tile.is_complex and is_unrolled(tile.height, tile.width)


def _eliminate(block: Block, batch: SliceBatch, on_singular: str) -> None:
    tile, height = block.tile, batch.height
    least: E
    if _is_unrolled(tile):
        least = solve_unrolled(tile, height)
    else:
        least = factor(tile, height)
        substitute_back(tile, height)
    settle(block, least, on_singular, first=height)


@scratch("triangular_solve")
def triangular_solve_scratch(
    operands: list[TensorType], results: list[TensorType], *, left: bool, **_: object
) -> int:
    del results
    return _triangular_batch(*operands, left=left).scratch_bytes


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
    """`x @ t = b` is `t.T @ x.T = b.T`; a transposed lower triangle is an upper one."""
    batch = _triangular_batch(a.type, b.type, left=left)
    flipped = transposed == left
    with blocks(scope, batch) as block:
        block.read(a, transposed=flipped)
        block.read(b, batch.height, transposed=not left)
        least = _substitute(block.tile, forward=lower != flipped, unit=unit_diagonal)
        if not unit_diagonal:
            settle(block, least, on_singular, first=batch.height)
        block.write_columns(x, batch.height, transposed=not left)


def _triangular_batch(a: TensorType, b: TensorType, *, left: bool) -> SliceBatch:
    return SliceBatch.of(a, b.shape[-1 if left else -2])


def _substitute(tile: Tile, *, forward: bool, unit: bool) -> E:
    """Solve a triangle row by row; return the least size on its diagonal."""
    k, height = tile.k, tile.height
    least = k.mutable("least", tile.constant(math.inf))
    with k.loop("step", height) as step:
        c = step if forward else k.let("c", height - 1 - step)
        if not unit:
            least.set(smallest_size(tile.load(c, c), least))
            divide_row(tile, c, height)
        start, stop = (c + 1, index(height)) if forward else (index(0), c)
        with k.loop("r", stop, start=start) as r:
            multiple = let(k, "multiple", tile.load(r, c))
            subtract_row(tile, r, c, multiple, start=index(height), stop=index(tile.width))
    return least


def settle(block: Block, least: E, on_singular: str, *, first: int) -> None:
    """Fail, or fill with NaN, slices whose `least` pivot is not positive.

    NaN takes the columns of the tile from `first` on.
    """
    k, tile = block.k, block.tile
    if on_singular == "error":
        block.fail_where_zero(least)
        return
    is_singular = k.let("is_singular", least <= 0.0)
    with (
        k.loop("i", tile.height, kind=tile.outer) as i,
        k.loop("j", tile.width, start=first, kind=tile.inner) as j,
    ):
        value = tile.load(i, j)
        tile.store(i, j, chosen_where(is_singular, spoiled(value), value))
