"""Linear systems and factorizations in NumPy, all slices of a batch at once.

The same steps in the same order as the kernels take: what is exactly singular depends on it.
"""

from __future__ import annotations

import math

import numpy as np

from rlx.errors import SingularMatrixError
from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference


@reference(ops.solve)
def solve(a: Array, b: Array, *, vector: bool, transposed: bool, on_singular: str) -> Array:
    matrices = np.swapaxes(a, -1, -2) if transposed else a
    columns = b[..., None] if vector else b
    factors, _, permutation = lu(matrices)
    x = np.take_along_axis(columns, permutation[..., None], axis=-2)
    x = _substitute(factors, x, lower=True, unit=True)
    x = _substitute(factors, x, lower=False, unit=False)
    checked = _checked(x, _diagonal(factors) == 0, on_singular)
    return checked[..., 0] if vector else checked


@reference(ops.triangular_solve)
def triangular_solve(
    a: Array,
    b: Array,
    *,
    lower: bool,
    unit_diagonal: bool,
    transposed: bool,
    left: bool,
    on_singular: str,
) -> Array:
    flipped = transposed == left  # x t = b is t.T x.T = b.T
    triangle = np.swapaxes(a, -1, -2) if flipped else a
    columns = b if left else np.swapaxes(b, -1, -2)
    x = _substitute(triangle, columns.copy(), lower=lower != flipped, unit=unit_diagonal)
    zero = _diagonal(a) == 0
    checked = _checked(x, zero & (not unit_diagonal), on_singular)
    return checked if left else np.swapaxes(checked, -1, -2)


@reference(ops.cholesky)
def cholesky(a: Array, *, lower: bool, on_singular: str) -> Array:
    matrices = a if lower else np.swapaxes(a, -1, -2)
    n = a.shape[-1]
    factor = np.tril(matrices)
    indefinite = np.zeros((*a.shape[:-2], n), np.bool_)
    for k in range(n):
        pivot = factor[..., k, k].real
        indefinite[..., k] = pivot <= 0
        root = np.sqrt(pivot)
        factor[..., k, k] = root
        factor[..., k + 1 :, k] /= root[..., None]
        column = factor[..., k + 1 :, k]
        products = column[..., :, None] * np.conj(column[..., None, :])
        factor[..., k + 1 :, k + 1 :] -= np.tril(products)
    checked = _checked(factor, indefinite, on_singular)
    return checked if lower else np.swapaxes(checked, -1, -2)


@reference(ops.lu)
def lu(a: Array) -> tuple[Array, Array, Array]:
    n = a.shape[-1]
    factors = a.reshape(math.prod(a.shape[:-2]), n, n).copy()
    slices = np.arange(factors.shape[0])
    pivots = np.zeros((factors.shape[0], n), np.int32)
    permutation = np.tile(np.arange(n, dtype=np.int32), (factors.shape[0], 1))
    for k in range(n):
        column = factors[:, k:, k]
        size = np.abs(column.real) + np.abs(column.imag)
        chosen = k + np.argmax(np.where(np.isnan(size), np.inf, size), axis=-1)
        nan = np.isnan(size).any(axis=-1)  # a NaN outranks infinity
        chosen = np.where(nan, k + np.argmax(np.isnan(size), axis=-1), chosen)
        pivots[:, k] = chosen
        for rows in (factors, permutation):
            kept = rows[:, k].copy()
            rows[:, k] = rows[slices, chosen]
            rows[slices, chosen] = kept
        pivot = factors[:, k, k, None]
        # A column of zeros is eliminated already.
        factors[:, k + 1 :, k] = _over(factors[:, k + 1 :, k], np.where(pivot == 0, 1, pivot))
        steps = factors[:, k + 1 :, k, None] * factors[:, k, None, k + 1 :]
        factors[:, k + 1 :, k + 1 :] -= steps
    shape = a.shape[:-1]
    return factors.reshape(a.shape), pivots.reshape(shape), permutation.reshape(shape)


def _substitute(triangle: Array, x: Array, *, lower: bool, unit: bool) -> Array:
    """Solve in place, one row after the other."""
    n = triangle.shape[-1]
    for k in range(n) if lower else reversed(range(n)):
        if not unit:
            x[..., k, :] = _over(x[..., k, :], triangle[..., k, k, None])
        rest = slice(k + 1, n) if lower else slice(0, k)
        x[..., rest, :] -= triangle[..., rest, k, None] * x[..., k, None, :]
    return x


def _over(a: Array, b: Array) -> Array:
    """Divide; c64 by the square in f64, as kernels do, so that equal numbers give exactly 1."""
    if a.dtype != np.complex64:
        quotients: Array = a / b
        return quotients
    wide, by = a.astype(np.complex128), b.astype(np.complex128)
    product, square = wide * np.conj(by), by.real * by.real + by.imag * by.imag
    quotient: Array = np.empty(product.shape, np.complex64)
    quotient.real, quotient.imag = product.real / square, product.imag / square
    return quotient


def _diagonal(a: Array) -> Array:
    return np.diagonal(a, axis1=-2, axis2=-1)


def _checked(x: Array, faults: Array, on_singular: str) -> Array:
    """Fill singular slices with NaN, or raise naming the first."""
    singular: Array = np.any(faults, axis=-1)
    if on_singular == "error" and singular.any():
        position = int(np.argmax(singular.ravel()))
        raise SingularMatrixError(
            f"singular matrix at position {position}",
            remedy="add a small multiple of the identity, or check the matrix",
        )
    nan = complex(np.nan, np.nan) if np.iscomplexobj(x) else np.nan
    return np.where(singular[..., None, None], np.asarray(nan, x.dtype), x)
