"""Structured matrices (circulant, Hankel, companion, DFT), and decompositions made of others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.numpy import linalg
from rlx.numpy.axes import count_from
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact
from rlx.tracing.only import only


@function
def circulant(c: Any) -> Array:
    """The matrix whose columns are `c`, each turned one further."""
    c = rnp.ravel(c)
    n = c.shape[0]
    return rnp.take(c, (np.arange(n)[:, None] - np.arange(n)) % n)


@function
def hankel(c: Any, r: Any = None) -> Array:
    """The matrix with first column `c` and last row `r`, constant across each antidiagonal."""
    c = rnp.ravel(c)
    r = rnp.zeros_like(c) if r is None else rnp.ravel(r)
    rows, columns = c.shape[0], r.shape[0]
    return rnp.take(rnp.concatenate([c, r[1:]]), np.arange(rows)[:, None] + np.arange(columns))


@function
def companion(a: Any) -> Array:
    """The matrix whose eigenvalues are the zeros of the polynomial `a`."""
    (a,) = inexact(a)
    n = a.shape[0] - 1
    return rnp.concatenate([(-a[1:] / a[0])[None], rnp.eye(n - 1, n, dtype=a.dtype)])


@function
def leslie(f: Any, s: Any) -> Array:
    """The matrix of a population: births `f` above, survival `s` below the diagonal."""
    f, s = rnp.asarray(f), rnp.asarray(s)
    return rnp.concatenate([f[None], rnp.diag(s, -1)[1:]])


@function
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Array:
    """The matrix of the convolution with `a`, of vectors of `n` elements."""
    a = rnp.asarray(a)
    count = a.shape[0]
    zeros = rnp.zeros(n - 1, a.dtype)
    whole = linalg.toeplitz(rnp.concatenate([a, zeros]), rnp.concatenate([a[:1], zeros]))
    cut = {"full": (0, n + count - 1), "same": ((min(n, count) - 1) // 2, max(n, count)),
           "valid": (min(n, count) - 1, max(n, count) - min(n, count) + 1)}  # fmt: skip
    if mode not in cut:
        raise InputError(f"mode is {mode!r}", remedy="use full, same or valid")
    start, length = cut[mode]
    return whole[start : start + length]


@function
def fiedler(a: Any) -> Array:
    """The distances of each two elements."""
    a = rnp.asarray(a)
    return rnp.abs(a[:, None] - a)


@function
def fiedler_companion(a: Any) -> Array:
    """A matrix of five diagonals whose eigenvalues are the zeros of the polynomial `a`."""
    (a,) = inexact(a)
    if a.ndim != 1:
        raise InputError(f"a has {a.ndim} axes", remedy="pass the coefficients of one polynomial")
    n = max(a.shape[0] - 1, 0)
    numbers, odd = np.arange(2, n + 1), np.arange(2, n + 1) % 2
    # Coefficient 1 is in the corner, 2 right of it, 3 below that, 4 right of that, ...
    rows = np.concatenate([np.zeros(min(n, 1), int), np.where(odd, numbers - 1, numbers - 2)])
    columns = np.concatenate([np.zeros(min(n, 1), int), np.where(odd, numbers - 2, numbers - 1)])
    ones = np.zeros((n, n))
    ones[1:2, :1] = 1
    ones[np.arange(0, n - 2, 2), np.arange(2, n, 2)] = 1
    ones[np.arange(3, n, 2), np.arange(1, n - 2, 2)] = 1
    start = rnp.asarray(ones, a.dtype)
    return start.at[rows, columns].set(-a[1:] / a[0]) if n else start


def dft(n: int, scale: str | None = None) -> Array:
    """The matrix of the Fourier transform of `n` elements."""
    divisors = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}
    if scale not in divisors:
        raise InputError(f"scale is {scale!r}", remedy="use sqrtn, n or nothing")
    turns = np.outer(np.arange(n), np.arange(n)) % n
    return rnp.asarray(np.exp(-2j * np.pi * turns / n) / divisors[scale])


def hadamard(n: int, dtype: Any = int) -> Array:
    """Hadamard's matrix by Sylvester's construction; `n` is a power of two."""
    if n < 1 or n & (n - 1):
        raise InputError(f"n is {n}", remedy="use a power of two")
    found = np.ones((1, 1), dtype)
    while found.shape[0] < n:
        found = np.block([[found, found], [found, -found]])
    return rnp.asarray(found)


def helmert(n: int, full: bool = False) -> Array:
    """Helmert's matrix, without its first row unless `full`."""
    if count_from(n, "n") == 0:
        raise InputError("helmert: n is 0", remedy="give the number of rows, at least 1")
    rows = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    rows[0] = 1
    scale = np.sqrt(np.array([n, *(k * (k + 1) for k in range(1, n))]))
    found = rows / scale[:, None]
    return rnp.asarray(found if full else found[1:])


def pascal(n: int, kind: str = "symmetric", exact: bool = True) -> Array:
    """Pascal's triangle as a matrix: symmetric, lower or upper."""
    lower = np.array([[float(math.comb(i, j)) for j in range(n)] for i in range(n)])
    kinds = {"symmetric": lower @ lower.T, "lower": lower, "upper": lower.T}
    if kind not in kinds:
        raise InputError(f"kind is {kind!r}", remedy="use symmetric, lower or upper")
    return rnp.asarray(kinds[kind])


def invpascal(n: int, kind: str = "symmetric", exact: bool = True) -> Array:
    """The inverse of Pascal's matrix."""
    signs = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    lower = np.asarray(pascal(n, "lower")) * signs
    kinds = {"symmetric": lower.T @ lower, "lower": lower, "upper": lower.T}
    return rnp.asarray(kinds[kind])


def invhilbert(n: int, exact: bool = False) -> Array:
    """The inverse of Hilbert's matrix."""
    comb = math.comb
    rows = [
        [(-1) ** (i + j) * (i + j + 1) * comb(n + i, n - j - 1) * comb(n + j, n - i - 1)
         * comb(i + j, i) ** 2 for j in range(n)]
        for i in range(n)
    ]  # fmt: skip
    return rnp.asarray(np.array(rows, np.float64))


@function
@only(select=("a",), select_range=(None,))
def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    check_finite: bool = True,
    tol: Any = 0.0,
    lapack_driver: str = "auto",
) -> tuple[Array, Array]:
    """Eigenvalues, and vectors unless `eigvals_only`, of a symmetric tridiagonal matrix."""
    found = linalg.eigh(rnp.diag(d) + rnp.diag(e, -1) + rnp.diag(e, 1))
    return found.eigenvalues if eigvals_only else (found.eigenvalues, found.eigenvectors)
