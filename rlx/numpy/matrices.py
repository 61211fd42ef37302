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
from rlx.numpy.reductions import max, sum
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
from rlx.numpy.systems import cholesky, lu_with_order, solve, solve_triangular
from rlx.tracing.apply import as_tracer, function, inexact, promoted
from rlx.tracing.loops import scan_rows


@function
def cho_factor(a: Any, lower: bool = False) -> Any:
    """The Cholesky factor and whether it is the lower one, for `cho_solve`."""
    return cholesky(a, upper=not lower), lower


@function
def cho_solve(c_and_lower: Any, b: Any) -> Any:
    """Solve with a matrix whose Cholesky factor is known."""
    factor, lower = c_and_lower
    half = solve_triangular(factor, b, trans=0 if lower else 2, lower=lower)
    return solve_triangular(factor, half, trans=2 if lower else 0, lower=lower)


@function
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0) -> Any:
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
def lu(a: Any, permute_l: bool = False) -> Any:
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


# The thirteenth Padé approximant (Higham, The scaling and squaring method, 2005).
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
    40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_LARGEST_NORM = 5.4
_MOST_SQUARINGS = 16


@function
def expm(a: Any, *, max_squarings: int = _MOST_SQUARINGS) -> Any:
    """The exponential of square matrices: of a part of it, squared again and again.

    A matrix of norm above `5.4 * 2 ** max_squarings` gives NaN.
    """
    (a,) = inexact(a)
    norm = max(sum(elementwise.abs(a), -2, keepdims=True), -1, keepdims=True, initial=0.0)
    power = elementwise.ceil(elementwise.log2(elementwise.divide(norm, _LARGEST_NORM)))
    power = elementwise.where(elementwise.less_equal(norm, _LARGEST_NORM), 0, power)
    found = _pade(elementwise.divide(a, elementwise.exp2(power)))
    for step in range(max_squarings):
        found = elementwise.where(elementwise.greater(power, step), matmul(found, found), found)
    return elementwise.where(elementwise.less_equal(power, max_squarings), found, np.nan)


def _pade(a: Any) -> Any:
    ones = np.eye(static_shape(a)[-1], dtype=a.dtype)
    square = matmul(a, a)
    fourth = matmul(square, square)
    sixth = matmul(square, fourth)
    powers = (ones, square, fourth, sixth)

    def combined(*weights: float) -> Any:
        total: Any = 0
        for power, weight in zip(powers, weights, strict=False):
            total = elementwise.add(total, elementwise.multiply(power, weight))
        return total

    b = _PADE
    odd = elementwise.add(matmul(sixth, combined(0, b[9], b[11], b[13])), combined(*b[1:9:2]))
    even = elementwise.add(matmul(sixth, combined(0, b[8], b[10], b[12])), combined(*b[0:8:2]))
    odd = matmul(a, odd)
    return solve(elementwise.subtract(even, odd), elementwise.add(even, odd))


@function
def block_diag(*arrays: Any) -> Any:
    """A matrix with the given ones along its diagonal."""
    parts = [atleast_2d(part) for part in promoted(arrays)]
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
def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with first column `c` and first row `r`, constant along diagonals."""
    c = ravel(c)
    first = elementwise.conj(c) if r is None else ravel(r)
    c, first = promoted([c, first])
    (rows,), (columns,) = static_shape(c), static_shape(first)
    around = concatenate([getitem(c, slice(None, None, -1)), getitem(first, slice(1, None))])
    return take(around, np.arange(columns) - np.arange(rows)[:, None] + rows - 1)


@function
def hilbert(n: int) -> Any:
    """The matrix of `1 / (i + j + 1)`."""
    return elementwise.divide(1.0, np.arange(n)[:, None] + np.arange(n) + 1.0)
