"""Polar decompositions: a matrix as a unitary one times a positive one."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.numpy import linalg
from rlx.numpy.axes import static_shape
from rlx.numpy.systems import adjoint
from rlx.tracing.apply import function, inexact
from rlx.transforms.branches import cond
from rlx.transforms.control import while_loop
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.implicit import custom_linear_solve


@function
def polar(
    a: Any, side: str = "right", *, method: str = "svd", eps: Any = None, max_iterations: Any = None
) -> tuple[Any, Any]:
    """Factors `u @ p`, or of side left `p @ u`: a unitary and a positive semidefinite matrix.

    By singular values of stacks of matrices, or of one matrix by `qdwh`, to which `eps` and
    `max_iterations` belong.
    """
    if side not in ("left", "right"):
        raise InputError(f"side is {side!r}", remedy="use left or right")
    if method == "qdwh":
        turned = side == "left"
        u, p, *_ = qdwh(adjoint(a) if turned else a, eps=eps, max_iterations=max_iterations)
        return (adjoint(u) if turned else u), p
    if method != "svd":
        raise InputError(f"method is {method!r}", remedy="use svd or qdwh")
    (a,) = inexact(a)
    rows, columns = static_shape(a)[-2:] if a.ndim > 1 else (0, 0)
    turned = rows < columns or (rows == columns and side == "left")
    u, p = _by_values(adjoint(a) if turned else a)
    u = adjoint(u) if turned else u
    if turned == (side == "left"):
        return u, p
    p = rnp.matmul(a, adjoint(u)) if side == "left" else rnp.matmul(adjoint(u), a)
    return u, (p + adjoint(p)) / 2


@custom_jvp
def _by_values(a: Any) -> tuple[Any, Any]:
    """Return `u` and `p` of side right, of a matrix with no more columns than rows."""
    left, values, right = linalg.svd(a, full_matrices=False)
    basis = adjoint(right)
    return rnp.matmul(left, right), rnp.matmul(basis * values[..., None, :], right)


@_by_values.defjvp
def _by_values_jvp(primals: Any, tangents: Any) -> Any:
    """With x = u.H da: du = u t and what is orthogonal to u, where t p + p t = x - x.H."""
    (a,), (da,) = primals, tangents
    u, p = _by_values(a)
    inside = adjoint(u) @ da
    turn = _anticommuted(p, inside - adjoint(inside))
    du = u @ turn
    if a.shape[-2] > a.shape[-1]:
        du = du + adjoint(linalg.solve(p, adjoint(da - u @ inside), on_singular="nan"))
    return (u, p), (du, inside - turn @ p)


def _anticommuted(p: Any, c: Any) -> Any:
    """Solve `x p + p x = c` for a positive matrix `p`: no divisor is a difference."""

    def solve(_: Any, c: Any) -> Any:
        return _divided(p, c)

    def solve_transposed(_: Any, c: Any) -> Any:
        return rnp.conj(_divided(p, rnp.conj(c)))

    return custom_linear_solve(lambda x: x @ p + p @ x, c, solve, solve_transposed)


def _divided(p: Any, c: Any) -> Any:
    """Divide by the sums of eigenvalues, in the basis of eigenvectors; nothing where they are 0."""
    values, basis = linalg.eigh(p)
    sums = values[..., :, None] + values[..., None, :]
    is_zero = rnp.equal(sums, 0)
    inside = adjoint(basis) @ c @ basis
    return basis @ (rnp.where(is_zero, 0, inside) / rnp.where(is_zero, 1, sums)) @ adjoint(basis)


@function
def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: Any = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Factor one matrix as `u @ h`; also the number of steps, and whether they converged.

    The dynamically weighted Halley iteration of Nakatsukasa, Bai and Gygi (2010): six steps in
    f64. `x` is tall or square, of full rank, and may be the corner, of `dynamic_shape`, of
    a larger array. `is_hermitian` decides nothing.
    """
    x = inexact(x)[0]
    rows, columns = static_shape(x)[-2:] if x.ndim == 2 else (0, 1)
    if rows < columns:
        raise ShapeError(
            f"qdwh of shape {x.shape}", remedy="give one matrix with no more columns than rows"
        )
    if dynamic_shape is not None:
        inside = (
            rnp.arange(n) < used for n, used in zip((rows, columns), dynamic_shape, strict=True)
        )
        x = rnp.where(rnp.logical_and(next(inside)[:, None], next(inside)), x, 0)
    real = rnp.real(x).dtype
    eps = rnp.finfo(real).eps if eps is None else eps
    near, least = (4 * eps) ** (1 / 3), 5 * eps
    limit = 10 if max_iterations is None else max_iterations

    def goes_on(state: Any) -> Any:
        _, _, steps, converged = state
        return rnp.logical_and(steps < limit, rnp.logical_not(converged))

    def halley(state: Any) -> Any:
        u, low, steps, _ = state
        better, low = _halley_step(u, low)
        moved = linalg.norm(better - u) < near * linalg.norm(better)
        return better, low, steps + 1, rnp.logical_and(moved, rnp.abs(1 - low) < least)

    size = rnp.sqrt(linalg.norm(x, 1) * linalg.norm(x, rnp.inf))
    start = (
        x / rnp.where(size == 0, 1, size),
        rnp.asarray(eps, real),
        rnp.int32(0),
        rnp.asarray(False),
    )
    u, _, steps, converged = while_loop(goes_on, halley, start)
    u = 1.5 * u - 0.5 * u @ (adjoint(u) @ u)  # one step of Newton and Schulz
    h = adjoint(u) @ x
    return u, (h + adjoint(h)) / 2, steps, converged


def _halley_step(u: Any, low: Any) -> tuple[Any, Any]:
    """Return a matrix nearer to unitary, and the least that its singular values can be."""
    square = low * low
    root = rnp.cbrt(4 * (1 - square) / (square * square))
    first = rnp.sqrt(1 + root)
    a = first + rnp.sqrt(8 - 4 * root + 8 * (2 - square) / (square * first)) / 2
    b = (a - 1) ** 2 / 4
    c = a + b - 1
    better = cond(c > 100, _by_qr, _by_cholesky, u, a, b, c)
    return better, low * (a + b * square) / (1 + c * square)


def _by_qr(u: Any, a: Any, b: Any, c: Any) -> Any:
    """One step where weights are large, which the other way would lose digits by."""
    rows, columns = u.shape
    stacked = rnp.concatenate([rnp.sqrt(c) * u, rnp.eye(columns, dtype=u.dtype)])
    q = linalg.qr(stacked)[0]
    return b / c * u + (a - b / c) / rnp.sqrt(c) * q[:rows] @ adjoint(q[rows:])


def _by_cholesky(u: Any, a: Any, b: Any, c: Any) -> Any:
    """One step by a factor of `1 + c * (u^H @ u)`."""
    gram = rnp.eye(u.shape[1], dtype=u.dtype) + c * (adjoint(u) @ u)
    factor = linalg.cholesky(gram)
    half = linalg.solve_triangular(factor, adjoint(u), lower=True)
    solved = linalg.solve_triangular(factor, half, lower=True, trans="C")
    return b / c * u + (a - b / c) * adjoint(solved)
