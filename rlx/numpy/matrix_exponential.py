"""The exponential of matrices by scaling and squaring; `rlx.numpy.linalg` exports it.

Al-Mohy and Higham, A new scaling and squaring algorithm for the matrix exponential (2009): the
scale is chosen by norms of powers of the matrix, which for matrices far from normal are much
smaller than powers of its norm, and squarings beyond those needed lose digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.numpy import elementwise as e
from rlx.numpy.axes import static_shape
from rlx.numpy.creation import tril, triu
from rlx.numpy.diagonals import diagonal
from rlx.numpy.products import matmul
from rlx.numpy.reductions import all as all_of
from rlx.numpy.reductions import any as any_of
from rlx.numpy.reductions import max, sum
from rlx.numpy.systems import solve
from rlx.runtime.arrays import Array
from rlx.tracing.apply import convert, emit, function, inexact
from rlx.tracing.loops import repeat_while, scan_rows


@dataclass(frozen=True)
class _Approximant:
    """The diagonal Padé approximant of one degree, and where its backward error is a rounding.

    `largest` bounds the norm (Higham 2005, table 2.3). `most` squarings are enough for what a
    number of the precision determines: after more, its rounding alone has changed the result.
    """

    weights: tuple[float, ...]
    largest: float
    digits: int
    most: int

    @property
    def degree(self) -> int:
        return len(self.weights) - 1

    @property
    def log2_error(self) -> float:
        """The logarithm of the first coefficient of the backward error, in units of rounding."""
        m = self.degree
        return self.digits - math.log2(math.comb(2 * m, m)) - math.lgamma(2 * m + 2) / math.log(2)


def _weights(m: int) -> tuple[float, ...]:
    """Return the coefficients of the numerator of degree `m`, the last being 1."""
    f = math.factorial
    return tuple(float(f(2 * m - k) * f(m) // (f(m) * f(k) * f(m - k))) for k in range(m + 1))


_SINGLE = _Approximant(_weights(7), 3.925724783138660, 24, 28)
_DOUBLE = _Approximant(_weights(13), 5.371920351148152, 53, 57)


@function
def expm(A: Any, *, max_squarings: int | None = None) -> Array:
    """The exponential of square matrices (..., n, n), as accurate as `scipy.linalg.expm`'s.

    As many squarings are done as the matrix needs. If `max_squarings` is given, a matrix that
    needs more of them gives NaN, as in JAX, where the default is 16.
    """
    (A,) = inexact(A)
    if 0 in static_shape(A):
        return A
    dtype = A.value.dtype
    if dtype.is_float and dtype.size < 4:
        wide = expm(convert(A, DType.F32), max_squarings=max_squarings)
        return convert(wide, dtype)
    approximant = _DOUBLE if dtype.part.size == 8 else _SINGLE
    power = _squarings(emit(ops.stop_gradient, A), approximant)
    found = _squared(A, power, approximant)
    if max_squarings is None:
        return found
    return e.where(e.less_equal(power, float(max_squarings)), found, np.nan)


def _norm(a: Any) -> Any:
    return max(sum(e.abs(a), -2, keepdims=True), -1, keepdims=True)


def _log2(x: Any) -> Any:
    """Return the logarithm to base 2, of 0 a number below those of all powers."""
    return e.where(e.equal(x, 0.0), -1e6, e.log2(e.where(e.equal(x, 0.0), 1.0, x)))


def _unit(a: Any) -> tuple[Any, Any]:
    """Return `a` scaled to norm 1, so that no product underflows, and the scale's logarithm."""
    size = _norm(a)
    return e.divide(a, e.where(e.equal(size, 0.0), 1.0, size)), _log2(size)


