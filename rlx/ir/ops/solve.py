"""Systems of linear equations and factorizations, over f32, f64 and complex numbers.

Matrices are the last two axes and square; leading axes are a batch of independent slices, and
equal for all operands. A slice that has no solution ends the run with `SingularMatrixError`,
which names it, or is NaN throughout if `on_singular` is "nan". NaN and infinities propagate.
"""

from __future__ import annotations

from typing import Literal

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.declaration import op
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.lowering import Library, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import abs as absolute
from rlx.ir.ops.elementwise import (
    cast,
    complex_norm_sq,
    imag,
    log,
    maximum,
    ne,
    real,
    sign,
    sqrt,
    where,
)
from rlx.ir.ops.elementwise import eq as equal
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.reduction import reduce_prod, reduce_sum
from rlx.ir.ops.requirements import require_dtype, require_rank, require_same_dtype
from rlx.ir.ops.shape import expand, narrow, pad, reshape, slice, transpose
from rlx.ir.types import TensorType

__all__ = [
    "cholesky",
    "det",
    "inv",
    "lu",
    "rectangular_lu",
    "slogdet",
    "solve",
    "solve_backward",
    "triangular_solve",
]

_FAMILY = "linalg"


@op(_FAMILY, Trait.PROMOTES, Trait.ALL_ELEMENTS, Trait.MAY_FAULT)
def solve(
    a: TensorType,
    b: TensorType,
    *,
    vector: bool = False,
    transposed: bool = False,
    on_singular: Literal["error", "nan"] = "error",
) -> TensorType:
    """Return x with `a @ x = b`, by elimination with partial pivoting.

    `b` is `[..., n, k]`, or `[..., n]` if `vector`. If `transposed`, the matrices of `a` are
    read transposed. A pivot of exactly 0 makes a slice singular.
    """
    _require_square(a, "a")
    require_same_dtype(a, b)
    _require_sides(a, b, 1 if vector else 2, -1 if vector else -2)
    del transposed, on_singular
    return b


@lowered_by(solve, Library)
def _solve_by_library(_: Library, a: TensorType, b: TensorType, **__: object) -> None:
    """LAPACK's `gesv`, one slice after the other."""
    require_dtype(a, "f32 f64 complex", "a")
    require_dtype(b, "f32 f64 complex", "b")


@op(_FAMILY, Trait.PROMOTES, Trait.ALL_ELEMENTS, Trait.MAY_FAULT)
def triangular_solve(
    a: TensorType,
    b: TensorType,
    *,
    lower: bool = True,
    unit_diagonal: bool = False,
    transposed: bool = False,
    left: bool = True,
    on_singular: Literal["error", "nan"] = "error",
) -> TensorType:
    """Return x with `t @ x = b`, or `x @ t = b` unless `left`, where t is a triangle of `a`.

    Nothing else of `a` is read; if `unit_diagonal`, its diagonal counts as ones. If
    `transposed`, the triangle is transposed after it is taken.
    """
    _require_square(a, "a")
    require_same_dtype(a, b)
    _require_sides(a, b, 2, -2 if left else -1)
    del lower, unit_diagonal, transposed, on_singular
    return b


@op(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT)
def cholesky(
    a: TensorType, *, lower: bool = True, on_singular: Literal["error", "nan"] = "error"
) -> TensorType:
    """Factor a symmetric positive definite matrix as `l @ l.T`, or `u.T @ u` unless `lower`.

    Only that triangle of `a` is read, and the other one of the result is zero. A slice whose
    pivot is not positive counts as singular. Of complex (Hermitian) matrices the transposes are
    conjugate, and only real parts of the diagonal are read.
    """
    _require_square(a, "a")
    del lower, on_singular
    return a


