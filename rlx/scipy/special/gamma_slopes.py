"""Slopes of the incomplete gamma functions by the order and by the argument, in f64.

The lower function is a front, `x**a exp(-x) / gamma(a + 1)`, times a series, the upper one a front
times a fraction; near large orders the slope of the expansion of DLMF 8.12 is a front times
another. All terms of a slope have one sign, so that small ones have small relative errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.numpy.polynomials import polyval
from rlx.scipy.special import gamma_shares, pairs
from rlx.scipy.special.elementary import _DIGAMMA, digamma
from rlx.scipy.special.stirling import root_of_gamma, stirling
from rlx.transforms.differentiate import jvp

_LEAST_ASYMPTOTIC = 10.0


def slopes(a: Any, x: Any) -> tuple[Any, Any]:
    """Return the slopes of the lower function by `a` and `x`, both positive."""
    a, x = pairs.bounded(a), pairs.bounded(x)
    factor = front(a, x)
    return factor * order_slope(a, x), factor * (a / x)


def second_slopes(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the slopes by `a` twice, by both and by `x` twice."""
    a, x = pairs.bounded(a), pairs.bounded(x)
    factor, rise = front(a, x), log_front_slope(a, x)
    by_a, by_aa = jvp(lambda a: order_slope(a, x), (a,), (rnp.ones_like(a),))
    density = factor * (a / x)
    mixed = factor * ((a * rise + 1) / x)
    return factor * (rise * by_a + by_aa), mixed, density * (((a - x) - 1) / x)


def front(a: Any, x: Any) -> Any:
    """Return `x**a exp(-x) / gamma(a + 1)`."""
    return pairs.exp(gamma_shares.gamma_exponent(a, x)) / root_of_gamma(a)


def past_log(a: Any) -> Any:
    """Return `digamma(a + 1) - log(a)`, which is about `1 / (2 a)`."""
    large = rnp.greater_equal(a, _LEAST_ASYMPTOTIC)
    high, low = rnp.where(large, a, _LEAST_ASYMPTOTIC), rnp.where(large, 1.0, a)
    inverse = 1 / (high * high)
    series = 0.5 / high - inverse * polyval(np.array(_DIGAMMA), inverse)
    return rnp.where(large, series, digamma(low + 1) - rnp.log(low))


def log_front_slope(a: Any, x: Any) -> Any:
    """Return `log(x) - digamma(a + 1)`, the slope of the front's logarithm by `a`."""
    return log_of_ratio(x, a, x - a) - past_log(a)


def log_of_ratio(x: Any, a: Any, past: Any) -> Any:
    """Return `log(x / a)`, of which `past` is `x - a`."""
    ratio = past / a
    near = rnp.less(rnp.abs(ratio), 0.5)
    return rnp.where(near, rnp.log1p(rnp.where(near, ratio, 0.0)), rnp.log(x) - rnp.log(a))


def order_slope(a: Any, x: Any) -> Any:
    """Return the slope of the lower function by the order, over the front."""
    right, middle = gamma_shares.sides(a, x)
    rise = log_front_slope(a, x)
    above = rnp.where(right, x, gamma_shares.bound(a))
    below = rnp.where(right, 0.0, x)
    one = (rnp.ones_like(a),)
    fraction, of_fraction = jvp(lambda a: gamma_shares.upper(a, above), (a,), one)
    series, of_series = jvp(lambda a: gamma_shares.lower(a, below), (a,), one)
    tails = rnp.where(
        right, -((a * rise + 1) * fraction + a * of_fraction), rise * series + of_series
    )
    return rnp.where(middle, -_around(*gamma_shares.near_order(a, x, middle)), tails)


def _around(a: Any, past: Any) -> Any:
    """Return the slope of the upper function by the order, over the front, near the order."""
    root = gamma_shares.root_of_past(past)
    inverse, eta = 1 / a, past * root
    directions = -inverse * inverse, -inverse / root
    sums, moved = jvp(gamma_shares.corrections, (inverse, eta), directions)
    rise = rnp.log1p(past) - 0.5 * inverse
    return (1 / root - 0.5 * eta + sums * rise + moved) * stirling(a)
