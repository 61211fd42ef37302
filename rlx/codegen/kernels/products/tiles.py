"""Matrix products in register tiles, against panels of columns: packed, or in place.

The loops are those of `contraction.tiles`; here is how products are cut into items and blocks.
Elements may be words of four bytes or of two bf16, whose products are summed in i32 or f32.
"""

from __future__ import annotations

from rlx.codegen.kernels.access import Reader, Writer
from rlx.codegen.kernels.contraction.addresses import Axes, Iteration, map_of
from rlx.codegen.kernels.contraction.operands import ComputedRows, Copy
from rlx.codegen.kernels.contraction.spans import Axis
from rlx.codegen.kernels.contraction.stores import ColumnStore
from rlx.codegen.kernels.contraction.tiles import PANELS, ROWS, Order, Tiles
from rlx.codegen.kernels.parallel import product_loop, weights_loop
from rlx.codegen.kernels.products.split import matrix_groups, row_groups, split_product
from rlx.codegen.kernels.register_tile import accumulate_of
from rlx.codegen.kernels.registry import Scope, kernel
from rlx.codegen.kernels.values import compute_prim
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.layout import panels_of
from rlx.ir.lowering import Streamed, Tile
from rlx.ir.shape import Extent, product, upper

_SMALL_PANEL = 16 * 1024
"""Bytes of a panel that the first-level cache keeps: nothing is prefetched."""


@kernel("matmul", "matmul_bytes", "matmul_bf16", lowering=Tile)
def matmul_in_tiles(scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Tile) -> None:
    _product(scope, a, b, out, lowering, transposed=False)


@kernel("matmul_transposed", lowering=Tile)
def matmul_transposed_in_tiles(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Tile, left: bool, right: bool
) -> None:
    if right:
        raise InternalError("matmul_transposed: tiles read b as it is")
    _product(scope, a, b, out, lowering, transposed=left)


@kernel("matmul", lowering=Streamed)
def matmul_streamed(scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Streamed) -> None:
    _stream(scope, a, b, out, lowering, transposed=False)


@kernel("matmul_transposed", lowering=Streamed)
def matmul_transposed_streamed(
    scope: Scope, a: Reader, b: Reader, out: Writer, *, lowering: Streamed, left: bool, right: bool
) -> None:
    if right:
        raise InternalError("matmul_transposed: a streamed product reads b as it is")
    _stream(scope, a, b, out, lowering, transposed=left)


def _product(
    scope: Scope, a: Reader, b: Reader, out: Writer, tile: Tile, *, transposed: bool
) -> None:
    """Cut the product into blocks of rows and groups of panels that the caches keep."""
    matrices = _Matrices.of(out, b)
    split = split_product(
        upper(matrices.batch),
        upper(matrices.height),
        upper(a.shape[-2 if transposed else -1]),
        upper(panels_of(b.shape[-1], tile.columns)),
        tile.rows,
        tile.columns,
        b.prim.size,
        transposed,
    )
    packed = b.type.layout is not None or b.shape[-1] == tile.columns
    is_small = split.depth * tile.columns * b.prim.size <= _SMALL_PANEL
    comment = "A strip: rows of the tile, copied side by side."
    order = Order(
        ("batch", ROWS, PANELS),
        split.blocks,
        split.groups,
        Copy(split.depth, transposed, comment) if split.copies else None,
        0 if split.whole else split.depth,
        split.block,
        split.group,
    )
    kind = product_loop(product((*out.shape, a.shape[-2 if transposed else -1])))
    prefetched = not (packed and is_small)
    _tiles(scope, (a, b, out), matrices, tile, order, transposed, prefetched).compute(kind)


def _stream(
    scope: Scope, a: Reader, b: Reader, out: Writer, stream: Streamed, *, transposed: bool
) -> None:
    """Read `b` once, in long stretches of some rows; all rows of `a` are multiplied with each.

    A product of few rows takes the time that it takes to read `b`. The sums of a block of columns
    stay in the cache, and each runs along K in order: results do not depend on the blocks.
    """
    matrices, lanes, columns = _Matrices.of(out, b), stream.lanes, upper(out.shape[-1])
    rows, groups = upper(matrices.height), -(-columns // stream.columns)
    vectors = -(-columns // lanes)
    copy = Copy(stream.depth, True, "What some rows of b are multiplied with.", True)
    order = Order(("batch", PANELS, ROWS), 1, groups, copy, stream.depth, 1, -(-vectors // groups))
    kind = weights_loop(scope.k, product((*out.shape, b.shape[-2])))
    tile = Tile(rows, lanes, lanes)
    _tiles(scope, (a, b, out), matrices, tile, order, transposed, False).compute(kind)


@dataclass(frozen=True, slots=True)
class _Matrices:
    """The axes of a product's result: those of a batch, and those of all rows of a matrix."""

    axes: tuple[Axes, ...]
    batch: Extent
    height: Extent
    batched: bool

    @classmethod
    def of(cls, out: Writer, b: Reader) -> _Matrices:
        batched = len(b.shape) > 2
        axes = (matrix_groups if batched else row_groups)(out.shape)
        batch, height, _ = (product(out.shape[axis] for axis in group) for group in axes)
        return cls(axes, batch, height, batched)


def _tiles(
    scope: Scope,
    values: tuple[Reader, Reader, Writer],
    matrices: _Matrices,
    tile: Tile,
    order: Order,
    transposed: bool,
    prefetched: bool,
) -> Tiles:
    """Return the loops of a product in tiles."""
    (a, b, out), found, batched = values, map_of(scope), matrices.batched
    batch, row, column = matrices.axes
    iteration = Iteration(scope, found, [batch], row, (), *column)
    groups = (matrix_groups if batched else row_groups)(a.shape)
    has_batch = batched and len(a.shape) > 2
    source = a.grouped(groups if has_batch else groups[1:])
    return Tiles(
        scope.k,
        scope.extents,
        [("batch", matrices.batch)],
        Axis("row", matrices.height, tile.rows, overlaps=False),
        Axis("column"),
        iteration.steps(("p",)),
        ComputedRows(source, a.prim, transposed, int(has_batch)),
        iteration.panels(b, tile.columns, prefetched=prefetched),
        ColumnStore(scope.k, out.grouped(matrices.axes), (0, 1)),
        tile.lanes,
        compute_prim(out.dtype),
        accumulate_of(found.combine, b.prim),
        order,
    )
