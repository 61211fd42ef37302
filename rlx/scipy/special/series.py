"""Functions that are sums: zeta, polygamma, the exponential integrals; and small combinatorics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.source_lines import calling_source
from rlx.numpy.polynomials import polyval
from rlx.runtime.arrays import Array
from rlx.scipy.special.beta_function import log_rising
from rlx.scipy.special.elementary import digamma, gamma, gammaln, gammasgn, past_integer
from rlx.tracing.apply import function, inexact
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.differentiate import stop_gradient

_DIRECT = 10
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
"""The numbers B_2, B_4, ..."""


@function
def zeta(x: Any, q: Any = None, out: None = None) -> Array:
    """The zeta function of Hurwitz, for x above 1 and positive q (Euler and Maclaurin).

    Infinite where `q` is 0 or a negative integer; at other negative numbers it is NaN unless `x`
    is an integer and `q` above -5.
    """
    x, q = inexact(x, 1.0 if q is None else q)
    total: Any = 0.0
    for n in range(_DIRECT):
        total = total + rnp.power(q + n, -x)
    end = q + _DIRECT
    power = rnp.power(end, -x)
    total = total + end * power / (x - 1) + 0.5 * power
    rising, scale = x, power / end
    for k, number in enumerate(_BERNOULLI, 1):
        total = total + number / math.factorial(2 * k) * rising * scale
        rising = rising * (x + 2 * k - 1) * (x + 2 * k)
        scale = scale / rnp.square(end)
    # A power of a negative number is real for integers; far below 0 the series does not hold
    real = rnp.logical_and(rnp.equal(x, rnp.floor(x)), rnp.greater(q, -_DIRECT / 2))
    beyond = rnp.where(real, total, rnp.nan)
    beyond = rnp.where(rnp.equal(q, rnp.floor(q)), rnp.inf, beyond)
    total = rnp.where(rnp.less_equal(q, 0), beyond, total)
    return rnp.where(rnp.equal(x, 1), rnp.inf, rnp.where(rnp.greater(x, 1), total, rnp.nan))


@function
def polygamma(n: Any, x: Any) -> Array:
    """The `n`th derivative of `digamma`; NaN below 0 unless `n` is an integer that is no array."""
    if isinstance(n, (int, np.integer)) and n > 0:
        return _reflected_polygamma(int(n), x)
    n, x = inexact(n, x)
    return rnp.where(rnp.equal(n, 0), digamma(x), _polygamma(n, x))


def _polygamma(n: Any, x: Any) -> Any:
    sign = 1 - 2 * rnp.remainder(n + 1, 2)
    return sign * gamma(n + 1) * zeta(rnp.where(rnp.equal(n, 0), 2, n + 1), x)


def _reflected_polygamma(n: int, x: Any) -> Any:
    """DLMF 5.15.6: below 0 by the `n`th derivative of the cotangent, a polynomial in it."""
    (x,) = inexact(x)
    order = rnp.asarray(float(n)).astype(x.dtype)
    slope = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        slope = np.polynomial.Polynomial([-1.0, 0.0, -1.0]) * slope.deriv()
    below = rnp.less(x, 0)
    rest = rnp.where(below, past_integer(x), 0.25)
    at_pole = rnp.equal(rest, 0)
    tangent = rnp.tan(math.pi * rnp.where(at_pole, 0.25, rest))
    turned = polyval(slope.coef[::-1].astype(x.dtype), 1 / tangent) * math.pi ** (n + 1)
    found = _polygamma(order, rnp.where(below, 1 - x, x))
    reflected = rnp.where(at_pole, (-1) ** (n + 1) * np.inf, (-1) ** n * found - turned)
    return rnp.where(below, reflected, found)


@function
def bernoulli(n: int) -> Array:
    """The Bernoulli numbers B_0 to B_n."""
    from fractions import Fraction

    found = [Fraction(1)]
    for m in range(1, n + 1):
        rest = sum((math.comb(m + 1, k) * b for k, b in enumerate(found)), Fraction(0))
        found.append(-rest / (m + 1))
    return rnp.asarray(np.array([float(b) for b in found]))


@function
def poch(z: Any, m: Any, /) -> Array:
    """The rising factorial `gamma(z + m) / gamma(z)`."""
    z, m = inexact(z, m)
    sign = gammasgn(z + m) * gammasgn(z)
    unknown = rnp.logical_not(rnp.isfinite(gammaln(z)))  # elsewhere the formula has a slope in m
    return rnp.where(rnp.logical_and(rnp.equal(m, 0), unknown), 1, sign * rnp.exp(log_rising(z, m)))


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Array | int:
    """The number of ways to choose `k` of `N`; with `exact`, of two integers, Python's integer."""
    return _exact_comb(N, k, repetition) if exact else _comb(N, k, repetition)


