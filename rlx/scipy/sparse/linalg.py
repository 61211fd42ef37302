"""Krylov methods for `A(x) = b`: `A` is a matrix or a linear function, `x` and `b` are trees.

They end when the residual is small. Derivatives, in both modes, are those of the solution, which
solve a system with `A` again, or with its transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.public_names import names_of as _names_of
from rlx.transforms.control import fori_loop, while_loop
from rlx.transforms.implicit import custom_linear_solve
from rlx.transforms.ravel import ravel_pytree

_Map = Callable[[Any], Any]
_Steps = Callable[[_Map, Any, Any, _Map], Any]


def _on_vectors(given: Any, back: _Map) -> _Map:
    """Return a matrix, or a map of trees, as a map of vectors; None is the identity."""
    if given is None:
        return lambda v: v
    if callable(given):
        return lambda v: ravel_pytree(given(back(v)))[0]
    return lambda v: rnp.matmul(given, v)


def _start(right: Any, x0: Any) -> Any:
    return rnp.zeros_like(right) if x0 is None else ravel_pytree(x0)[0]


def _solved(a: Any, b: Any, x0: Any, m: Any, steps: _Steps, *, symmetric: bool = False) -> Any:
    """Return what `steps` find from the map, the right side, a start and the preconditioner.

    The derivatives are those of the solution.
    """
    right, back = ravel_pytree(b)

    def solve(apply: _Map, right: Any) -> Any:
        return steps(apply, right, _start(right, x0), _on_vectors(m, back))

    is_real = not np.issubdtype(right.dtype, np.complexfloating)
    alike = symmetric and is_real  # a positive definite complex matrix is its adjoint
    return back(custom_linear_solve(_on_vectors(a, back), right, solve, solve, alike))


def _limit(right: Any, tol: float, atol: float) -> Any:
    return rnp.maximum(tol * rnp.linalg.norm(right), atol)


def cg(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0,
    maxiter: int | None = None, M: Any = None,
) -> tuple[Any, None]:  # fmt: skip
    """Conjugate gradients, for positive definite `A`; `(x, None)`."""

    def steps(apply: _Map, right: Any, x: Any, precondition: _Map) -> Any:
        most, limit = maxiter or 10 * right.shape[0], _limit(right, tol, atol)
        r = right - apply(x)
        z = precondition(r)

        def moves(state: Any) -> Any:
            k, _, r, _, _ = state
            return rnp.logical_and(rnp.less(k, most), rnp.greater(rnp.linalg.norm(r), limit))

        def step(state: Any) -> Any:
            k, x, r, p, energy = state
            moved = apply(p)
            length = energy / rnp.vdot(p, moved)
            x, r = x + length * p, r - length * moved
            z = precondition(r)
            new = rnp.vdot(r, z)
            return k + 1, x, r, z + new / energy * p, new

        return while_loop(moves, step, (0, x, r, z, rnp.vdot(r, z)))[1]

    return _solved(A, b, x0, M, steps, symmetric=True), None


def bicgstab(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0,
    maxiter: int | None = None, M: Any = None,
) -> tuple[Any, None]:  # fmt: skip
    """Stabilized biconjugate gradients, for any `A`; `(x, None)`."""

    def steps(apply: _Map, right: Any, x: Any, precondition: _Map) -> Any:
        most, limit = maxiter or 10 * right.shape[0], _limit(right, tol, atol)
        shadow = right - apply(x)
        one = rnp.ones((), shadow.dtype)

        def moves(state: Any) -> Any:
            return rnp.logical_and(
                rnp.less(state[0], most), rnp.greater(rnp.linalg.norm(state[2]), limit)
            )

        def step(state: Any) -> Any:
            k, x, r, p, v, rho, alpha, omega = state
            new = rnp.vdot(shadow, r)
            p = r + new / rho * (alpha / omega) * (p - omega * v)
            ahead = precondition(p)
            v = apply(ahead)
            alpha = new / rnp.vdot(shadow, v)
            s = r - alpha * v
            mended = precondition(s)
            t = apply(mended)
            size = rnp.vdot(t, t)
            omega = rnp.where(rnp.equal(size, 0), 0, rnp.vdot(t, s) / rnp.where(size == 0, 1, size))
            done = rnp.equal(size, 0)
            x = x + alpha * ahead + omega * mended
            return k + 1, x, s - omega * t, p, v, new, alpha, rnp.where(done, 1, omega)

        zero = rnp.zeros_like(shadow)
        state = (0, x, shadow, zero, zero, one, one, one)
        return while_loop(moves, step, state)[1]

    return _solved(A, b, x0, M, steps), None


def gmres(
    A: Any, b: Any, x0: Any = None, *, tol: float = 1e-5, atol: float = 0.0,
    restart: int = 20, maxiter: int | None = None, M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, None]:  # fmt: skip
    """Generalized minimal residuals, restarted, for any `A`; `(x, None)`."""

    def steps(apply: _Map, right: Any, x: Any, precondition: _Map) -> Any:
        size = min(restart, right.shape[0])
        most, limit = maxiter or 10 * right.shape[0], _limit(right, tol, atol)

        def grow(j: Any, state: Any) -> Any:
            basis, images = state
            image = apply(precondition(basis[j]))
            rest = image
            for _ in range(2):  # once more, for what rounding left; rows to come are zeros
                rest = rest - (rnp.conj(basis) @ rest) @ basis
            norm = rnp.linalg.norm(rest)
            small = rnp.less_equal(norm, 1e-12 * rnp.linalg.norm(image))
            row = rnp.where(small, 0.0, rest / rnp.where(small, 1, norm))
            return basis.at[j + 1].set(row), images.at[j].set(image)

        def cycle(state: Any) -> Any:
            k, x, r = state
            rows = rnp.zeros((size, r.shape[0]), r.dtype)
            basis = rnp.concatenate([(r / rnp.linalg.norm(r))[None], rows])
            basis, images = fori_loop(0, size, grow, (basis, rows))
            weights = rnp.linalg.lstsq(images.T, r)[0]
            x = x + precondition(weights @ basis[:-1])
            return k + 1, x, right - apply(x)

        def moves(state: Any) -> Any:
            return rnp.logical_and(
                rnp.less(state[0], most), rnp.greater(rnp.linalg.norm(state[2]), limit)
            )

        return while_loop(moves, cycle, (0, x, right - apply(x)))[1]

    return _solved(A, b, x0, M, steps), None


__dir__ = _names_of(__name__)
