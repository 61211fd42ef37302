"""Kernels of matrix factorizations."""

from __future__ import annotations

import math
from collections.abc import Callable

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.linalg.arithmetic import conjugate, filled, real_part, with_real
from rlx.codegen.kernels.linalg.elimination import factor, integer_of, subtract_row
from rlx.codegen.kernels.linalg.solve import settle
from rlx.codegen.kernels.registry import Scope, kernel, scratch
from rlx.codegen.kernels.slice_blocks import Block, blocks
from rlx.codegen.kernels.slice_tiles import SliceBatch, Tile
from rlx.codegen.kernels.values import let
from rlx.codegen.loops.expr import E, minimum
from rlx.codegen.loops.nodes import Buffer, LoopKind, Prim, UnaryOp

scratch("cholesky")(lambda a, **_: SliceBatch.of(a, 0).scratch_bytes)
scratch("lu")(lambda a, **_: SliceBatch.of(a, 0).scratch_bytes)


@kernel("cholesky")
def cholesky(scope: Scope, a: Reader, y: Writer, *, lower: bool, on_singular: str) -> None:
    """Factor as `l @ l.T`; the upper factor is l transposed, of a matrix read so.

    Of complex numbers, `l` is conjugated where it is transposed; the upper factor is not.
    """
    batch = SliceBatch.of(a.type, 0)
    with blocks(scope, batch) as block:
        block.read(a, transposed=not lower)
        least = _factor_symmetric(block.tile)
        _clear_above(block.tile)
        settled = settle(block, least, on_singular, first=0)
        block.write_columns(y, 0, transposed=not lower, settled=settled)


def _factor_symmetric(tile: Tile) -> E:
    """Make the lower triangle of a tile its factor; return the least pivot.

    Each column of the factor is kept as a row, too, conjugated, along which the next rows are
    reduced. Of the diagonal, only real parts count.
    """
    k, height = tile.k, tile.height
    least = k.mutable("least", tile.constant(math.inf))
    with k.loop("c", height) as c:
        entry = tile.load(c, c)
        pivot = k.let("pivot", real_part(entry))
        least.set(minimum(pivot, least))
        root = k.let("root", pivot.unary(UnaryOp.SQRT))
        tile.store(c, c, with_real(entry, root))
        with k.loop("r", height, start=c + 1) as r:
            multiple = let(k, "multiple", tile.load(r, c) / root)
            tile.store(r, c, multiple)
            tile.store(c, r, conjugate(multiple))
            subtract_row(tile, r, c, multiple, start=c + 1, stop=r + 1)
    return least


def _clear_above(tile: Tile) -> None:
    k = tile.k
    with (
        k.loop("i", tile.height) as i,
        k.loop("j", tile.height, start=i + 1, kind=tile.inner) as j,
    ):
        tile.store(i, j, filled(0.0, tile.load(i, j)))


@kernel("lu")
def lu(scope: Scope, a: Reader, y: Writer, exchanged: Writer, permutation: Writer) -> None:
    k = scope.k
    batch = SliceBatch.of(a.type, 0)
    with blocks(scope, batch) as block:
        tile, height = block.tile, batch.height
        pivots = k.local("pivots", integer_of(tile.prim), height * tile.lanes)
        order = k.local("order", Prim.I64, height * tile.lanes)
        block.read(a)
        factor(tile, height, pivots=pivots)
        block.write_columns(y, 0)
        block.write_lanes(exchanged, _column_of(tile, pivots), vector=True)
        _follow(block, pivots, order)
        block.write_lanes(permutation, _column_of(tile, order), vector=True)


def _column_of(tile: Tile, numbers: Buffer) -> Callable[[E, E, E], E]:
    """Return what reads one integer per row and lane."""

    def element(i: E, j: E, lane: E) -> E:
        del j
        return tile.k.load(numbers, i * tile.lanes + lane).cast(Prim.I32)

    return element


def _follow(block: Block, pivots: Buffer, order: Buffer) -> None:
    """Exchange the numbers of the rows as the rows were."""
    k, lanes, height = block.k, block.tile.lanes, block.tile.height
    with k.loop("i", height) as i, k.loop("lane", lanes, kind=LoopKind.SIMD) as lane:
        k.store(order, i * lanes + lane, i)
    with k.loop("c", height) as c, k.loop("lane", lanes) as lane:
        row = k.let("row", k.load(pivots, c * lanes + lane).cast(Prim.I64))
        moved = k.let("moved", k.load(order, row * lanes + lane))
        k.store(order, row * lanes + lane, k.load(order, c * lanes + lane))
        k.store(order, c * lanes + lane, moved)