def _exact_comb(N: Any, k: Any, repetition: bool) -> int:
    n, count = _whole_number(N), _whole_number(k)
    if n < 0 or count < 0:
        return 0
    return math.comb(max(n + count - 1, 0) if repetition else n, count)


def _whole_number(x: Any) -> int:
    number = x.item() if isinstance(x, (np.ndarray, np.generic)) and x.ndim == 0 else x
    if isinstance(number, (int, float)) and number == int(number):
        return int(number)
    raise InputError(
        f"comb with exact=True takes two integers, and was given {type(x).__name__}",
        source=calling_source(),
        remedy="leave out exact: the ways of arrays are floats of their dtype",
    )


@function
def _comb(N: Any, k: Any, repetition: bool) -> Array:
    k = rnp.asarray(k)
    nothing = rnp.logical_and(rnp.equal(N, 0), rnp.equal(k, 0))
    n: Any = rnp.add(N, rnp.subtract(k, 1)) if repetition else N
    n, k = inexact(n, k)
    possible = rnp.logical_and(rnp.greater_equal(k, 0), rnp.less_equal(k, n))
    n, k = rnp.where(possible, n, 1), rnp.where(possible, k, 1)  # elsewhere there is no slope
    ways = rnp.exp(log_rising(n - k + 1, k) - gammaln(k + 1))
    whole = rnp.logical_and(rnp.equal(n, rnp.round(n)), rnp.equal(k, rnp.round(k)))
    found = rnp.where(possible, rnp.where(whole, ways + _rounding(ways), ways), 0)
    return rnp.where(nothing, 1, found)  # with repetition, too


def _rounding(x: Any) -> Any:
    """What is missing to the nearest integer, which has no slope."""
    return rnp.astype(stop_gradient(rnp.round(x) - x), x.dtype)


@function
def boxcox(x: Any, lmbda: Any, /) -> Array:
    """`(x ** lmbda - 1) / lmbda`, the logarithm for lmbda = 0."""
    x, lmbda = inexact(x, lmbda)
    return _power_of(rnp.log(x), lmbda)


@function
def boxcox1p(x: Any, lmbda: Any, /) -> Array:
    """`boxcox(1 + x, lmbda)`."""
    x, lmbda = inexact(x, lmbda)
    return _power_of(rnp.log1p(x), lmbda)


def _power_of(logarithm: Any, lmbda: Any) -> Any:
    """Return `expm1(lmbda logarithm) / lmbda`, by its series where the exponent is small."""
    exponent = lmbda * logarithm
    near = rnp.logical_or(rnp.equal(lmbda, 0), rnp.abs(exponent) < 0.1)
    small = rnp.where(rnp.logical_and(near, ~rnp.isnan(exponent)), exponent, 0)
    terms = np.array([1 / math.factorial(k + 1) for k in range(10, -1, -1)])
    series = logarithm * polyval(terms.astype(exponent.dtype), small)
    return rnp.where(near, series, rnp.expm1(exponent) / rnp.where(near, 1, lmbda))


@function
def loggamma(x: Any, /) -> Array:
    """The logarithm of the gamma function, NaN below zero."""
    (x,) = inexact(x)
    return gammaln(rnp.where(rnp.less(x, 0), rnp.nan, x))  # no slope of a pole times 0


_E1_SERIES = [(-1) ** (k + 1) / (k * math.factorial(k)) for k in range(22, 0, -1)]
_LEVELS = 90


@function
def _exponential_integral(x: Any) -> Any:
    (x,) = inexact(x)
    small = rnp.less(x, 1.5)
    low = rnp.where(rnp.logical_and(small, rnp.greater(x, 0)), x, 1)
    series = low * polyval(np.array(_E1_SERIES).astype(x.dtype), low)
    near = series - np.euler_gamma - rnp.log(low)
    high = rnp.where(small, 2, x)
    fraction: Any = high + (2 * _LEVELS + 1)
    for n in range(_LEVELS, 0, -1):
        fraction = high + 2 * n - 1 - n * n / fraction
    far = rnp.where(rnp.isinf(high), 0, rnp.exp(-high) / fraction)
    found = rnp.where(small, near, far)
    return rnp.where(rnp.equal(x, 0), rnp.inf, rnp.where(rnp.less(x, 0), rnp.nan, found))


@function
def exp1(x: Any, /) -> Array:
    """The exponential integral E1 of positive x."""
    (x,) = inexact(x)
    return _exp1(x)


@custom_jvp
def _exp1(x: Any) -> Any:
    return _exponential_integral(x)


@_exp1.defjvp
def _exp1_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    return _exp1(x), -tangents[0] * rnp.exp(-x) / x
