"""Orthogonal decompositions and what follows from them; `rlx.numpy.linalg` exports them.

Leading axes are batches. Vectors have the sign in which their largest component is positive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.shape import broadcast_shapes
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.products import matmul
from rlx.numpy.reductions import max, min, sum
from rlx.numpy.shaping import broadcast_to, expand_dims, matrix_transpose, reshape
from rlx.numpy.systems import adjoint
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, emit_several, function, inexact


class QRResult(NamedTuple):
    """Orthonormal columns and an upper triangle."""

    Q: Any
    R: Any


class EighResult(NamedTuple):
    """Eigenvalues in ascending order, and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """Left vectors in columns, singular values in descending order, right vectors in rows."""

    U: Any
    S: Any
    Vh: Any


@function
def qr(a: Any, mode: str = "reduced") -> Any:
    """Factor as `q @ r`; mode reduced, complete (all of q), or r (alone)."""
    if mode not in ("reduced", "complete", "r"):
        raise ShapeError(f"mode is {mode!r}", remedy="use 'reduced', 'complete' or 'r'")
    (a,) = inexact(a)
    q, r = emit_several(ops.qr, a, full=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


@function
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of symmetric and of complex Hermitian matrices.

    By default of the mean of `a` and its conjugate transpose; of one triangle, "L" or "U", if it
    is named.
    """
    (a,) = inexact(a)
    if UPLO == "U":
        a = adjoint(a)
    elif UPLO is None and symmetrize_input:
        a = elementwise.multiply(elementwise.add(a, adjoint(a)), 0.5)
    return EighResult(*emit_several(ops.eigh, a))


@function
def eigvalsh(a: Any, UPLO: str | None = None) -> Array:
    """The eigenvalues of symmetric matrices."""
    return eigh(a, UPLO).eigenvalues


@function
def svd(
    a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """Factor as `u @ diag(s) @ vh`; with `full_matrices`, u and vh are square."""
    (a,) = inexact(a)
    if a.ndim < 2:
        raise ShapeError(
            f"a has shape {a.shape}; a matrix has two axes",
            remedy="pass an array of rank 2 or more",
        )
    if not compute_uv:
        return svdvals(a)
    if a.shape[-2] >= a.shape[-1]:
        return SVDResult(*emit_several(ops.svd, a, full=full_matrices))
    v, s, ut = emit_several(ops.svd, matrix_transpose(a), full=full_matrices)
    return SVDResult(matrix_transpose(ut), s, matrix_transpose(v))


@function
def svdvals(x: Any) -> Array:
    """The singular values, descending."""
    return svd(x, full_matrices=False).S


@function
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """The pseudo-inverse: singular values below `rtol` of the largest count as zero."""
    if rcond is not None and rtol is not None:
        raise InputError(
            f"rcond is {rcond} and rtol is {rtol}, which are two names of one parameter",
            remedy="pass one of them",
        )
    (a,) = inexact(a)
    if 0 in static_shape(a)[-2:]:
        return adjoint(a)
    a, rtol = _with_ratios(a, rtol if rcond is None else rcond)
    return emit(ops.pseudo_inverse, a, rtol)


def _with_ratios(a: Any, rtol: Any) -> tuple[Any, Any]:
    """Return `a`, and for each of its matrices below which part of the largest values are zero."""
    rtol = _usual_ratio(a) if rtol is None else rtol
    batch = broadcast_shapes(a.shape[:-2], np.shape(rtol))
    ratios = broadcast_to(elementwise.astype(rtol, a.dtype), batch)
    return broadcast_to(a, (*batch, *a.shape[-2:])), ratios


def _usual_ratio(a: Any) -> float:
    return float(np.max(static_shape(a)[-2:]).item() * np.finfo(a.dtype).eps)


def _cutoff(a: Any, s: Any, rtol: Any) -> Any:
    """Return below which singular values of `a` count as zero, along their axis."""
    rtol = _usual_ratio(a) if rtol is None else rtol
    rtol = expand_dims(rtol, -1) if np.ndim(rtol) else rtol
    return elementwise.multiply(rtol, max(s, -1, keepdims=True, initial=0.0))


@function
def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Array:
    """How many singular values are above `tol`, or above `rtol` of the largest."""
    (A,) = inexact(A)
    if A.ndim < 2:
        return elementwise.astype(elementwise.not_equal(max(elementwise.abs(A)), 0), "i64")
    s = svdvals(A)
    cut = _cutoff(A, s, rtol) if tol is None else expand_dims(tol, -1)
    return sum(elementwise.greater(s, cut), -1)


@function
def cond(x: Any, p: Any = None) -> Array:
    """The largest singular value over the smallest; the other way round for `p` -2."""
    if p not in (None, 2, -2):
        raise ShapeError(
            f"cond by the norm {p!r}",
            remedy="use None, 2 or -2, or norms of a and inv(a)",
        )
    s = svdvals(x)
    first, last = max(s, -1), min(s, -1)
    return elementwise.divide(last, first) if p == -2 else elementwise.divide(first, last)


@function
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Array, Array, Array, Array]:
    """The least-squares solution of `a @ x = b`, residuals, rank and singular values of `a`."""
    a, b = inexact(a, b)
    columns = reshape(b, (*b.shape, 1)) if b.ndim == 1 else b
    s = svd(a, full_matrices=False).S
    kept = elementwise.greater(s, _cutoff(a, s, rcond))
    if 0 in static_shape(a)[-2:]:
        x = matmul(adjoint(a), columns)
    else:
        matrices, ratios = _with_ratios(a, rcond)
        x = emit(ops.least_squares, matrices, columns, ratios)
    residuals = sum(squares(elementwise.subtract(matmul(a, x), columns)), -2)
    x = reshape(x, x.shape[:-1]) if b.ndim == 1 else x
    return x, residuals, sum(kept, -1), s


@function
def spectral_norm(a: Any, ord: Any) -> Array:
    """The matrix norms by singular values: the largest (2), the smallest (-2), their sum (nuc)."""
    s = svdvals(a)
    return sum(s, -1) if ord == "nuc" else max(s, -1) if ord == 2 else min(s, -1)


def squares(x: Any) -> Any:
    """The squared absolute values."""
    return emit(ops.complex_norm_sq, x) if x.value.dtype.is_complex else elementwise.square(x)
