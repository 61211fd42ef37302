"""Linear systems and what follows from factoring a matrix; `rlx.numpy.linalg` exports them.

Leading axes are batches. A matrix that is exactly singular, or not positive definite, raises
`SingularMatrixError`; with `on_singular="nan"` its results are NaN and the others are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.ops.solve import identity
from rlx.ir.shape import Shape, broadcast_shapes
from rlx.numpy import elementwise
from rlx.numpy.products import matmul
from rlx.numpy.shaping import broadcast_to, matrix_transpose, reshape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import (
    as_tracer,
    convert,
    emit,
    emit_several,
    function,
    inexact,
    static_int,
    wrap,
)
from rlx.tracing.trace import element_type


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of a determinant."""

    sign: Any
    logabsdet: Any


@function
def solve(a: Any, b: Any, *, on_singular: str = "error") -> Array:
    """Solve `a @ x = b`; `b` is a vector if it has one axis, else a batch of matrices."""
    a, b = inexact(a, b)
    _require_matrices(a, "solve")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if b.ndim == 1 and not batch:
        return emit(ops.solve, a, b, vector=True, on_singular=on_singular)
    columns = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    a, columns = _stretched(a, batch), _stretched(columns, batch)
    x = emit(ops.solve, a, columns, on_singular=on_singular)
    return reshape(x, x.shape[:-1]) if b.ndim == 1 else x


@function
def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    on_singular: str = "error",
) -> Array:
    """Solve with a triangle of `a`, as SciPy's function does.

    It is transposed for `trans` 1 or "T", and conjugated, too, for 2 or "C".
    """
    if trans not in (0, 1, 2, "N", "T", "C"):
        raise ShapeError(
            f"trans is {trans!r}; it must be 0, 1, 2, 'N', 'T' or 'C'",
            remedy="pass trans=0 for a, trans=1 for its transpose, trans=2 for the conjugate one",
        )
    a, b = inexact(a, b)
    _require_matrices(a, "solve_triangular")
    if trans in (2, "C"):
        a, trans = elementwise.conj(a), 1
    columns = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    batch = broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    x = emit(
        ops.triangular_solve, _stretched(a, batch), _stretched(columns, batch), lower=lower,
        unit_diagonal=unit_diagonal, transposed=trans in (1, "T"), on_singular=on_singular,
    )  # fmt: skip
    return reshape(x, x.shape[:-1]) if b.ndim == 1 else x


@function
def inv(a: Any, *, on_singular: str = "error") -> Array:
    """Invert square matrices."""
    (a,) = inexact(a)
    return emit(ops.inv, a, on_singular=on_singular)


@function
def det(a: Any) -> Array:
    """Determinants; 0 for singular matrices."""
    (a,) = inexact(a)
    return emit(ops.det, a)


@function
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Signs and logarithms of determinants; 0 and -inf for singular matrices."""
    (a,) = inexact(a)
    return SlogdetResult(*emit_several(ops.slogdet, a))


@function
def cholesky(
    a: Any, *, upper: bool = False, symmetrize_input: bool = True, on_singular: str = "error"
) -> Array:
    """Factor as `l @ l.T`, or `u.T @ u` if `upper`; by default of the mean of `a` and `a.T`.

    The transposes of complex matrices are conjugate.
    """
    (a,) = inexact(a)
    _require_matrices(a, "cholesky")
    symmetric = (a + adjoint(a)) * 0.5 if symmetrize_input else a
    return emit(ops.cholesky, symmetric, lower=not upper, on_singular=on_singular)


@function
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Return both factors in one matrix, and the row that each row was exchanged with."""
    factors, pivots, _ = lu_with_order(*inexact(a))
    return factors, pivots


def lu_with_order(a: Any) -> tuple[Any, Any, Any]:
    """Return what `lu_factor` does, and the i32 order of rows that the exchanges amount to."""
    _require_matrices(a, "lu")
    is_square = a.shape[-2] == a.shape[-1]
    factors, pivots, order = emit_several(ops.lu if is_square else ops.rectangular_lu, a)
    return factors, pivots, order


@function
def matrix_power(a: Any, n: int) -> Array:
    """Multiply a matrix with itself `n` times by squaring; a negative `n` inverts it."""
    exponent = static_int(n, "the exponent")
    dtype = element_type(a).dtype
    is_exact = (dtype.is_int or dtype is DType.BOOL) and exponent >= 0
    a = as_tracer(a) if is_exact else inexact(a)[0]
    _require_matrices(a, "matrix_power")
    if a.shape[-1] != a.shape[-2]:
        raise ShapeError(
            f"a has shape {a.shape}; its matrices are not square",
            remedy="pass square matrices, which have powers",
        )
    if exponent == 0:
        return broadcast_to(wrap(identity(a.value)), a.shape)
    square = emit(ops.inv, a) if exponent < 0 else a
    result: Any = None
    for digit in reversed(bin(abs(exponent))[2:]):
        if digit == "1":
            result = square if result is None else _product(result, square)
        square = _product(square, square)  # the last one is never read
    return result


def _product(x: Any, y: Any) -> Any:
    """Return `x @ y`; of bools, where a row and a column share a true element."""
    if x.value.dtype is not DType.BOOL:
        return matmul(x, y)
    return elementwise.not_equal(matmul(convert(x, DType.I32), y), 0)


def adjoint(a: Any) -> Any:
    """Transpose matrices, and conjugate complex ones."""
    a = as_tracer(a)
    return matrix_transpose(elementwise.conj(a) if a.value.dtype.is_complex else a)


def _stretched(x: Any, batch: Shape) -> Any:
    """Broadcast the batch axes of matrices."""
    return broadcast_to(x, (*batch, *x.shape[-2:]))


def _require_matrices(a: Any, name: str) -> None:
    if a.ndim < 2:
        raise ShapeError(
            f"{name}: a has shape {a.shape}; a matrix has two axes",
            remedy="pass an array of rank 2 or more",
        )
