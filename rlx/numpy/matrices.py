"""Functions of matrices and matrices of a pattern; `rlx.numpy.linalg` exports them.

The names and arguments are those of `scipy.linalg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.creation import tril, zeros
from rlx.numpy.indexing import getitem, take, take_along_axis
from rlx.numpy.products import matmul
from rlx.numpy.shaping import (
    atleast_2d,
    concatenate,
    expand_dims,
    matrix_transpose,
    ravel,
    reshape,
    squeeze,
    transpose,
)
from rlx.numpy.sorting import argsort
from rlx.numpy.systems import cholesky, lu_with_order, solve_triangular
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function, inexact, promoted
from rlx.tracing.loops import scan_rows
from rlx.tracing.only import only


@function
def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The Cholesky factor and whether it is the lower one, for `cho_solve`."""
    return cholesky(a, upper=not lower), lower


@function
def cho_solve(
    c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """Solve with a matrix whose Cholesky factor is known."""
    factor, lower = c_and_lower
    half = solve_triangular(factor, b, trans=0 if lower else 2, lower=lower)
    return solve_triangular(factor, half, trans=2 if lower else 0, lower=lower)


@function
def lu_solve(
    lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Array:
    """Solve with a matrix whose LU factors are known, transposed for 1, and conjugated for 2.

    `b` has an axis less than a stack of matrices where it is one vector for each.
    """
    factors, pivots = (as_tracer(each) for each in lu_and_piv)
    b = as_tracer(b)
    if b.ndim == factors.ndim - 1:
        return squeeze(lu_solve((factors, pivots), expand_dims(b, -1), trans), -1)
    order = permutation_of(pivots)
    if trans == 0:
        ordered = take_along_axis(b, expand_dims(order, -1), -2)
        half = solve_triangular(factors, ordered, lower=True, unit_diagonal=True)
        return solve_triangular(factors, half)
    half = solve_triangular(factors, b, trans=trans)
    whole = solve_triangular(factors, half, trans=trans, lower=True, unit_diagonal=True)
    return take_along_axis(whole, expand_dims(argsort(order, -1), -1), -2)


def permutation_of(pivots: Any, size: int | None = None) -> Any:
    """Return the order of `size` rows after one exchange for each pivot, as i32."""
    *batch, count = static_shape(pivots)
    chosen = transpose(reshape(elementwise.astype(pivots, "int32"), (-1, count)))
    stacks = static_shape(chosen)[1]
    numbers, each = np.arange(size or count, dtype=np.int32), np.arange(stacks)

    def exchange(order: Any, step: Any) -> Any:
        place, others = step
        own, other = order[:, place], order[each, others]
        return order.at[:, place].set(other).at[each, others].set(own), None

    steps = (as_tracer(np.arange(count)), chosen)
    order, _ = scan_rows(exchange, as_tracer(np.tile(numbers, (stacks, 1))), steps)
    return reshape(order, (*batch, len(numbers)))


@function
@only(p_indices=(False,))
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> tuple[Array, ...]:
    """The permutation, the lower and the upper factor of matrices."""
    (a,) = inexact(a)
    factors, _, order = lu_with_order(a)
    rows, columns = static_shape(factors)[-2:]
    below = tril(factors, -1)
    ones = np.eye(rows, columns, dtype=a.dtype)
    lower = elementwise.add(below, ones)[..., :rows]
    upper = elementwise.subtract(factors, below)[..., :columns, :]
    places = matrix_transpose(take(as_tracer(np.eye(rows, dtype=a.dtype)), order, 0))
    return (matmul(places, lower), upper) if permute_l else (places, lower, upper)


@function
def block_diag(*arrs: Any) -> Array:
    """A matrix with the given ones along its diagonal."""
    parts = [atleast_2d(part) for part in promoted(arrs)]
    width = int(np.sum([part.shape[1] for part in parts]))
    rows, before = [], 0
    for part in parts:
        height, own = static_shape(part)
        after = width - before - own
        sides = (zeros((height, before), part.dtype), part, zeros((height, after), part.dtype))
        rows.append(concatenate(sides, 1))
        before += own
    return concatenate(rows, 0)


@function
def toeplitz(c: Any, r: Any = None) -> Array:
    """The matrix with first column `c` and first row `r`, constant along diagonals."""
    c = ravel(c)
    first = elementwise.conj(c) if r is None else ravel(r)
    c, first = promoted([c, first])
    (rows,), (columns,) = static_shape(c), static_shape(first)
    around = concatenate([getitem(c, slice(None, None, -1)), getitem(first, slice(1, None))])
    return take(around, np.arange(columns) - np.arange(rows)[:, None] + rows - 1)


@function
def hilbert(n: int) -> Array:
    """The matrix of `1 / (i + j + 1)`."""
    return elementwise.divide(1.0, np.arange(n)[:, None] + np.arange(n) + 1.0)
