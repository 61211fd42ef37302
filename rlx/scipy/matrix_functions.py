"""Hessenberg and Schur forms of a matrix, and matrix functions computed from the latter."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.numpy import linalg
from rlx.numpy.eigenvalues import schur_form
from rlx.numpy.systems import adjoint
from rlx.runtime.arrays import Array
from rlx.scipy import reflections
from rlx.tracing.apply import function, inexact
from rlx.tracing.only import only
from rlx.transforms.control import fori_loop
from rlx.transforms.custom_jvp import custom_jvp


@function
@only(sort=(None,))
def schur(
    a: Any,
    output: str = "real",
    lwork: Any = None,
    overwrite_a: bool = False,
    sort: Any = None,
    check_finite: bool = True,
) -> tuple[Any, Any]:
    """A triangle `t` and a unitary `z` with `a = z @ t @ z.H`; leading axes are batches.

    Complex eigenvalues ascend along the diagonal by their real, then their imaginary parts. A real
    matrix has real factors, with blocks of two for pairs of eigenvalues, in an order of the
    iteration's, unless output="complex". There is no derivative.
    """
    if output not in ("real", "complex"):
        raise InputError(f"output is {output!r}", remedy="use real or complex")
    (a,) = inexact(a)
    t, z = schur_form(_as_complex(a) if output == "complex" else a)
    return t, z


@function
def hessenberg(
    a: Any, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """A matrix `h` that is zero below its first subdiagonal, and with `calc_q` the unitary `q`.

    `a = q @ h @ q.H`; leading axes are batches.
    """
    found, taus = reflections.hessenberg(a)
    h = rnp.triu(found, -1)
    if not calc_q:
        return h
    count = found.shape[-1]
    unit = np.eye(count, dtype=found.dtype)
    q = reflections.ormqr(found[..., 1:, :-1], taus, unit[1:, 1:]) if count > 1 else unit[1:, 1:]
    return h, unit + rnp.pad(q - unit[1:, 1:], [(0, 0)] * (found.ndim - 2) + [(1, 0)] * 2)


@function
def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:
    """The triangle and its basis of a real Schur form: blocks of two are turned into triangles."""
    t, z = (_as_complex(x) for x in inexact(T, Z))
    if t.shape != z.shape or t.ndim != 2 or t.shape[0] != t.shape[1]:
        raise ShapeError(
            f"T has shape {t.shape} and Z {z.shape}", remedy="pass square matrices of one shape"
        )
    count = t.shape[0]

    def turn(back: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        t, z = state
        at = count - 2 - back
        pair = rnp.stack([at, at + 1])
        rows = rnp.take(t, pair, 0)
        (a, b), (c, d) = rnp.take(rows, pair, 1)
        half = (a - d) / 2
        vector = rnp.stack([half + rnp.sqrt(half * half + b * c), c])
        vector = rnp.where(rnp.equal(c, 0), np.array([1, 0]), vector)  # a triangle already
        x, y = vector / linalg.vector_norm(vector)
        way = rnp.stack([rnp.stack([rnp.conj(x), rnp.conj(y)]), rnp.stack([-y, x])])
        t = t.at[pair].set(way @ rows)
        t, z = (m.at[:, pair].set(rnp.take(m, pair, 1) @ adjoint(way)) for m in (t, z))
        return t.at[at + 1, at].set(0), z

    if count > 1:
        t, z = fori_loop(0, count - 1, turn, (t, z))
    return t, z


@function
def funm(A: Any, func: Any, disp: bool = True) -> Any:
    """A function of a matrix by its values at the eigenvalues; an estimate of the error, too.

    Parlett's recurrence fills the triangle, one diagonal after the other. Where eigenvalues are
    equal it has no divisor, and the estimate, which `disp` leaves out, says that the result is not
    to be relied on.
    """
    (a,) = inexact(A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"A has shape {a.shape}", remedy="pass a square matrix; vmap takes more")
    t, z = schur(a, "complex")
    count = t.shape[0]
    values = rnp.diagonal(t)
    apart = values - values[:, None]
    divisors = rnp.where(rnp.equal(apart, 0), 1, apart)
    ahead = np.arange(count) - np.arange(count)[:, None]

    def fill(p: Any, f: Any) -> Any:
        sums = t @ f - f @ t
        return rnp.where(rnp.equal(ahead, p), sums / divisors, f)

    f = fori_loop(1, count, fill, rnp.diag(rnp.astype(func(values), t.dtype)))
    least = rnp.min(rnp.where(ahead > 0, rnp.abs(apart), 1), initial=1)
    found = z @ f @ adjoint(z)
    if disp:
        return found
    eps = np.finfo(t.dtype).eps
    least = rnp.where(rnp.equal(least, 0), eps, least)
    size = rnp.max(rnp.sum(rnp.abs(rnp.triu(t, 1)), 0), initial=0)
    return found, rnp.minimum(1, rnp.maximum(eps, eps / least * size))


@function
def sqrtm(A: Any, disp: bool = True, blocksize: int = 1) -> Array:
    """The principal square root of a matrix, complex as in JAX; use vmap for several.

    Where there is none, as of `[[0, 1], [0, 0]]`, columns are NaN. Derivatives solve
    `x dx + dx x = da`.
    """
    (a,) = inexact(A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"A has shape {a.shape}", remedy="pass a square matrix; vmap takes more")
    return _root(_as_complex(a))


@custom_jvp
def _root(a: Any) -> Any:
    t, z = schur(a, "complex")
    return z @ _triangular_root(t) @ adjoint(z)


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    t, z = schur(primals[0], "complex")
    root = _triangular_root(t)
    moved = _sylvester(root, adjoint(z) @ tangents[0] @ z)
    return _root(primals[0]), z @ moved @ adjoint(z)


def _triangular_root(t: Any) -> Any:
    """Return the upper triangle whose square is `t`, column by column (Bjorck and Hammarling).

    Above the diagonal, column j solves `(u + u_jj) u_j = t_j` with the columns before it.
    """
    count = t.shape[0]
    roots = rnp.sqrt(rnp.diagonal(t))

    def column(j: Any, u: Any) -> Any:
        above = rnp.less(np.arange(count), j)
        sums = rnp.where(above, roots + roots[j], 1)
        is_free = rnp.equal(sums, 0)
        system = u * (1 - np.eye(count)) + rnp.diag(rnp.where(is_free, 1, sums))
        found = linalg.solve_triangular(system, rnp.where(above, t[:, j], 0))
        fails = rnp.any(rnp.logical_and(is_free, rnp.not_equal(found, 0)))
        found = rnp.where(fails, np.nan, rnp.where(rnp.equal(np.arange(count), j), roots[j], found))
        return u.at[:, j].set(found)

    return fori_loop(0, count, column, rnp.zeros_like(t))


def _sylvester(u: Any, c: Any) -> Any:
    """Solve `u y + y u = c` for a triangle `u`, column by column."""
    count = u.shape[0]

    def column(j: Any, y: Any) -> Any:
        before = rnp.where(rnp.less(np.arange(count), j), u[:, j], 0)
        system = u + u[j, j] * np.eye(count)
        return y.at[:, j].set(linalg.solve_triangular(system, c[:, j] - y @ before))

    return fori_loop(0, count, column, rnp.zeros_like(c))


def _as_complex(a: Any) -> Any:
    """Return an array as complex numbers with parts of its own precision, f32 at least."""
    if a.value.dtype.is_complex:
        return a
    return rnp.astype(a, "complex128" if a.value.dtype.size == 8 else "complex64")
