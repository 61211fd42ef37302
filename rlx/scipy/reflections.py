"""Householder reflections as LAPACK stores them, and the forms that they bring matrices to.

Reflection c is `1 - tau v v.H`, with 1 at its own place in `v`, zeros before it and what is stored
below that place in column c after it. `k` of them in a row are `1 - V T V.H` with a triangle `T`
(Schreiber and Van Loan), so that products with them are products of matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import DTypeError, ShapeError
from rlx.numpy import linalg
from rlx.numpy.axes import static_shape
from rlx.numpy.systems import adjoint
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact
from rlx.transforms.control import fori_loop


@function
def householder_product(a: Any, taus: Any) -> Array:
    """The product of the reflections in the columns of `a`: as many first columns as `a` has."""
    a, taus = _wide_enough(a, taus)
    rows, columns = static_shape(a)[-2:]
    if rows < columns:
        raise ShapeError(
            f"a has shape {a.shape}; it must have at least as many rows as columns",
            remedy="pass the columns that hold reflections",
        )
    vectors, triangle = _block(a, taus)
    first = adjoint(vectors[..., :columns, :])
    return np.eye(rows, columns, dtype=a.dtype) - vectors @ (triangle @ first)


@function
def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Array:
    """`q @ c` or, not `left`, `c @ q`, of the product `q` of the reflections in `a`.

    With `transpose`, `q` is replaced by its (conjugate) transpose.
    """
    a, taus, c = _wide_enough(a, taus, c)
    vectors, triangle = _block(a, taus)
    triangle = adjoint(triangle) if transpose else triangle
    if left:
        return c - vectors @ (triangle @ (adjoint(vectors) @ c))
    return c - ((c @ vectors) @ triangle) @ adjoint(vectors)


def _block(a: Any, taus: Any) -> tuple[Any, Any]:
    """Return `V` and `T`: by `(1 + D S) T = D`, `S` what is above the diagonal of `V.H V`."""
    rows, count = static_shape(a)[-2], static_shape(taus)[-1]
    vectors = rnp.tril(a[..., :count], -1) + np.eye(rows, count, dtype=a.dtype)
    above = rnp.triu(adjoint(vectors) @ vectors, 1)
    system = taus[..., :, None] * above
    scaled = taus[..., :, None] * np.eye(count, dtype=a.dtype)
    return vectors, linalg.solve_triangular(system, scaled, unit_diagonal=True)


@function
def hessenberg(a: Any) -> tuple[Any, Any]:
    """A matrix that is zero below its first subdiagonal, with the reflections there, and factors.

    The reflections, in the rows from the second on, turn it back: see `householder_product`.
    """
    (a,) = _wide_enough(a)
    count = _extent(a)
    if count < 2:
        return a, rnp.zeros((*a.shape[:-2], max(count - 1, 0)), a.dtype)
    taus = rnp.zeros((*a.shape[:-2], count - 1), a.dtype)

    def eliminate(c: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        whole, factors = state
        found, vector, factor = _reflection(rnp.take(whole, c, -1), c + 1)
        row = rnp.conj(vector)[..., None, :]
        beyond = rnp.greater(np.arange(count), c)
        turned = whole - factor[..., None, None] * (whole @ vector[..., :, None]) * row
        back = rnp.conj(factor)[..., None, None] * vector[..., :, None]
        turned = turned - back * (row @ turned)
        whole = rnp.where(beyond, turned, whole)
        return whole.at[..., :, c].set(found), factors.at[..., c].set(factor)

    whole, factors = fori_loop(0, count - 1, eliminate, (a, taus))
    return whole, factors


@function
def geqrf(a: Any) -> tuple[Any, Any]:
    """`r` in the upper triangle, the reflections of `q` below it, and their factors."""
    (a,) = _wide_enough(a)
    if a.ndim < 2:
        raise ShapeError(f"a has shape {a.shape}; a matrix has two axes", remedy="pass matrices")
    rows, columns = static_shape(a)[-2:]
    steps = min(rows, columns)
    taus = rnp.zeros((*a.shape[:-2], steps), a.dtype)

    def eliminate(c: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        whole, factors = state
        found, vector, factor = _reflection(rnp.take(whole, c, -1), c)
        back = rnp.conj(factor)[..., None, None] * vector[..., :, None]
        turned = whole - back * (rnp.conj(vector)[..., None, :] @ whole)
        whole = rnp.where(rnp.greater(np.arange(columns), c), turned, whole)
        return whole.at[..., :, c].set(found), factors.at[..., c].set(factor)

    found: tuple[Any, Any] = fori_loop(0, steps, eliminate, (a, taus)) if steps else (a, taus)
    return found


@function
def pivoted_qr(a: Any, full: bool) -> tuple[Any, Any, Any]:
    """`q`, `r` and the order of columns with `a[:, order] = q @ r`: the longest that is left first.

    The sizes on the diagonal of `r` descend, which gives the rank.
    """
    (a,) = _wide_enough(a)
    rows, columns = static_shape(a)[-2:]
    steps = min(rows, columns)
    taus = rnp.zeros((*a.shape[:-2], steps), a.dtype)
    order = rnp.broadcast_to(rnp.arange(columns, dtype="int32"), (*a.shape[:-2], columns))
    places = np.arange(columns)

    def eliminate(c: Any, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        whole, factors, order = state
        chosen = _longest(whole, c)[..., None]
        swapped = rnp.where(rnp.equal(places, chosen), c, places)
        swapped = rnp.where(rnp.equal(places, c), chosen, swapped)
        whole = rnp.take_along_axis(whole, swapped[..., None, :], -1)
        found, vector, factor = _reflection(rnp.take(whole, c, -1), c)
        back = rnp.conj(factor)[..., None, None] * vector[..., :, None]
        turned = whole - back * (rnp.conj(vector)[..., None, :] @ whole)
        whole = rnp.where(rnp.greater(places, c), turned, whole).at[..., :, c].set(found)
        return whole, factors.at[..., c].set(factor), rnp.take_along_axis(order, swapped, -1)

    whole, factors = a, taus
    if steps:  # of nothing no column is the longest
        whole, factors, order = fori_loop(0, steps, eliminate, (a, taus, order))
    count = rows if full else steps
    q = ormqr(whole, factors, np.eye(rows, count, dtype=a.dtype))
    return q, rnp.triu(whole)[..., :count, :], order


def _longest(whole: Any, c: Any) -> Any:
    """Return which column from `c` on is the longest from row `c` on, the first of equal ones."""
    rows, columns = static_shape(whole)[-2:]
    sizes = rnp.where(rnp.less(np.arange(rows), c)[:, None], 0, rnp.abs(whole))
    largest = rnp.max(sizes, (-2, -1), keepdims=True, initial=0)
    scaled = sizes / rnp.where(rnp.equal(largest, 0), 1, largest)
    squares = rnp.where(rnp.less(np.arange(columns), c), -1, rnp.sum(scaled**2, -2))
    return rnp.argmax(squares, -1)


def _reflection(x: Any, place: Any) -> tuple[Any, Any, Any]:
    """Return `x` with its length at `place`, the reflection's vector after it; vector and factor.

    The length has the opposite sign of the (real part of the) entry there, as LAPACK has it.
    """
    numbers = np.arange(x.shape[-1])
    after, here = rnp.greater(numbers, place), rnp.equal(numbers, place)
    tail = rnp.where(after, x, 0)
    top = rnp.take(x, place, -1)
    largest = rnp.max(rnp.abs(rnp.where(after | here, x, 0)), -1)
    scale = rnp.where(rnp.equal(largest, 0), 1, largest)
    squares = rnp.sum(rnp.abs(tail / scale[..., None]) ** 2, -1)
    first = rnp.abs(top / scale) ** 2
    is_done = rnp.equal(squares, 0) & rnp.equal(rnp.imag(top), 0)
    length = scale * rnp.sqrt(rnp.where(is_done, 1, squares + first))
    found = rnp.where(rnp.real(top) < 0, length, -length)
    apart = rnp.where(is_done, 1, top - found)
    factor = rnp.where(is_done, 0, (found - top) / found)
    vector = rnp.where(here, 1, tail / apart[..., None])
    end = rnp.where(is_done, top, found)[..., None]
    return rnp.where(after, vector, rnp.where(here, end, x)), vector, factor


@function
def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Array, Array, Array, Array]:
    """Three diagonals that a symmetric (Hermitian) matrix is turned into by reflections.

    Returns the matrix with them and the reflections in one triangle, the only one that is read, the
    main diagonal, the off-diagonal, and the factors.
    """
    (a,) = _wide_enough(a)
    count = _extent(a)
    given = a if lower else rnp.flip(a, (-2, -1))
    below = rnp.tril(given, -1)
    diagonal = rnp.astype(rnp.real(rnp.diagonal(given, axis1=-2, axis2=-1)), a.dtype)
    whole = below + adjoint(below) + diagonal[..., :, None] * np.eye(count, dtype=a.dtype)
    turned, taus = hessenberg(whole)
    kept = rnp.where(np.tri(count, dtype=bool), turned, given)
    main = rnp.real(rnp.diagonal(turned, axis1=-2, axis2=-1))
    off_diagonal = rnp.real(rnp.diagonal(turned, -1, -2, -1))
    if lower:
        return kept, main, off_diagonal, taus
    main, off_diagonal, taus = (rnp.flip(x, -1) for x in (main, off_diagonal, taus))
    return rnp.flip(kept, (-2, -1)), main, off_diagonal, taus


def _wide_enough(*arrays: Any) -> list[Any]:
    """Return matrices in their common dtype, of 32 bits or more, as all factorizations take them.

    Rounded to fewer after every reflection, the digits of the first would be lost with the last.
    """
    found = inexact(*arrays)
    dtype = found[0].value.dtype
    if dtype.is_float and dtype.size < 4:
        raise DTypeError(
            f"the matrix has dtype {dtype}; it must be one of: f32, f64, complex",
            remedy="convert it to one of these dtypes, with .astype",
        )
    return found


def _extent(a: Any) -> int:
    shape = static_shape(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"a has shape {a.shape}", remedy="pass square matrices")
    return shape[-1]
