"""`scipy.linalg`'s names: `rlx.numpy.linalg` has most of them; here are the arguments of SciPy."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError
from rlx.numpy import linalg
from rlx.numpy.linalg import block_diag as block_diag
from rlx.numpy.linalg import cho_factor as cho_factor
from rlx.numpy.linalg import cho_solve as cho_solve
from rlx.numpy.linalg import expm as expm
from rlx.numpy.linalg import hilbert as hilbert
from rlx.numpy.linalg import lu as lu
from rlx.numpy.linalg import lu_factor as lu_factor
from rlx.numpy.linalg import lu_solve as lu_solve
from rlx.numpy.linalg import solve_triangular as solve_triangular
from rlx.numpy.linalg import toeplitz as toeplitz
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.scipy.matrix_functions import funm as funm
from rlx.scipy.matrix_functions import hessenberg as hessenberg
from rlx.scipy.matrix_functions import rsf2csf as rsf2csf
from rlx.scipy.matrix_functions import schur as schur
from rlx.scipy.matrix_functions import sqrtm as sqrtm
from rlx.scipy.polar import polar as polar
from rlx.scipy.reflections import pivoted_qr
from rlx.scipy.structured import circulant as circulant
from rlx.scipy.structured import companion as companion
from rlx.scipy.structured import convolution_matrix as convolution_matrix
from rlx.scipy.structured import dft as dft
from rlx.scipy.structured import eigh_tridiagonal as eigh_tridiagonal
from rlx.scipy.structured import fiedler as fiedler
from rlx.scipy.structured import fiedler_companion as fiedler_companion
from rlx.scipy.structured import hadamard as hadamard
from rlx.scipy.structured import hankel as hankel
from rlx.scipy.structured import helmert as helmert
from rlx.scipy.structured import invhilbert as invhilbert
from rlx.scipy.structured import invpascal as invpascal
from rlx.scipy.structured import leslie as leslie
from rlx.scipy.structured import pascal as pascal
from rlx.tracing.apply import function, inexact
from rlx.tracing.only import only


def cholesky(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The Cholesky factor, by default the upper one."""
    return linalg.cholesky(a, upper=not lower)


@only(transposed=(False,))
def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
    transposed: bool = False,
    debug: bool = False,
) -> Array:
    """Solve a system; of a positive definite matrix (assume_a="pos") by its Cholesky factor."""
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ShapeError(f"assume_a is {assume_a!r}", remedy="use gen, sym, her or pos")
    if assume_a == "pos":
        return linalg.cho_solve(linalg.cho_factor(a, lower), b)
    return linalg.solve(a, b)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The inverse of a matrix."""
    return linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant of a matrix."""
    return linalg.det(a)


@only(type=(1,), subset_by_index=(None,), subset_by_value=(None,))
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: None = None,
    subset_by_value: None = None,
    driver: str | None = None,
) -> Any:
    """Eigenvalues and vectors of a symmetric matrix."""
    if b is not None:
        raise ShapeError("eigh takes one matrix", remedy="reduce the problem by cholesky(b)")
    found = linalg.eigh(a, "L" if lower else "U")
    return found.eigenvalues if eigvals_only else found


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Left vectors, singular values and right vectors."""
    return linalg.svd(a, full_matrices, compute_uv)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """Factor as `q @ r`; mode full, economic or r.

    With `pivoting` columns come in an order, the last result: the longest that is left first.
    """
    if pivoting:
        q, r, order = pivoted_qr(a, mode != "economic")
        return (r, order) if mode == "r" else (q, r, order)
    names = {"full": "complete", "economic": "reduced"}
    return linalg.qr(a, names.get(mode, mode))


@function
def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, ...]:
    """`c @ q`, or of mode left `q @ c`, and `r`, of the economic factors of `a`.

    A vector `c` is a row or a column; `conjugate` takes the conjugate of `q`; `pivoting` adds the
    order of columns.
    """
    if mode not in ("left", "right"):
        raise InputError(f"mode is {mode!r}", remedy="use left or right")
    q, *rest = qr(a, mode="economic", pivoting=pivoting)
    q = rnp.conj(q) if conjugate else q
    return (q @ rnp.asarray(c) if mode == "left" else rnp.asarray(c) @ q), *rest


@function
def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """The exponential of a matrix and its derivative along `E`, or the derivative alone.

    Both are blocks of the exponential of `[[A, E], [0, A]]` (Van Loan 1978).
    """
    a, e = inexact(A, E)
    size = a.shape[-1]
    whole = expm(rnp.block([[a, e], [rnp.zeros_like(a), a]]))
    derivative = whole[..., :size, size:]
    return (whole[..., :size, :size], derivative) if compute_expm else derivative


@function
def solve_sylvester(a: Any, b: Any, q: Any) -> Array:
    """Solve `a X + X b = q` by the linear system of all elements of X: for small matrices."""
    a, b, q = inexact(a, b, q)
    rows, columns = q.shape
    system = rnp.kron(a, rnp.eye(columns, dtype=a.dtype))
    system = system + rnp.kron(rnp.eye(rows, dtype=a.dtype), rnp.transpose(b))
    return rnp.reshape(linalg.solve(system, rnp.ravel(q)), (rows, columns))


__dir__ = _names_of(__name__)
