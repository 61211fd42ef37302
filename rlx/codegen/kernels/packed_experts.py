"""Products of rows with packed matrices that are chosen row by row."""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.indexing import checked_index
from rlx.codegen.kernels.packed import PanelRows, blocks_of_row, memory_of, out_and_book, store_row
from rlx.codegen.kernels.parallel import product_loop
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.loops.expr import index
from rlx.codegen.loops.nodes import Prim
from rlx.ir.block_types import block_type
from rlx.ir.lowering import Streamed
from rlx.ir.shape import product


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
    """Each row of `x` meets the blocks of its expert's panels as they stream by."""
    del transposed
    k, kind, lanes = scope.k, block_type(scheme), lowering.lanes
    out, book = out_and_book(rest)
    source, target = x.grouped(((0,), (1,))), out.grouped(((0,), (1,)))
    chosen = experts.grouped(((0,),))
    columns = blocks.shape[-1]
    assert isinstance(columns, int)
    panels, length = columns // count // lanes, blocks_of_row(kind, x)
    with k.loop("row", target.extent(0)) as row:  # all are checked before any is used
        checked_index(scope, chosen, row, index(count))
    parallel = product_loop(product((*out.shape, x.shape[-1])))
    with k.loop("item", target.extent(0) * panels, kind=parallel) as item:
        row, panel = k.let("row", item / panels), k.let("panel", item % panels)
        expert = k.let("expert", chosen.read_real(row).cast(Prim.I64))
        first = k.let("first", (expert * panels + panel) * (length * kind.size * lanes))
        rows = PanelRows(k, source, row, 1, lanes, book)
        (total,) = rows.totals(kind, memory_of(blocks), first, index(length))
        store_row(k, target, row, panel * lanes, total, columns // count)
