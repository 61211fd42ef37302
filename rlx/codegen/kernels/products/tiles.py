"""Matrix products by a schedule: in register tiles against panels of columns, or by a library.

The loops are those of `contraction.tiles`. Elements may be words of four bytes or of two bf16,
whose products are summed in i32 or f32.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Iteration, map_of
from rlx.codegen.kernels.contraction.operands import ComputedRows
from rlx.codegen.kernels.contraction.spans import Axis
from rlx.codegen.kernels.contraction.stores import ColumnStore
from rlx.codegen.kernels.contraction.tiles import Tiles
from rlx.codegen.kernels.extents import matrix_groups, row_groups
from rlx.codegen.kernels.parallel import product_loop, weights_loop
from rlx.codegen.kernels.products.blas import product_by_blas
from rlx.codegen.kernels.register_tile import accumulate_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.ir.lowering import Schedule
from rlx.ir.shape import product


@kernel("matmul", lowering=Schedule)
def scheduled_product(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Schedule
) -> None:
    scheduled_stored(scope, a, b, out, lowering=lowering, left=False, right=False, elements="plain")


@kernel("stored_matmul", lowering=Schedule)
def scheduled_stored(
    scope: Scope,
    a: Reader,
    b: Reader,
    out: Writer,
    *,
    lowering: Schedule,
    left: bool,
    right: bool,
    elements: str,
) -> None:
    """Multiply by a library, or in tiles, for which `b` is stored in its order."""
    del elements  # the anchor's map says how they are added
    if lowering.library == "blas":
        product_by_blas(scope, a, b, out, left=left, right=right)
        return
    found, batched = map_of(scope), len(b.shape) > 2
    axes = (matrix_groups if batched else row_groups)(out.shape)
    batch, row, column = axes
    groups = (matrix_groups if batched else row_groups)(a.shape)
    has_batch = batched and len(a.shape) > 2
    source = a.grouped(groups if has_batch else groups[1:])
    iteration = Iteration(scope, found, [batch], row, (), *column)
    work = product((*out.shape, *found.folded))
    streamed = lowering.left == "registers"
    Tiles(
        scope.k,
        scope.extents,
        [("batch", product(out.shape[axis] for axis in batch))],
        Axis("row", product(out.shape[axis] for axis in row), lowering.rows, overlaps=False),
        Axis("column"),
        iteration.steps(("p",)),
        ComputedRows(source, a.prim, left, int(has_batch)),
        iteration.panels(b, lowering.columns, ahead=lowering.prefetch),
        ColumnStore(scope.k, out.grouped(axes), (0, 1)),
        compute_prim(out.dtype),
        accumulate_of(found.combine, b.prim),
        lowering,
        rows_fastest=left,
    ).compute(weights_loop(scope.k, work) if streamed else product_loop(work))
