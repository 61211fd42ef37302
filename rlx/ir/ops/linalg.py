"""Matrix products."""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.layout import Panels
from rlx.ir.lowering import Library, Streamed, Tile, lowered_by
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


@lowered_by(matmul, Tile, layouts=(1,))
def _matmul_in_tiles(tile: Tile, a: TensorType, b: TensorType) -> None:
    """Register tiles of `tile.rows` rows by one panel of columns, packed or as stored in `b`."""
    require_dtype(a, "f32 f64")
    require_tile(tile, b)


def require_tile(tile: Tile, b: TensorType) -> None:
    """Raise a ShapeError unless `b` is read in panels of `tile.columns` columns."""
    tile.require_positive()
    packed = b.layout == Panels(tile.columns)
    whole = b.layout is None and upper(b.shape[-1]) >= tile.columns
    if not (packed or whole) or tile.columns % tile.lanes:
        raise ShapeError(
            f"a tile of {tile.rows} rows and {tile.columns} columns in vectors of {tile.lanes} "
            f"does not fit b of type {b}",
            remedy="choose a tile that does, or leave the choice to the passes",
        )


def _transposing(a: Value, b: Value, *, left: bool, right: bool) -> Value:
    """Transpose, then multiply."""
    result: Value = matmul(swapped(a) if left else a, swapped(b) if right else b)
    return result


@op(_FAMILY, *_PRODUCT, decompose=_transposing)
def matmul_transposed(a: TensorType, b: TensorType, *, left: bool, right: bool) -> TensorType:
    """`matmul` with `a` given as `[..., K, M]` if `left`, and `b` as `[..., N, K]` if `right`."""
    result: TensorType = matmul.infer(
        swapped_type(a) if left else a, swapped_type(b) if right else b
    )
    return result


@lowered_by(matmul_transposed, Tile, layouts=(1,))
def _matmul_transposed_in_tiles(
    tile: Tile, a: TensorType, b: TensorType, *, left: bool, right: bool
) -> None:
    if right:
        raise ShapeError("tiles read b as it is", remedy="pack its transpose, with pack_panels")
    _matmul_in_tiles(tile, swapped_type(a) if left else a, b)


@lowered_by(matmul, Streamed)
def _matmul_streamed(streamed: Streamed, a: TensorType, b: TensorType) -> None:
    """Rows of `b` unpacked, each multiplied by all rows of `a` at once."""
    require_dtype(a, "f32 f64")
    lanes, columns = streamed.lanes, b.shape[-1]
    rows = a.shape[-2] if b.rank > 2 else product(a.shape[:-1])
    fits = lanes >= 1 and streamed.columns % lanes == 0 and streamed.depth >= 1
    known = isinstance(columns, int) and columns >= lanes and isinstance(rows, int)
    if not (fits and known and streamed.columns >= 1 and b.layout is None):
        raise ShapeError(
            f"blocks of {streamed.columns} columns, {streamed.depth} rows at a time, in vectors of "
            f"{lanes} do not fit a of type {a} and b of type {b}",
            remedy="leave the choice to the passes",
        )
    if b.rank > 2 and a.shape[:-2] not in ((), b.shape[:-2]):
        raise ShapeError(
            f"a streamed product does not broadcast the matrices of b, of type {b}",
            remedy="broadcast b first",
        )


@lowered_by(matmul_transposed, Streamed)
def _matmul_transposed_streamed(
    streamed: Streamed, a: TensorType, b: TensorType, *, left: bool, right: bool
) -> None:
    if right:
        raise ShapeError("a streamed product reads b as it is", remedy="transpose it first")
    _matmul_streamed(streamed, swapped_type(a) if left else a, b)


@lowered_by(matmul, Library)
def _matmul_by_library(_: Library, a: TensorType, b: TensorType) -> None:
    """One call for each matrix, with 32-bit integers."""
    require_dtype(a, "f32 f64 complex")
    for extent in (*a.shape[-2:], b.shape[-1], product(a.shape[:-1])):
        if upper(extent) > LARGEST_OF_BLAS:
            raise ShapeError(
                f"BLAS counts in 32 bits, which do not hold the extents of a, of type {a}, and b, "
                f"of type {b}",
                remedy="leave the choice to the passes",
            )


@lowered_by(matmul_transposed, Library)
def _matmul_transposed_by_library(
    library: Library, a: TensorType, b: TensorType, *, left: bool, right: bool
) -> None:
    _matmul_by_library(library, swapped_type(a) if left else a, swapped_type(b) if right else b)


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
