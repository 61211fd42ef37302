"""`jax.lax.linalg`: decompositions with XLA's arguments."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import UnsupportedError
from rlx.numpy import linalg, shaping
from rlx.numpy.eigenvalues import schur_form
from rlx.numpy.matrices import permutation_of
from rlx.numpy.systems import lu_with_order
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.scipy.polar import qdwh as qdwh
from rlx.scipy.reflections import geqrf as geqrf
from rlx.scipy.reflections import hessenberg as hessenberg
from rlx.scipy.reflections import householder_product as householder_product
from rlx.scipy.reflections import ormqr as ormqr
from rlx.scipy.reflections import pivoted_qr
from rlx.scipy.reflections import tridiagonal as tridiagonal
from rlx.tracing.apply import function, inexact
from rlx.transforms.control import scan


@function
def cholesky(x: Any, *, symmetrize_input: bool = True) -> Array:
    """The lower Cholesky factor of each matrix."""
    return linalg.cholesky(x, symmetrize_input=symmetrize_input)


@function
def cholesky_update(r_matrix: Any, w_vector: Any) -> Array:
    """The upper Cholesky factor of `r.T @ r + outer(w, w)`."""
    r: Any
    w: Any
    r, w = inexact(r_matrix, w_vector)
    stacked = rnp.concatenate([r, w[..., None, :]], -2)
    found = linalg.qr(stacked, "r")
    sign = rnp.where(rnp.diagonal(found, axis1=-2, axis2=-1) < 0, -1, 1)
    return found * rnp.astype(sign, found.dtype)[..., :, None]


@function
def eig(
    x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True,
    **_: Any,
) -> list[Any]:  # fmt: skip
    """Eigenvalues, then left and right eigenvectors where asked for, of unit length."""
    values, right = linalg.eig(x)
    found = [values]
    if compute_left_eigenvectors:
        left = rnp.conj(rnp.swapaxes(linalg.inv(right), -1, -2))
        found.append(left / linalg.vector_norm(left, axis=-2, keepdims=True))
    return [*found, right] if compute_right_eigenvectors else found


@function
def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True, **_: Any) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues, in this order, of symmetric matrices."""
    triangle = None if symmetrize_input else ("L" if lower else "U")
    values, vectors = linalg.eigh(x, triangle)
    return vectors, values


@function
def lu(x: Any) -> tuple[Any, Any, Any]:
    """Both factors in one matrix, the exchanges of rows, and their permutation."""
    return lu_with_order(*inexact(x))


@function
def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Array:
    """The order of rows that exchanges with `pivots`, one after the other, give."""
    return permutation_of(pivots, permutation_size)


@function
def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, **_: Any) -> Any:
    """Factor as `q @ r`; with `pivoting` columns in an order that is the third result."""
    if pivoting:
        return pivoted_qr(x, full_matrices)
    return linalg.qr(x, "complete" if full_matrices else "reduced")


@function
def schur(
    x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
    select_callable: Any = None,
) -> tuple[Array, ...]:  # fmt: skip
    """Schur's form, real of real matrices (blocks of two for pairs of eigenvalues), and vectors."""
    if sort_eig_vals or select_callable is not None:
        raise UnsupportedError(
            "schur does not sort eigenvalues", remedy="leave sort_eig_vals and select_callable out"
        )
    t, z = schur_form(x)
    return (t, z) if compute_schur_vectors else (t,)


@function
def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True, **_: Any) -> Any:
    """Left vectors, singular values and right vectors."""
    return linalg.svd(x, full_matrices, compute_uv)


@function
def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:  # fmt: skip
    """`alpha * a @ a.T + beta * c`."""
    del symmetrize_output  # it is symmetric
    a: Any
    c: Any
    a, c = inexact(a_matrix, c_matrix)
    return alpha * rnp.matmul(a, shaping.matrix_transpose(a)) + beta * c


@function
def triangular_solve(
    a: Any, b: Any, *, left_side: bool = False, lower: bool = False, transpose_a: bool = False,
    conjugate_a: bool = False, unit_diagonal: bool = False,
) -> Array:  # fmt: skip
    """Solve `op(a) @ x = b`, or `x @ op(a) = b`, with a triangle of `a`."""
    a, b = inexact(a, b)
    a = rnp.conj(a) if conjugate_a else a
    columns = b if left_side else shaping.matrix_transpose(b)
    x = linalg.solve_triangular(a, columns, int(transpose_a == left_side), lower, unit_diagonal)
    return x if left_side else shaping.matrix_transpose(x)


@function
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, **_: Any) -> Array:
    """Solve with matrices of three diagonals; `dl[0]` and `du[-1]` are not read.

    Gaussian elimination with partial pivoting, as LAPACK's gtsv: an exchange of two rows adds an
    element to the second superdiagonal.
    """
    dl, d, du, b = inexact(dl, d, du, b)
    bands = shaping.moveaxis(rnp.stack([dl, d, du], 0), -1, 0)
    bands = bands.at[0, 0].set(0.0).at[-1, 2].set(0.0)
    rows = shaping.moveaxis(b, -2, 0)
    identity = rnp.zeros_like(bands[:1]).at[:, 1].set(1.0)  # a row that is never exchanged
    below = (
        rnp.concatenate([bands[1:], identity], 0),
        rnp.concatenate([rows[1:], 0 * rows[:1]], 0),
    )

    def eliminate(carry: Any, row: Any) -> Any:
        middle, high, right = carry
        (low, next_middle, next_high), next_right = (row[0][0], row[0][1], row[0][2]), row[1]
        swap = rnp.abs(low) > rnp.abs(middle)
        pivot, upper = rnp.where(swap, low, middle), rnp.where(swap, next_middle, high)
        second = rnp.where(swap, next_high, 0)
        value = rnp.where(swap[..., None], next_right, right)
        factor = rnp.where(swap, middle, low) / pivot
        remaining = (
            rnp.where(swap, high, next_middle) - factor * upper,
            rnp.where(swap, 0, next_high) - factor * second,
            rnp.where(swap[..., None], right, next_right) - factor[..., None] * value,
        )
        return remaining, (rnp.stack([pivot, upper, second], 0), value)

    def substitute(after: Any, row: Any) -> Any:
        (pivot, upper, second), value = (row[0][0], row[0][1], row[0][2]), row[1]
        first, next_after = after
        known = upper[..., None] * first + second[..., None] * next_after
        x = (value - known) / pivot[..., None]
        return (x, first), x

    _, factored = scan(eliminate, (bands[0, 1], bands[0, 2], rows[0]), below)
    zero = 0 * b[..., 0, :]
    _, found = scan(substitute, (zero, zero), factored, reverse=True)
    return shaping.moveaxis(found, 0, -2)


__dir__ = _names_of(__name__)
