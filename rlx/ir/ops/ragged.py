"""Ragged products: consecutive rows form groups, whose extents are known at run time only.

Group `g` has the rows from `bounds[g]` up to `bounds[g + 1]`. Bounds do not decrease; those outside
of the rows count as their ends.
"""

from __future__ import annotations

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.lowering import Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import cast
from rlx.ir.ops.indexing import argsort, gather
from rlx.ir.ops.reduction import reduce_sum
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype, require_shape
from rlx.ir.ops.shape import reshape
from rlx.ir.types import TensorType

__all__ = ["ragged_matmul", "ragged_outer"]

_FAMILY = "linalg"


@op(_FAMILY, Trait.ALL_ELEMENTS)
def ragged_matmul(x: TensorType, w: TensorType, bounds: TensorType) -> TensorType:
    """`x[bounds[g]:bounds[g + 1]] @ w[g]` for every group: x `[M, K]`, w `[G, K, N]`: `[M, N]`.

    Rows of no group are 0. `bounds` are i32 or i64 `[G + 1]`.
    """
    _require_operands(x, w, bounds)
    require_rank(w, 3, "w")
    require_shape(w, (w.shape[0], x.shape[1], w.shape[2]), "w")
    _require_bounds(bounds, w)
    return x.with_shape((x.shape[0], w.shape[2]))


@op(_FAMILY, Trait.ALL_ELEMENTS)
def ragged_outer(x: TensorType, y: TensorType, bounds: TensorType) -> TensorType:
    """`x[bounds[g]:bounds[g + 1]]^T @ y[bounds[g]:bounds[g + 1]]` for every group.

    For x `[M, K]`, y `[M, N]` and bounds i32 or i64 `[G + 1]`: `[G, K, N]`. A group without rows
    gives 0.
    """
    _require_operands(x, y, bounds)
    require_shape(y, (x.shape[0], y.shape[-1]), "y")
    if not isinstance(bounds.shape[0], int) or bounds.shape[0] < 1:
        raise ShapeError(
            f"bounds has shape {bounds.describe_shape()}; groups are one less, a known number",
            remedy="give the first row of each group and the end of the last",
        )
    return x.with_shape((bounds.shape[0] - 1, x.shape[1], y.shape[1]))


def _require_operands(x: TensorType, other: TensorType, bounds: TensorType) -> None:
    require_same_dtype(x, other)
    require_dtype(x, "float", "x")
    require_rank(x, 2, "x")
    require_dtype(bounds, "i32 i64", "bounds")
    require_rank(bounds, 1, "bounds")


def _require_bounds(bounds: TensorType, w: TensorType) -> None:
    """Raise a ShapeError unless there is one bound more than groups."""
    require_shape(bounds, (w.shape[0] + 1,), "bounds")


@lowered_by(ragged_matmul, Schedule, layouts=(1,))
@lowered_by(ragged_outer, Schedule, layouts=(1,))
def _in_tiles(schedule: Schedule, x: TensorType, other: TensorType, bounds: TensorType) -> None:
    """Tiles of rows of one group, over all folded elements at once."""
    del other, bounds
    schedule.require_tile()
    require_dtype(x, "f32 f64", "x")
    if schedule.depth or schedule.blocks != 1 or schedule.left != "in_place":
        raise ShapeError(
            f"a ragged product reads rows in place, at once and in one block; not {schedule}",
            remedy="leave depth, blocks and left as they are",
        )


def sorted_by_group(groups: Value, count: int) -> tuple[Value, Value]:
    """Return the order that sorts rows by group, and where each group starts and the last stops.

    A group outside of [0, count) is an `IndexOutOfRangeError`.
    """
    graph = groups.graph
    numbers = graph.constant(np.arange(count, dtype=np.int64))
    checked = gather(numbers, groups, axis=0)
    bounds = reshape(graph.constant(np.arange(count + 1, dtype=np.int64)), shape=(count + 1, 1))
    before = cast(reshape(checked, shape=(1, *checked.shape)) < bounds, to=DType.I64)
    return argsort(checked), reduce_sum(before, axes=(1,))
