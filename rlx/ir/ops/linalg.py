"""Matrix products."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import PANELS, ROWS, Schedule, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.ops.shape import reshape, transpose
from rlx.ir.shape import Shape, broadcast_shapes, product, upper
from rlx.ir.types import TensorType

_FAMILY = "linalg"
LARGEST_OF_BLAS = 2**31 - 1
"""The largest extent that its integers hold."""
_PRODUCT = (Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE)


@op(_FAMILY, *_PRODUCT, Trait.BILINEAR, Trait.PROMOTES)
def matmul(a: TensorType, b: TensorType) -> TensorType:
    """`[..., M, K] @ [..., K, N]`; leading axes broadcast, nothing is conjugated.

    Integers wrap; f16 and bf16 accumulate in f32; K = 0 gives zeros.
    """
    dtype = require_same_dtype(a, b)
    require_dtype(a, "float int complex")
    require_rank(a, 2, "a")
    require_rank(b, 2, "b")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"a has shape {a.describe_shape()} and b has {b.describe_shape()}; "
            f"the last extent of a, {a.shape[-1]}, must equal {b.shape[-2]}, the second last of b",
            remedy="transpose or reshape one of them so that the extents agree",
        )
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return TensorType(dtype, (*batch, a.shape[-2], b.shape[-1]))


@lowered_by(matmul, Schedule, layouts=(1,))
def check_scheduled(schedule: Schedule, a: TensorType, b: TensorType) -> None:
    """Register tiles of `a` by one panel of columns, packed or as stored in `b`; or a library."""
    if schedule.library == "blas":
        _require_library(a, b)
        return
    require_dtype(a, "f32 f64")
    require_tiled_product(schedule, a, b)


def require_tiled_product(schedule: Schedule, a: TensorType, b: TensorType) -> None:
    """Raise a ShapeError unless a product in tiles fits `a`, and `b` as it is stored."""
    require_order(schedule, "batch")
    if schedule.left == "registers":
        _require_streamed(schedule, a, b)
        return
    packed = b.layout == Panels(schedule.columns) and schedule.right == "panels"
    whole = b.layout is None and upper(b.shape[-1]) >= schedule.columns
    if not (packed or (whole and schedule.right == "in_place")):
        raise ShapeError(
            f"a tile of {schedule.rows} rows and {schedule.columns} columns in vectors of "
            f"{schedule.lanes}, read {schedule.right}, does not fit b of type {b}",
            remedy="choose a tile that does, or leave the choice to the passes",
        )


def require_order(schedule: Schedule, *axes: str) -> None:
    """Raise a ShapeError unless a schedule has a tile, and an order of just these axes."""
    schedule.require_tile()
    if sorted(schedule.order) != sorted((*axes, ROWS, PANELS)):
        raise ShapeError(
            f"the outer loops of a schedule are {', '.join(schedule.order) or 'none'}; they must "
            f"be {', '.join((*axes, ROWS, PANELS))}, in any order",
            remedy="name each once, or leave the choice to the passes",
        )


def _require_streamed(schedule: Schedule, a: TensorType, b: TensorType) -> None:
    """Raise a ShapeError unless all rows of `a` are multiplied at once with rows of `b`."""
    lanes, columns = schedule.lanes, b.shape[-1]
    rows = a.shape[-2] if b.rank > 2 else product(a.shape[:-1])
    known = isinstance(columns, int) and columns >= lanes and rows == schedule.rows
    fits = schedule.columns == lanes and schedule.depth and schedule.blocks == 1
    if not (fits and known and b.layout is None and schedule.right == "in_place"):
        raise ShapeError(
            f"{schedule.rows} rows in registers and {schedule.depth} rows of b at a time, in "
            f"vectors of {lanes}, do not fit a of type {a} and b of type {b}",
            remedy="give as many rows as a has, panels of one vector, and a depth",
        )
    if b.rank > 2 and a.shape[:-2] not in ((), b.shape[:-2]):
        raise ShapeError(
            f"a streamed product does not broadcast the matrices of b, of type {b}",
            remedy="broadcast b first",
        )


def _require_library(a: TensorType, b: TensorType) -> None:
    """Raise unless a product is one call for each matrix, with 32-bit integers."""
    require_dtype(a, "f32 f64 complex")
    for extent in (*a.shape[-2:], b.shape[-1], product(a.shape[:-1])):
        if upper(extent) > LARGEST_OF_BLAS:
            raise ShapeError(
                f"BLAS counts in 32 bits, which do not hold the extents of a, of type {a}, and b, "
                f"of type {b}",
                remedy="leave the choice to the passes",
            )


def swapped(x: Value) -> Value:
    """Transpose the last two axes."""
    order = tuple(range(x.rank))
    return transpose(x, perm=(*order[:-2], order[-1], order[-2]))


def swapped_type(x: TensorType) -> TensorType:
    """Return the type of `x` with its last two axes transposed."""
    require_rank(x, 2, "x")
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


def dot_general_formula(
    a: Value,
    b: Value,
    *,
    lhs_contracting: tuple[int, ...],
    rhs_contracting: tuple[int, ...],
    lhs_batch: tuple[int, ...] = (),
    rhs_batch: tuple[int, ...] = (),
) -> Value:
    """One batched matrix product between a transpose and a reshape of each operand."""
    a_free = free_axes(a.rank, lhs_contracting, lhs_batch)
    b_free = free_axes(b.rank, rhs_contracting, rhs_batch)
    batch = _extents(a.shape, lhs_batch)
    rows, columns = _extents(a.shape, a_free), _extents(b.shape, b_free)
    inner = product(_extents(a.shape, lhs_contracting))
    left = reshape(
        transpose(a, perm=(*lhs_batch, *a_free, *lhs_contracting)),
        shape=(product(batch), product(rows), inner),
    )
    right = reshape(
        transpose(b, perm=(*rhs_batch, *rhs_contracting, *b_free)),
        shape=(product(batch), inner, product(columns)),
    )
    return reshape(matmul(left, right), shape=(*batch, *rows, *columns))


@op(_FAMILY, Trait.BILINEAR, Trait.PROMOTES, Trait.CONTRACTION, decompose=dot_general_formula)
def dot_general(
    a: TensorType,
    b: TensorType,
    *,
    lhs_contracting: tuple[int, ...],
    rhs_contracting: tuple[int, ...],
    lhs_batch: tuple[int, ...] = (),
    rhs_batch: tuple[int, ...] = (),
) -> TensorType:
    """Sum products over paired contracting axes, apart for each index of paired batch axes.

    Result axes: batch (in `lhs_batch` order), then the other axes of `a`, then those of `b`.
    Axes count from the front.
    """
    dtype = require_same_dtype(a, b)
    require_dtype(a, "float int complex")
    _require_pairs(a, b, "contracting", lhs_contracting, rhs_contracting)
    _require_pairs(a, b, "batch", lhs_batch, rhs_batch)
    a_free = free_axes(a.rank, lhs_contracting, lhs_batch)
    b_free = free_axes(b.rank, rhs_contracting, rhs_batch)
    shape = _extents(a.shape, (*lhs_batch, *a_free)) + _extents(b.shape, b_free)
    return TensorType(dtype, shape)


def free_axes(rank: int, contracting: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that are neither contracted nor batch, ascending."""
    taken = (*contracting, *batch)
    if len(set(taken)) != len(taken) or not all(0 <= axis < rank for axis in taken):
        raise ShapeError(
            f"contracting axes {contracting} and batch axes {batch} must be distinct "
            f"and in [0, {rank})",
            remedy="name each axis once, counted from the front",
        )
    return tuple(axis for axis in range(rank) if axis not in taken)


def _require_pairs(
    a: TensorType, b: TensorType, kind: str, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    if len(left) != len(right):
        raise ShapeError(
            f"{kind} axes {left} of a and {right} of b must pair up",
            remedy="name as many axes of a as of b",
        )
    free_axes(a.rank, left, ())
    free_axes(b.rank, right, ())
    if _extents(a.shape, left) != _extents(b.shape, right):
        raise ShapeError(
            f"{kind} axes {left} of a, {a.describe_shape()}, and {right} of b, "
            f"{b.describe_shape()}, must have equal extents",
            remedy="name axes of equal extents",
        )


def _extents(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(shape[axis] for axis in axes)
