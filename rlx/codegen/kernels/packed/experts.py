"""Products of rows with matrices, packed or plain, that are chosen row by row."""

from __future__ import annotations

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.indexing import checked_index, clamped_index
from rlx.codegen.kernels.packed.packed import (
    PanelRows,
    TiledProduct,
    blocks_of_row,
    memory_of,
    out_and_book,
)
from rlx.codegen.kernels.packed.tiles import Panels, last_of_block, store_row
from rlx.codegen.kernels.parallel import weights_loop
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.expr import E, const, index, maximum, minimum
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.ir.block_type import block_type
from rlx.ir.lowering import Streamed, Tile
from rlx.ir.shape import product

_COLUMNS = 64
"""Columns of a plain matrix that an item computes at most: four vectors of 16 floats."""


@kernel("grouped_matmul")
def grouped_matmul(scope: Scope, x: Reader, weights: Reader, experts: Reader, y: Writer) -> None:
    """Multiply each row of `x` by the matrix of its expert in place, some columns at a time."""
    k, prim = scope.k, compute_prim(y.dtype)
    source, target = x.grouped(((0,), (1,))), y.grouped(((0,), (1,)))
    stack, chosen = weights.grouped(((0,), (1,), (2,))), experts.grouped(((0,),))
    height, columns = target.extent(0), target.extent(1)
    width = y.shape[-1] if isinstance(y.shape[-1], int) else _COLUMNS
    width = max(1, min(_COLUMNS, width))
    blocks = (columns + (width - 1)) / width
    parallel = weights_loop(k, product((*y.shape, x.shape[-1])))
    some = minimum(stack.extent(0), 1)  # without experts there is none to read instead
    with k.loop("item", some * height * blocks, kind=parallel) as item:
        row, first = k.let("row", item / blocks), k.let("first", item % blocks * width)
        count = k.let("count", minimum(columns - first, width))
        expert = k.let("expert", clamped_index(scope, chosen, row, stack.extent(0)))
        sums = k.local("sums", prim, width)
        with k.loop("j", count, kind=LoopKind.SIMD) as j:
            k.store(sums, j, const(0, prim))
        with k.loop("p", source.extent(1)) as p:
            factor = k.let("factor", source.read_real(row, p))
            with k.loop("j", count, kind=LoopKind.SIMD) as j:
                weight = stack.read_real(expert, p, first + j)
                k.store(sums, j, multiply_add(factor, weight, k.load(sums, j)))
        with k.loop("j", count, kind=LoopKind.SIMD) as j:
            target.write(row, first + j, value=k.load(sums, j))
    _check(scope, chosen, height, stack.extent(0))


def _check(scope: Scope, chosen: GroupedReader, rows: E, count: E) -> None:
    """Leave the kernel if a row chose an expert that is not there.

    Comes after the loop over the products, which reads the nearest one instead, so that the
    loop may run on several threads.
    """
    with scope.k.loop("row", rows) as row:
        checked_index(scope, chosen, row, count)


@kernel("grouped_dequant_matmul", lowering=Streamed)
def grouped_dequant_matmul_streamed(
    scope: Scope,
    x: Reader,
    blocks: Reader,
    experts: Reader,
    *rest: Reader | Writer,
    lowering: Streamed,
    scheme: str,
    transposed: bool,
    count: int,
) -> None:
    """Each row of `x` is multiplied by the blocks of its expert's panels as they are read."""
    del transposed
    k, kind, lanes = scope.k, block_type(scheme), lowering.lanes
    out, book = out_and_book(rest)
    source, target = x.grouped(((0,), (1,))), out.grouped(((0,), (1,)))
    chosen = experts.grouped(((0,),))
    columns = blocks.shape[-1]
    assert isinstance(columns, int)
    panels, length = columns // count // lanes, blocks_of_row(kind, x)
    parallel = weights_loop(k, product((*out.shape, x.shape[-1])))
    with k.loop("item", target.extent(0) * panels, kind=parallel) as item:
        row, panel = k.let("row", item / panels), k.let("panel", item % panels)
        expert = k.let("expert", clamped_index(scope, chosen, row, index(count)))
        first = k.let("first", (expert * panels + panel) * (length * kind.size * lanes))
        rows = PanelRows(k, source, row, 1, lanes, book)
        (total,) = rows.totals(kind, memory_of(blocks), first, index(length))
        store_row(k, target, row, panel * lanes, total, columns // count)
    _check(scope, chosen, target.extent(0), index(count))


@kernel("grouped_dequant_matmul", lowering=Tile)
def grouped_dequant_matmul_in_tiles(
    scope: Scope,
    x: Reader,
    blocks: Reader,
    experts: Reader,
    *rest: Reader | Writer,
    lowering: Tile,
    scheme: str,
    transposed: bool,
    count: int,
) -> None:
    """Consecutive rows routed to one expert share its dequantized panels.

    Where rows are sorted by their experts, each chosen matrix is decoded once.
    """
    del transposed
    k, kind = scope.k, block_type(scheme)
    out, book = out_and_book(rest)
    source, target = x.grouped(((0,), (1,))), out.grouped(((0,), (1,)))
    chosen, height = experts.grouped(((0,),)), target.extent(0)
    assert isinstance(blocks.shape[-1], int)
    columns, length = blocks.shape[-1] // count, blocks_of_row(kind, x)

    def expert_of(row: E) -> E:  # asked while rows are counted, where nothing can be named
        return maximum(minimum(chosen.read_real(row).cast(Prim.I64), count - 1), 0)

    parallel = weights_loop(k, product((*out.shape, x.shape[-1])))
    with k.loop("panel", -(-columns // lowering.columns), kind=parallel) as panel:
        stop = k.mutable("stop", index(0))
        with k.while_(stop < height):
            start = k.let("start", stop)
            expert = k.let("expert", expert_of(start))
            most = last_of_block(k, lowering, start, height)
            last = most - 1
            with k.while_((stop < most) & expert_of(minimum(stop, last)).eq(expert)):
                stop.set(stop + 1)
            first = k.let("first", expert * (columns * length * kind.size))
            panels = Panels(
                k, lowering, kind, memory_of(blocks), book, columns, length, kind.size, panel, first
            )
            TiledProduct(source, panels).compute(target, start, k.let("end", stop))
    _check(scope, chosen, height, index(count))
