"""Gather, scatter, sorting and dynamic slices: positions are known only at run time.

Indices are i32 or i64, or f32 holding integers, decoded by truncation. `gather` and its
relatives refuse an index outside its range (NaN included) with `IndexOutOfRangeError`; the
`dynamic_` ops clamp their start instead, as XLA does (no start counts from the end).
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import SingleResultOp, declare_op, op
from rlx.ir.dtype import DType
from rlx.ir.layout import Panels
from rlx.ir.lowering import BatchInLanes, Bitonic, GatherFromPanels, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import (
    at_most,
    require_dtype,
    require_rank,
    require_same_dtype,
    require_shape,
)
from rlx.ir.shape import Extent, Shape, format_shape, normalize_axis
from rlx.ir.types import TensorType

_FAMILY = "indexing"

NO_INDEX = -(2**63)
"""The combined index of several indices of which one is out of range."""


@op(_FAMILY, Trait.INDEXED_READ, Trait.SUBSET, Trait.MAY_FAULT, Trait.EPILOGUE)
def gather(table: TensorType, indices: TensorType, *, axis: int = 0) -> TensorType:
    """Take the slices `indices` of `table` along `axis`.

    The shape of `indices` replaces that axis: `table[:axis] + indices.shape + table[axis+1:]`.
    """
    require_dtype(indices, "index", "indices")
    require_rank(table, 1, "table")
    position = normalize_axis(axis, table.rank)
    shape = table.shape
    chosen = (*shape[:position], *indices.shape, *shape[position + 1 :])
    return table.with_shape(chosen).with_layout(None)


@lowered_by(gather, GatherFromPanels, layouts=(0,))
def _gather_picked(
    _: GatherFromPanels, table: TensorType, indices: TensorType, *, axis: int
) -> None:
    """Columns of a matrix whose panels are whole."""
    layout, columns = table.layout, table.shape[-1]
    width = layout.width if isinstance(layout, Panels) and table.rank == 2 else 0
    whole = width and isinstance(columns, int) and columns > 0 and columns % width == 0
    if not whole or axis not in (1, -1):
        raise ShapeError(
            f"a table of type {table} has no whole panels whose columns (axis 1) are picked",
            remedy="leave the choice to the passes",
        )
    require_dtype(indices, "int", "indices")


@op(_FAMILY, Trait.INDEXED_WRITE, Trait.SCATTERS_SUM, Trait.MAY_FAULT)
def gather_backward(dy: TensorType, indices: TensorType, *, axis: int, size: Extent) -> TensorType:
    """Add the slices of `dy` into zeros shaped like the table of `gather`: its transpose.

    `axis` counts in the table, whose extent there is `size`. Slices that share an index add
    up in ascending order of their position in `indices`.
    """
    require_dtype(dy, "float int complex", "dy")
    require_dtype(indices, "index", "indices")
    require_rank(dy, indices.rank, "dy")
    position = normalize_axis(axis, dy.rank - indices.rank + 1)
    end = position + indices.rank
    if dy.shape[position:end] != indices.shape:
        raise ShapeError(
            f"dy has shape {dy.describe_shape()}; from axis {position} on it must hold the "
            f"shape of indices, {indices.describe_shape()}",
            remedy="pass the cotangent of gather's result",
        )
    return dy.with_shape((*dy.shape[:position], size, *dy.shape[end:]))


def scatter(name: str, doc: str, takes: str, *traits: Trait) -> SingleResultOp:
    """Declare a fold of `updates[i]` into row `indices[i]` of `size` rows, for `i` ascending."""

    def infer(updates: TensorType, indices: TensorType, *, size: Extent) -> TensorType:
        require_dtype(updates, takes, "updates")
        require_dtype(indices, "index", "indices")
        if updates.shape[: indices.rank] != indices.shape:
            raise ShapeError(
                f"updates has shape {updates.describe_shape()}; it must begin with the shape of "
                f"indices, {indices.describe_shape()}",
                remedy="give one update for each index",
            )
        return updates.with_shape((size, *updates.shape[indices.rank :]))

    always = (Trait.INDEXED_WRITE, Trait.MAY_FAULT)
    return declare_op(name, _FAMILY, infer, traits=(*always, *traits), doc=f"{doc}{_ROWS}")


_ROWS = """

