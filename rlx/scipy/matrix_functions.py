"""Schur's form of a matrix, and the square root that is read from it."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.ir import ops
from rlx.numpy import linalg
from rlx.tracing.apply import emit_several, function, inexact
from rlx.transforms.control import fori_loop
from rlx.transforms.custom_jvp import custom_jvp


@function
def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """A triangle `t` and a unitary `z` with `a = z @ t @ z.H`; leading axes are batches.

    Eigenvalues ascend along the diagonal by their real, then their imaginary parts. There is no
    derivative. The form of a real matrix that stays real, with blocks of two, is not built: ask for
    output="complex".
    """
    if output not in ("real", "complex"):
        raise InputError(f"output is {output!r}", remedy="use real or complex")
    (a,) = inexact(a)
    if output == "real" and not a.value.dtype.is_complex:
        raise UnsupportedError(
            "schur has no real form with blocks of two for pairs of eigenvalues",
            remedy='pass output="complex", whose triangle has the pairs on its diagonal',
        )
    t, z = emit_several(ops.schur, _as_complex(a))
    return t, z


@function
def sqrtm(A: Any, blocksize: int = 1) -> Any:  # noqa: N803
    """The principal square root of a matrix, complex as in JAX; use vmap for several.

    Where there is none, as of `[[0, 1], [0, 0]]`, columns are NaN. Derivatives solve
    `x dx + dx x = da`.
    """
    del blocksize
    (a,) = inexact(A)
    if a.ndim != 2 or a.shape[0] != a.shape[1]:
        raise ShapeError(f"A has shape {a.shape}", remedy="pass a square matrix; vmap takes more")
    return _root(_as_complex(a))


@custom_jvp
def _root(a: Any) -> Any:
    t, z = schur(a, "complex")
    return z @ _triangular_root(t) @ _adjoint(z)


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    t, z = schur(primals[0], "complex")
    root = _triangular_root(t)
    moved = _sylvester(root, _adjoint(z) @ tangents[0] @ z)
    return _root(primals[0]), z @ moved @ _adjoint(z)


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


def _adjoint(x: Any) -> Any:
    return rnp.conj(rnp.matrix_transpose(x))


def _as_complex(a: Any) -> Any:
    """Return an array as complex numbers with parts of its own precision, f32 at least."""
    if a.value.dtype.is_complex:
        return a
    return rnp.astype(a, "complex128" if a.value.dtype.size == 8 else "complex64")
