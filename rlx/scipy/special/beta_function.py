"""The beta function and quotients of gamma functions, which are values of it.

A difference of logarithms of gamma functions of large numbers has no digits: the exponent is a
pair of doubles, as that of the incomplete function, and slopes are differences of digamma functions
that are sums of small terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.numpy.polynomials import polyval
from rlx.runtime.arrays import Array
from rlx.scipy.special import pairs
from rlx.scipy.special.elementary import _DIGAMMA, digamma, gammaln, gammasgn
from rlx.scipy.special.shares import in_doubles
from rlx.scipy.special.stirling import root_of_gammas
from rlx.tracing.apply import function, inexact
from rlx.tracing.kept_traces import kept
from rlx.transforms.custom_jvp import custom_jvp

_SMALL = 20.0
"""Sums of parameters up to which a difference of logarithms is accurate, also near its zeros."""


@function
def betaln(a: Any, b: Any, /) -> Array:
    """The logarithm of the beta function."""
    return _betaln(*inexact(a, b))


@function
def beta(a: Any, b: Any, /) -> Array:
    """The beta function."""
    a, b = inexact(a, b)
    size = rnp.exp(_betaln(a, b))
    for sign in [gammasgn(x) for x in (a, b, a + b)]:
        size = rnp.where(rnp.less(sign, 0), -size, size)
    return size


@custom_jvp
def _betaln(a: Any, b: Any) -> Any:
    return in_doubles(_logarithm, a, b)


@_betaln.defjvp
def _betaln_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (da, db) = primals, tangents
    by_a, by_b = in_doubles(lambda a, b: (-digamma_rise(a, b), -digamma_rise(b, a)), a, b)
    return _betaln(a, b), by_a * da + by_b * db


@kept
def _logarithm(a: Any, b: Any) -> Any:
    by_gammas = gammaln(a) + gammaln(b) - gammaln(a + b)
    is_large = _are_regular(a, b) & rnp.greater(a + b, _SMALL)
    a, b = (pairs.bounded(rnp.where(is_large, x, _SMALL)) for x in (a, b))
    total = pairs.two_sum(a, b)
    exponent = pairs.log_of_pair(pairs.quotient(total, a)) * -a
    exponent = exponent + pairs.log_of_pair(pairs.quotient(total, b)) * -b
    roots = rnp.log(root_of_gammas(total, a, b) / (total.high / a / b))
    found = exponent.high + (exponent.low - roots)
    return rnp.where(is_large, found, by_gammas)


def _are_regular(a: Any, b: Any) -> Any:
    return rnp.greater(a, 0) & rnp.greater(b, 0) & rnp.isfinite(a + b)


@kept
def digamma_rise(a: Any, b: Any) -> Any:
    """Return `digamma(a + b) - digamma(a)`, for positive numbers with a small relative error."""
    regular = _are_regular(a, b)
    begin, step = rnp.where(regular, a, 1.0), rnp.where(regular, b, 1.0)
    rise: Any = 0.0
    for _ in range(10):
        small = rnp.less(begin, 10.0)
        rise = rise + rnp.where(small, step / begin / (begin + step), 0.0)
        begin = rnp.where(small, begin + 1, begin)
    end = begin + step
    rise = rise + rnp.log1p(step / begin) + 0.5 * (step / begin) / end
    rise = rise + (_series(begin) - _series(end))
    return rnp.where(regular, rise, digamma(a + b) - digamma(a))


def _series(x: Any) -> Any:
    inverse = 1 / (x * x)
    return inverse * polyval(np.array(_DIGAMMA), inverse)


@function
def log_rising(z: Any, m: Any) -> Any:
    """Return the logarithm of `gamma(z + m) / gamma(z)`, of the sizes of both."""
    z, m = inexact(z, m)
    rises, least = rnp.greater(m, 0), rnp.minimum(z, z + m)
    is_large = rnp.greater(least, 0) & rnp.greater(rnp.maximum(z, z + m), _SMALL)
    is_large &= rnp.not_equal(m, 0) & rnp.isfinite(z + m)
    size = rnp.where(is_large, rnp.where(rises, m, -m), 1.0)
    by_beta = gammaln(size) - _betaln(rnp.where(is_large, least, 1.0), size)
    by_beta = rnp.where(rises, by_beta, -by_beta)
    z, m = rnp.where(is_large, 1.0, z), rnp.where(is_large, 1.0, m)
    return rnp.where(is_large, by_beta, gammaln(z + m) - gammaln(z))