`updates` has the shape of `indices` followed by the shape of a row.
"""
scatter_add = scatter(
    "scatter_add",
    "Add `updates[i]` to row `indices[i]` of `size` rows of zeros, for `i` ascending.",
    "float int complex",
    Trait.SCATTERS_SUM,
)
scatter_mul = scatter(
    "scatter_mul",
    "Multiply row `indices[i]` of `size` rows of ones by `updates[i]`, for `i` ascending.",
    "float int complex",
)
scatter_max = scatter(
    "scatter_max",
    "The largest of the `updates[i]` whose `indices[i]` is the row; NaN if one is. "
    "A row without any has the least value of the dtype.",
    "float int",
)
scatter_min = scatter(
    "scatter_min",
    "The smallest of the `updates[i]` whose `indices[i]` is the row; NaN if one is. "
    "A row without any has the greatest value of the dtype.",
    "float int",
)


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.SEARCH)
def topk(x: TensorType, *, k: int) -> tuple[TensorType, TensorType]:
    """The `k` largest elements of each last-axis row, descending, and their i64 indices.

    NaN ranks above +inf; equal elements come in ascending order of index.
    """
    require_dtype(x, "float int")
    require_rank(x, 1)
    if not (k >= 0 and at_most(k, x.shape[-1])):
        raise ShapeError(
            f"k is {k}; it must be in [0, {x.shape[-1]}], the last extent",
            remedy="choose k no larger than the last extent",
        )
    values = x.with_shape((*x.shape[:-1], k))
    return values, values.with_dtype(DType.I64)


@op(_FAMILY, Trait.ALL_ELEMENTS)
def sort(x: TensorType) -> TensorType:
    """Sort each last-axis row, ascending: NaN last, equal elements (both zeros) as they come."""
    require_dtype(x, "float int bool")
    require_rank(x, 1)
    return x


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.SEARCH)
def argsort(x: TensorType) -> TensorType:
    """Indices (i64) that sort each last-axis row as `sort` does."""
    require_dtype(x, "float int bool")
    require_rank(x, 1)
    return x.with_dtype(DType.I64)


@lowered_by(sort, BatchInLanes)
@lowered_by(argsort, BatchInLanes)
def _sorted_in_lanes(lowering: BatchInLanes, x: TensorType) -> None:
    length = x.shape[-1]
    if not isinstance(length, int) or not 2 <= lowering.lanes <= length:
        raise ShapeError(
            f"rows of {length} elements are not sorted in {lowering.lanes} lanes, which are read "
            "at once",
            remedy="leave the choice to the passes",
        )


@lowered_by(sort, Bitonic)
@lowered_by(argsort, Bitonic)
def _sorted_by_bitonic_network(lowering: Bitonic, x: TensorType) -> None:
    length, lanes = x.shape[-1], lowering.lanes
    least = lanes * max(lanes, 8) // 2
    if not isinstance(length, int) or lanes < 2 or lanes & (lanes - 1) or length <= least:
        raise ShapeError(
            f"rows of {length} elements do not fill {lanes} lanes of eight vectors or more",
            remedy="leave the choice to the passes",
        )


@op(_FAMILY, Trait.INDEXED_READ, Trait.SUBSET)
def dynamic_slice(x: TensorType, starts: TensorType, *, sizes: Shape) -> TensorType:
    """Take a block of shape `sizes` at position `starts`, an i32 or i64 vector of one per axis.

    Each start is clamped to `[0, extent - size]`, so that the block always fits.
    """
    _require_starts(starts, x.rank)
    _require_fits(sizes, x.shape)
    return x.with_shape(sizes)


@op(_FAMILY, Trait.IN_PLACE, Trait.INDEXED_WRITE)
def dynamic_update_slice(x: TensorType, update: TensorType, starts: TensorType) -> TensorType:
    """Return `x` with the block at position `starts` replaced by `update`.

    Starts are clamped as in `dynamic_slice`. Only `x` may be overwritten in place.
    """
    require_same_dtype(x, update)
    _require_starts(starts, x.rank)
    _require_fits(update.shape, x.shape)
    return x


def _require_starts(starts: TensorType, rank: int) -> None:
    require_dtype(starts, "i32 i64", "starts")
    require_shape(starts, (rank,), "starts")


def _require_fits(block: Shape, whole: Shape) -> None:
    fits = len(block) == len(whole) and all(
        at_most(0, size) and at_most(size, extent)
        for size, extent in zip(block, whole, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"block of shape {format_shape(block)} does not fit into {format_shape(whole)}",
            remedy="give a smaller block",
        )
