"""Matrix products in the layout that kernels want.

The pass `pack-operands` turns `matmul(a, b)` into `matmul_packed(a, pack_panels(b))`. The
packing of a weight depends on params only and so runs once, in `setup`. A matrix that changes
and meets a few rows only is read where it lies: `matmul_tiled`. Products too small for tiles
take transposed operands as they lie: `matmul_transposed`.
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.op import op
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.ops.shape import narrow, reshape, transpose
from rlx.ir.shape import Extent, broadcast_shapes
from rlx.ir.types import TensorType

_FAMILY = "linalg"


@op(_FAMILY)
def pack_panels(
    b: TensorType, *, panel: int, transposed: bool = False, lanes: int = 1
) -> TensorType:
    """Cut `b [..., K, N]` into column panels `[..., ceil(N / panel), K, panel]`.

    Each panel is dense, so that a product reads it in one stream; the last one is padded with
    zeros. With `transposed`, `b` is given as `[..., N, K]` and turned in squares of `lanes`
    elements, a vector of the machine; `lanes` divides the panel.
    """
    require_dtype(b, "float int")
    require_rank(b, 2, "b")
    rows, columns = b.shape[-2:]
    if transposed:
        rows, columns = columns, rows
    if not isinstance(columns, int):
        raise ShapeError(f"b has {columns} columns; packing needs a static number")
    if panel < 1 or lanes < 1 or panel % lanes:
        raise ShapeError(f"a panel of {panel} columns is no multiple of {lanes} lanes")
    return TensorType(b.dtype, (*b.shape[:-2], -(-columns // panel), rows, panel))


def unpacked_formula(
    a: Value,
    packed: Value,
    *,
    columns: int,
    rows: int,
    lanes: int,
    transposed: bool = False,
) -> Value:
    """Unpack the panels and multiply."""
    *batch, panels, inner, panel = packed.shape
    rank = len(batch)
    leading = tuple(range(rank))
    swapped = transpose(packed, perm=(*leading, rank + 1, rank, rank + 2))
    wide = reshape(swapped, shape=(*batch, inner, panels * panel))
    left = a
    if transposed:
        left = _swapped(a)
    result: Value = matmul(left, narrow(wide, axis=-1, start=0, length=columns))
    return result


@op(_FAMILY, decompose=unpacked_formula)
def matmul_packed(
    a: TensorType,
    packed: TensorType,
    *,
    columns: int,
    rows: int,
    lanes: int,
    transposed: bool = False,
) -> TensorType:
    """`a [..., M, K]` times the `[..., K, columns]` matrix that `pack_panels` packed.

    The kernel computes tiles of `rows` times one panel, in vectors of `lanes` elements. With
    `transposed`, `a` is given as `[..., K, M]`.
    """
    dtype = require_same_dtype(a, packed)
    require_dtype(a, "f32 f64")
    require_rank(a, 2, "a")
    require_rank(packed, 3, "packed")
    height, inner = _last_two(a, transposed)
    *batch, panels, depth, panel = packed.shape
    if inner != depth:
        raise ShapeError(
            f"a has shape {a.describe_shape()} and packed has {packed.describe_shape()}; "
            f"the contracted extents {inner} and {depth} must be equal"
        )
    if not isinstance(panel, int) or panels != -(-columns // panel):
        raise ShapeError(f"{columns} columns do not fill {panels} panels of {panel}")
    if panel % lanes or rows < 1:
        raise ShapeError(f"a tile of {rows} rows in vectors of {lanes} does not fit panel {panel}")
    return TensorType(dtype, (*broadcast_shapes(a.shape[:-2], tuple(batch)), height, columns))


def untiled_product_formula(
    a: Value, b: Value, *, rows: int, panel: int, lanes: int, transposed: bool = False
) -> Value:
    """Multiply."""
    result: Value = matmul(_swapped(a) if transposed else a, b)
    return result


@op(_FAMILY, decompose=untiled_product_formula)
def matmul_tiled(
    a: TensorType,
    b: TensorType,
    *,
    rows: int,
    panel: int,
    lanes: int,
    transposed: bool = False,
) -> TensorType:
    """`a [..., M, K]` times `b [..., K, N]`, in tiles of `rows` times `panel` columns.

    Tiles are vectors of `lanes` elements and divide N. With `transposed`, `a` is given as
    `[..., K, M]`.
    """
    require_dtype(a, "f32 f64")
    result: TensorType = matmul.infer(_swapped_type(a) if transposed else a, b)
    columns = b.shape[-1]
    if not isinstance(columns, int) or panel < 1 or columns % panel:
        raise ShapeError(f"{columns} columns are no whole number of panels of {panel}")
    if panel % lanes or rows < 1:
        raise ShapeError(f"a tile of {rows} rows in vectors of {lanes} does not fit panel {panel}")
    return result


def transposing_formula(a: Value, b: Value, *, left: bool, right: bool) -> Value:
    """Transpose, then multiply."""
    result: Value = matmul(_swapped(a) if left else a, _swapped(b) if right else b)
    return result


@op(_FAMILY, decompose=transposing_formula)
def matmul_transposed(a: TensorType, b: TensorType, *, left: bool, right: bool) -> TensorType:
    """`matmul` with `a` given as `[..., K, M]` if `left`, and `b` as `[..., N, K]` if `right`."""
    operands = (_swapped_type(a) if left else a, _swapped_type(b) if right else b)
    result: TensorType = matmul.infer(*operands)
    return result


def _swapped(x: Value) -> Value:
    order = tuple(range(x.rank))
    result: Value = transpose(x, perm=(*order[:-2], order[-1], order[-2]))
    return result


def _swapped_type(x: TensorType) -> TensorType:
    require_rank(x, 2, "x")
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def _last_two(a: TensorType, transposed: bool) -> tuple[Extent, Extent]:
    first, second = a.shape[-2:]
    return (second, first) if transposed else (first, second)