def _squarings(a: Any, approximant: _Approximant) -> Any:
    """Return how often to halve `a`, a whole number, with two axes of extent 1 for the matrix."""
    unit, exponent = _unit(a)
    second, log2 = _unit(matmul(unit, unit))
    fourth, log4 = _unit(matmul(second, second))
    log4 = e.add(log4, e.multiply(log2, 2.0))
    sixth, log6 = _unit(matmul(second, fourth))
    logs = {6: e.add(log6, e.add(log2, log4)),
            8: e.add(_log2(_norm(matmul(fourth, fourth))), e.multiply(log4, 2.0))}  # fmt: skip
    if approximant is _DOUBLE:
        logs[10] = e.add(_log2(_norm(matmul(fourth, sixth))), e.add(log4, logs[6]))
    d = {p: e.divide(log, float(p)) for p, log in logs.items()}
    radius = e.maximum(d[6], d[8])
    if approximant is _DOUBLE:
        radius = e.minimum(radius, e.maximum(d[8], d[10]))
    count = 2 * approximant.degree
    terms = e.divide(
        e.add(e.add(_log2_of_power(unit, count + 1), e.multiply(exponent, float(count))),
              approximant.log2_error), float(count)
    )  # fmt: skip
    by_radius = e.subtract(e.add(radius, exponent), math.log2(approximant.largest))
    return e.ceil(e.maximum(e.maximum(by_radius, terms), 0.0))


def _log2_of_power(a: Any, count: int) -> Any:
    """Return the logarithm of the norm of the power `count` of the matrix of magnitudes."""
    magnitudes = e.abs(a)

    def multiply(state: Any, _: Any) -> Any:
        sums, total = state
        sums = matmul(sums, magnitudes)
        largest = max(sums, -1, keepdims=True)
        sums = e.divide(sums, e.where(e.equal(largest, 0.0), 1.0, largest))
        return (sums, e.add(total, _log2(largest))), None

    first = sum(magnitudes, -2, keepdims=True)
    start = (e.add(e.multiply(first, 0.0), 1.0), e.multiply(max(first, -1, keepdims=True), 0.0))
    return scan_rows(multiply, start, None, count)[0][1]


def _squared(a: Any, power: Any, approximant: _Approximant) -> Any:
    """Return the approximant of `a / 2**power`, squared `power` times.

    The diagonal of a triangular matrix is that of the exponential at each step (Al-Mohy and
    Higham, fragment 2.1): numbers that are much smaller than the norm keep their digits.
    """
    unit = np.eye(static_shape(a)[-1], dtype=np.bool_)
    axes = (-2, -1)
    strict = [all_of(e.equal(part(a, k), 0), axes, keepdims=True)
              for part, k in ((tril, -1), (triu, 1))]  # fmt: skip
    is_own = e.logical_and(e.logical_or(*strict), unit)
    numbers = e.multiply(diagonal(a, 0, -2, -1)[..., None], unit)

    def exact(found: Any, halvings: Any) -> Any:
        known = e.exp(e.multiply(numbers, e.exp2(e.negative(halvings))))
        # Only the value is known: numbers of the diagonal change with those off it, too
        error = e.subtract(found, emit(ops.stop_gradient, found))
        known = e.add(emit(ops.stop_gradient, known), e.where(e.isfinite(found), error, 0.0))
        return e.where(is_own, known, found)

    def remain(state: Any) -> Any:
        return any_of(e.greater(state[1], 0.0))

    def square(state: Any) -> Any:
        found, left = state
        next_left = e.maximum(e.subtract(left, 1.0), 0.0)
        squared = exact(matmul(found, found), next_left)
        return e.where(e.greater(left, 0.0), squared, found), next_left

    first = exact(_pade(e.multiply(a, e.exp2(e.negative(power))), approximant.weights), power)
    start = (first, e.minimum(power, float(approximant.most)))
    return repeat_while(remain, square, start, approximant.most)[0]


def _pade(a: Any, b: tuple[float, ...]) -> Any:
    """Return the diagonal Padé approximant of the exponential with the coefficients `b`."""
    square = matmul(a, a)
    fourth = matmul(square, square)
    powers = (np.eye(static_shape(a)[-1], dtype=a.dtype), square, fourth, matmul(square, fourth))

    def combined(weights: tuple[float, ...]) -> Any:
        low, high = weights[:4], (0.0, *weights[4:])
        total = _linear(powers, low)
        return e.add(matmul(powers[3], _linear(powers, high)), total) if len(high) > 1 else total

    odd, even = matmul(a, combined(b[1::2])), combined(b[0::2])
    return solve(e.subtract(even, odd), e.add(even, odd))


def _linear(matrices: tuple[Any, ...], weights: tuple[float, ...]) -> Any:
    total: Any = 0.0
    for matrix, weight in zip(matrices, weights, strict=False):
        if weight:
            total = e.add(total, e.multiply(matrix, weight))
    return total