@op(_FAMILY, Trait.ALL_ELEMENTS)
def lu(a: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    """Factor `a[permutation] = l @ u` with partial pivoting; singular matrices, too.

    Returns `l` (unit diagonal, not stored) and `u` in one matrix, the i32 row that each row was
    exchanged with in turn, and the i32 permutation that this amounts to. Complex numbers are
    compared by the sum of the absolute values of their parts, as LAPACK does.
    """
    _require_square(a, "a")
    rows = a.with_shape(a.shape[:-1]).with_dtype(DType.I32)
    return a, rows, rows


@lowered_by(cholesky, Library)
@lowered_by(lu, Library)
def _factor_by_library(_: Library, a: TensorType, **__: object) -> None:
    """LAPACK's `potrf` and `getrf`, one matrix on one thread."""
    require_dtype(a, "f32 f64 complex", "a")


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def rectangular_lu(a: Value) -> tuple[Value, Value, Value]:
    """Factor as `lu` does, matrices with more rows than columns or fewer, too.

    They are factored padded with zeros, among which nothing is exchanged.
    """
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    least = min(rows, columns)
    factors, pivots, permutation = lu(widened(a))
    for axis, length in ((-2, rows), (-1, columns)):
        factors = narrow(factors, axis=axis, start=0, length=length)
    return (
        factors,
        narrow(pivots, axis=-1, start=0, length=least),
        narrow(permutation, axis=-1, start=0, length=rows),
    )


@composite(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT)
def solve_backward(
    a: Value,
    x: Value,
    g: Value,
    *,
    transposed: bool = False,
    on_singular: Literal["error", "nan"] = "error",
) -> tuple[Value, Value]:
    """Return the cotangents of `a` and `b` from `g`, that of the vectors `x = solve(a, b)`.

    Nothing is conjugated: of complex numbers, the conjugates of `a` and `x` are passed.
    """
    db: Value = solve(a, g, vector=True, transposed=not transposed, on_singular=on_singular)
    column, row = (x, -db) if transposed else (-db, x)
    da = reshape(column, shape=(*x.shape, 1)) * reshape(row, shape=(*x.shape[:-1], 1, x.shape[-1]))
    return da, db


@composite(_FAMILY, Trait.ALL_ELEMENTS, Trait.MAY_FAULT)
def inv(a: Value, *, on_singular: Literal["error", "nan"] = "error") -> Value:
    """Invert: the solution for the columns of the identity."""
    eye = expand(identity(a), shape=a.shape)
    inverse: Value = solve(a, eye, on_singular=on_singular)
    return inverse


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def det(a: Value) -> Value:
    """Determinant: the product of the pivots, negated by each exchange of rows."""
    diagonal, parity = _pivots(a)
    return reduce_prod(diagonal, axes=(-1,)) * parity


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def slogdet(a: Value) -> tuple[Value, Value]:
    """Sign and logarithm of the determinant's absolute value; 0 and -inf where it is 0.

    The sign of a complex determinant is its direction.
    """
    diagonal, parity = _pivots(a)
    if a.dtype.is_complex:
        directions, logarithms = _polar(diagonal)
        return reduce_prod(directions, axes=(-1,)) * parity, reduce_sum(logarithms, axes=(-1,))
    signs = reduce_prod(sign(diagonal), axes=(-1,)) * parity
    return signs, reduce_sum(log(absolute(diagonal)), axes=(-1,))


def _polar(z: Value) -> tuple[Value, Value]:
    """Return directions, 0 at 0, and logarithms of absolute values; no square overflows."""
    larger = maximum(absolute(real(z)), absolute(imag(z)))
    is_zero = equal(larger, 0)
    scale = where(is_zero, 1.0, larger)
    scaled = z / cast(scale, to=z.dtype)
    size = sqrt(complex_norm_sq(scaled))
    return scaled / cast(where(is_zero, 1.0, size), to=z.dtype), log(scale) + log(size)


def identity(a: Value) -> Value:
    """Return the identity matrix of the extent and dtype of `a`."""
    square = TensorType(DType.I64, a.shape[-2:])
    rows, columns = (a.graph.iota(type=square, axis=axis) for axis in (0, 1))
    return cast(equal(rows, columns), to=a.dtype)


def widened(a: Value) -> Value:
    """Pad the rows or the columns of matrices with zeros, so that they are square."""
    rows, columns = a.type.with_shape(a.shape[-2:]).static_shape
    size = max(rows, columns)
    high = (*(0,) * (a.rank - 2), size - rows, size - columns)
    square: Value = pad(a, low=(0,) * a.rank, high=high)
    return square


def swap_last(a: Value) -> Value:
    """Transpose the last two axes."""
    *batch, row, column = range(a.rank)
    return transpose(a, perm=(*batch, column, row))


def diagonal_of(a: Value) -> Value:
    """Return the diagonals of square matrices."""
    batch, n = a.shape[:-2], a.shape[-1]
    flat = reshape(a, shape=(*batch, n * n))
    rank = len(batch)
    return slice(flat, start=(0,) * (rank + 1), stop=(*batch, n * n), step=(1,) * rank + (n + 1,))


def times(a: Value, x: Value, *, vector: bool) -> Value:
    """Return the product of matrices with the columns `x`, or with one vector each."""
    if not vector:
        return matmul(a, x)
    column = matmul(a, reshape(x, shape=(*x.shape, 1)))
    return reshape(column, shape=x.shape)


def _pivots(a: Value) -> tuple[Value, Value]:
    """Return the diagonal of the upper factor and the sign of the permutation."""
    factors, pivots, _ = lu(a)
    steps = a.graph.iota(type=TensorType(DType.I32, a.shape[-1:]))
    one = a.graph.constant(1, a.dtype)
    exchanged = where(ne(pivots, steps), -one, one)
    return diagonal_of(factors), reduce_prod(exchanged, axes=(-1,))


def _require_square(a: TensorType, operand: str) -> None:
    require_dtype(a, "f32 f64 complex", operand)
    require_rank(a, 2, operand)
    if a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"{operand} has shape {a.describe_shape()}; its last two extents must be equal",
            remedy="pass square matrices",
        )
    if not isinstance(a.shape[-1], int):
        raise ShapeError(
            f"{operand} has shape {a.describe_shape()}; the extent of its matrices must be static",
            remedy="bind the symbol, or pad with an identity block",
        )


def _require_sides(a: TensorType, b: TensorType, rank: int, axis: int) -> None:
    fits = b.rank == a.rank - 2 + rank and b.shape[:-rank] == a.shape[:-2]
    if not fits or b.shape[axis] != a.shape[-1]:
        wanted = "a vector" if rank == 1 else "a matrix"
        raise ShapeError(
            f"b has shape {b.describe_shape()} and a has {a.describe_shape()}; b must be {wanted} "
            f"of extent {a.shape[-1]} on axis {axis} for each slice of a",
            remedy="give b as many rows as a has",
        )
