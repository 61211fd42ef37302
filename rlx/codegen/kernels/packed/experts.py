"""Grouped matrix products: each row is multiplied by the packed or plain matrix of its expert."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.kernels.access import GroupedReader, Reader, Writer
from rlx.codegen.kernels.contraction.spans import Range
from rlx.codegen.kernels.contraction.tiles import Item
from rlx.codegen.kernels.indexing import checked_index, clamped_index
from rlx.codegen.kernels.memory import given
from rlx.codegen.kernels.packed.packed import (
    PanelRows,
    blocks_of_row,
    decode_in_tiles,
    out_and_book,
)
from rlx.codegen.kernels.packed.tiles import PackedPanels, store_row
from rlx.codegen.kernels.parallel import weights_loop
from rlx.codegen.kernels.register_tile import multiply_add
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, index, maximum, minimum
from rlx.codegen.loops.nodes import LoopKind, Prim
from rlx.ir.block_type import block_type
from rlx.ir.lowering import Schedule
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
    """Leave the kernel if the expert of a row is out of range.

    Comes after the loop over the products, which reads the nearest one instead, so that the
    loop may run on several threads.
    """
    with scope.k.loop("row", rows) as row:
        checked_index(scope, chosen, row, count)


@kernel("grouped_dequant_matmul", lowering=Schedule)
def grouped_dequant_matmul(
    scope: Scope,
    x: Reader,
    blocks: Reader,
    experts: Reader,
    *rest: Reader | Writer,
    lowering: Schedule,
    scheme: str,
    count: int,
    **_: object,
) -> None:
    """Multiply rows by blocks of their experts as these are read, or by blocks decoded before.

    Consecutive rows of one expert then share what is decoded: of rows that are sorted by their
    experts, each chosen matrix is decoded once.
    """
    k, kind, lanes = scope.k, block_type(scheme), lowering.lanes
    out, book = out_and_book(rest)
    source, target = x.grouped(((0,), (1,))), out.grouped(((0,), (1,)))
    chosen, height = experts.grouped(((0,),)), target.extent(0)
    assert isinstance(blocks.shape[-1], int)
    columns, length, memory = blocks.shape[-1] // count, blocks_of_row(kind, x), given(blocks)
    packed = PackedPanels(
        k, lanes, kind, memory, book, columns, length, kind.size, columns * length * kind.size
    )
    parallel = weights_loop(k, product((*out.shape, x.shape[-1])))
    if lowering.depth:
        tiles = decode_in_tiles(scope, packed, source, x.shape[0], target, lowering)
        with (
            k.loop("panel", lowering.groups, kind=parallel) as panel,
            _runs(k, chosen, height, tiles.most_rows, count) as (expert, rows),
        ):
            Item(tiles, [expert]).compute(rows, (panel, panel + 1))
    else:
        panels = columns // lanes
        with k.loop("item", height * panels, kind=parallel) as item:
            row, panel = k.let("row", item / panels), k.let("panel", item % panels)
            expert = k.let("expert", clamped_index(scope, chosen, row, index(count)))
            first = k.let("first", (expert * panels + panel) * (length * kind.size * lanes))
            (total,) = PanelRows(packed, source, row, 1).totals(first)
            store_row(k, target, row, panel * lanes, total, columns)
    _check(scope, chosen, height, index(count))


@contextmanager
def _runs(
    k: KernelBuilder, chosen: GroupedReader, height: E, most: int, count: int
) -> Iterator[tuple[E, Range]]:
    """Loop over runs of consecutive rows of one expert, `most` of them at most."""

    def expert_of(row: E) -> E:  # asked while rows are counted, where nothing can be named
        return maximum(minimum(chosen.read_real(row).cast(Prim.I64), count - 1), 0)

    stop = k.mutable("stop", index(0))
    with k.while_(stop < height):
        start = k.let("start", stop)
        expert = k.let("expert", expert_of(start))
        end = k.let("most", minimum(start + most, height))
        last = end - 1
        with k.while_((stop < end) & expert_of(minimum(stop, last)).eq(expert)):
            stop.set(stop + 1)
        yield expert, (start, k.let("end", stop))
