"""`rlx.numpy.linalg`: norms and products of matrices, linear systems."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of
from rlx.numpy.diagonals import trace as _trace
from rlx.numpy.products import cross as cross
from rlx.numpy.products import matmul as matmul
from rlx.numpy.products import outer as outer
from rlx.numpy.products import tensordot as tensordot
from rlx.numpy.products import vecdot as vecdot
from rlx.numpy.reductions import max, min, sum
from rlx.numpy.shaping import matrix_transpose as matrix_transpose
from rlx.numpy.shaping import ravel, reshape
from rlx.numpy.systems import cholesky as cholesky
from rlx.numpy.systems import det as det
from rlx.numpy.systems import inv as inv
from rlx.numpy.systems import lu_factor as lu_factor
from rlx.numpy.systems import matrix_power as matrix_power
from rlx.numpy.systems import slogdet as slogdet
from rlx.numpy.systems import solve as solve
from rlx.numpy.systems import solve_triangular as solve_triangular
from rlx.tracing.apply import emit, function, inexact


@function
def trace(x: Any, *, offset: int = 0) -> Any:
    """The sum of the diagonal of each matrix of a stack."""
    return _trace(x, offset, -2, -1)


@function
def norm(x: Any, ord: Any = None, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Norm of vectors (one axis) or matrices (two axes); by default the root of all squares."""
    (x,) = inexact(x)
    if axis is None and ord is None:
        root = vector_norm(ravel(x))
        return reshape(root, (1,) * x.ndim) if keepdims else root
    axes = axes_of(axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, ord, axis=axes, keepdims=keepdims)
    if len(axes) == 2:
        return matrix_norm(x, ord, axes, keepdims=keepdims)
    raise ShapeError(
        f"a norm with ord {ord!r} is over one or two axes; {len(axes)} are given",
        remedy="pass axis= with one or two axes",
    )


@function
def vector_norm(x: Any, ord: Any = None, *, axis: Any = None, keepdims: bool = False) -> Any:
    """`sum(abs(x) ** ord) ** (1 / ord)`, and its limits for 0 and the infinities."""
    (x,) = inexact(x)
    if ord in (None, 2):
        return elementwise.sqrt(sum(_squares(x), axis, keepdims=keepdims))
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
    return elementwise.power(total, 1.0 / ord)


def matrix_norm(x: Any, ord: Any, axes: tuple[int, ...], *, keepdims: bool) -> Any:
    """The Frobenius norm, and those by sums of rows or columns."""
    if ord in (None, "fro"):
        return elementwise.sqrt(sum(_squares(x), axes, keepdims=keepdims))
    folds = {1: (0, max), -1: (0, min), np.inf: (1, max), -np.inf: (1, min)}
    if ord not in folds:
        raise ShapeError(f"no matrix norm for ord {ord!r}", remedy="use 'fro', 1, -1, inf or -inf")
    summed, fold = folds[ord]
    sums = sum(elementwise.abs(x), axes[summed], keepdims=True)
    result = fold(sums, axes[1 - summed], keepdims=True)
    if keepdims:
        return result
    return reshape(result, tuple(e for a, e in enumerate(x.shape) if a not in axes))


def _squares(x: Any) -> Any:
    return emit(ops.complex_norm_sq, x) if x.value.dtype.is_complex else elementwise.square(x)
