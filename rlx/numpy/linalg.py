"""`rlx.numpy.linalg`: norms and products of matrices, linear systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.shape import product
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of, static_shape
from rlx.numpy.decompositions import cond as cond
from rlx.numpy.decompositions import eigh as eigh
from rlx.numpy.decompositions import eigvalsh as eigvalsh
from rlx.numpy.decompositions import lstsq as lstsq
from rlx.numpy.decompositions import matrix_rank as matrix_rank
from rlx.numpy.decompositions import pinv as pinv
from rlx.numpy.decompositions import qr as qr
from rlx.numpy.decompositions import spectral_norm, squares
from rlx.numpy.decompositions import svd as svd
from rlx.numpy.decompositions import svdvals as svdvals
from rlx.numpy.diagonals import diagonal as _diagonal
from rlx.numpy.diagonals import trace as _trace
from rlx.numpy.eigenvalues import eig as eig
from rlx.numpy.eigenvalues import eigvals as eigvals
from rlx.numpy.matrices import block_diag as block_diag
from rlx.numpy.matrices import cho_factor as cho_factor
from rlx.numpy.matrices import cho_solve as cho_solve
from rlx.numpy.matrices import hilbert as hilbert
from rlx.numpy.matrices import lu as lu
from rlx.numpy.matrices import lu_solve as lu_solve
from rlx.numpy.matrices import toeplitz as toeplitz
from rlx.numpy.matrix_exponential import expm as expm
from rlx.numpy.products import cross as cross
from rlx.numpy.products import matmul as matmul
from rlx.numpy.products import outer as outer
from rlx.numpy.products import tensordot as tensordot
from rlx.numpy.products import vecdot as vecdot
from rlx.numpy.reductions import max, min, sum
from rlx.numpy.shaping import expand_dims, moveaxis, ravel, reshape
from rlx.numpy.shaping import matrix_transpose as matrix_transpose
from rlx.numpy.systems import cholesky as cholesky
from rlx.numpy.systems import det as det
from rlx.numpy.systems import inv as inv
from rlx.numpy.systems import lu_factor as lu_factor
from rlx.numpy.systems import matrix_power as matrix_power
from rlx.numpy.systems import slogdet as slogdet
from rlx.numpy.systems import solve as solve
from rlx.numpy.systems import solve_triangular as solve_triangular
from rlx.public_names import names_of as _names_of
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, inexact


@function
def diagonal(x: Any, *, offset: int = 0) -> Array:
    """The diagonal of each matrix of a stack."""
    return _diagonal(x, offset, -2, -1)


@function
def multi_dot(arrays: Any, *, precision: Any = None) -> Array:
    """The product of several matrices, in the order that takes the fewest multiplications."""
    parts = list(inexact(*arrays))
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = reshape(parts[0], (1, -1)) if first else parts[0]
    parts[-1] = reshape(parts[-1], (-1, 1)) if last else parts[-1]
    extents = [static_shape(parts[0])[0], *(static_shape(part)[1] for part in parts)]
    found = _product(parts, _best_splits(extents), 0, len(parts) - 1)
    kept = [e for e, dropped in zip(found.shape, (first, last), strict=True) if not dropped]
    return reshape(found, kept)


def _best_splits(extents: list[int]) -> dict[tuple[int, int], int]:
    """Return where each stretch of factors is best split, by the costs of all shorter ones."""
    count = len(extents) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            found = [
                (cost[i, s] + cost[s + 1, j] + extents[i] * extents[s + 1] * extents[j + 1], s)
                for s in range(i, j)
            ]
            cost[i, j], split[i, j] = sorted(found)[0]
    return split


def _product(parts: list[Any], split: dict[tuple[int, int], int], first: int, last: int) -> Any:
    if first == last:
        return parts[first]
    at = split[first, last]
    return matmul(_product(parts, split, first, at), _product(parts, split, at + 1, last))


@function
def tensorinv(a: Any, ind: int = 2) -> Array:
    """The inverse of `tensordot(a, .)` over the axes from `ind` on."""
    (a,) = inexact(a)
    rows, columns = a.shape[:ind], a.shape[ind:]
    matrix = reshape(a, (product(rows), product(columns)))
    return reshape(inv(matrix), (*columns, *rows))


@function
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """Solve `tensordot(a, x, x.ndim) = b`."""
    a, b = inexact(a, b)
    if axes is not None:
        moved = axes_of(axes, a.ndim)
        a = moveaxis(a, moved, tuple(range(a.ndim - len(moved), a.ndim)))
    shape = a.shape[b.ndim :]
    return reshape(solve(reshape(a, (product(b.shape), product(shape))), ravel(b)), shape)


@function
def trace(x: Any, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sum of the diagonal of each matrix of a stack, added up in `dtype`."""
    return _trace(x if dtype is None else elementwise.astype(x, dtype), offset, -2, -1)


@function
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """Norm of vectors (one axis) or matrices (two axes); by default the root of all squares."""
    (x,) = inexact(x)
    if axis is None and ord is None:
        root = vector_norm(ravel(x))
        return reshape(root, (1,) * x.ndim) if keepdims else root
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, ord=ord, axis=axes, keepdims=keepdims)
    if len(axes) == 2:
        return _matrix_norm(x, ord, axes, keepdims=keepdims)
    raise ShapeError(
        f"a norm with ord {ord!r} is over one or two axes; {len(axes)} are given",
        remedy="pass axis= with one or two axes",
    )


@function
def vector_norm(x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """`sum(abs(x) ** ord) ** (1 / ord)`, and its limits for 0 and the infinities."""
    (x,) = inexact(x)
    if ord in (None, 2):
        return elementwise.sqrt(sum(squares(x), axis, keepdims=keepdims))
    sizes = elementwise.abs(x)
    if ord == np.inf:
        return max(sizes, axis, keepdims=keepdims)
    if ord == -np.inf:
        return min(sizes, axis, keepdims=keepdims)
    if ord == 0:
        return sum(elementwise.not_equal(x, 0), axis, sizes.dtype, keepdims=keepdims)
    if ord == 1:
        return sum(sizes, axis, keepdims=keepdims)
    total = sum(elementwise.power(sizes, ord), axis, keepdims=keepdims)
    return emit(ops.root_of_powers, total, order=float(ord))


@function
def matrix_norm(x: Any, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """The norm of each matrix of a stack."""
    (x,) = inexact(x)
    return _matrix_norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims=keepdims)


def _matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], *, keepdims: bool) -> Any:
    """The Frobenius norm, and those by sums of rows or columns, or by singular values."""
    if ord in (None, "fro"):
        return elementwise.sqrt(sum(squares(x), axes, keepdims=keepdims))
    if ord in (2, -2, "nuc"):
        found = spectral_norm(moveaxis(x, axes, (-2, -1)), ord)
        return expand_dims(found, axes) if keepdims else found
    folds = {1: (0, max), -1: (0, min), np.inf: (1, max), -np.inf: (1, min)}
    if ord not in folds:
        raise ShapeError(
            f"no matrix norm for ord {ord!r}", remedy="use 'fro', 'nuc', 1, -1, 2, -2, inf or -inf"
        )
    summed, fold = folds[ord]
    sums = sum(elementwise.abs(x), axes[summed], keepdims=True)
    result = fold(sums, axes[1 - summed], keepdims=True)
    if keepdims:
        return result
    return reshape(result, tuple(e for a, e in enumerate(x.shape) if a not in axes))


__dir__ = _names_of(__name__)
