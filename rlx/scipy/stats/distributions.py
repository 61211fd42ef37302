"""The distributions: each is its formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.scipy import special
from rlx.scipy.stats.family import Continuous, Discrete, Formula, log1mexp
from rlx.scipy.stats.quantiles import quantile, truncnorm_quantile

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


def _from(least: float, z: Any, value: Any, most: float = np.inf) -> Any:
    """Return `value` from `least` to `most`, minus infinity elsewhere, and NaN for NaN."""
    outside = rnp.logical_or(rnp.less(z, least), rnp.greater(z, most))
    return rnp.where(outside, -np.inf, value)


def _positive(z: Any) -> Any:
    """Return `z`, or 1 where it is not positive, for the sake of derivatives."""
    return rnp.where(rnp.less_equal(z, 0), 1, z)


norm = Continuous(
    "norm",
    density=lambda z: -0.5 * rnp.square(z) - _LOG_ROOT_2_PI,
    below=special.ndtr,
    above=lambda z: special.ndtr(-z),
    quantile=special.ndtri,
    log_below=special.log_ndtr,
    log_above=lambda z: special.log_ndtr(-z),
    quantile_above=lambda q: -special.ndtri(q),
)
expon = Continuous(
    "expon",
    density=lambda z: _from(0, z, -z),
    below=lambda z: rnp.where(rnp.less_equal(z, 0), 0, -rnp.expm1(-_positive(z))),
    above=lambda z: rnp.where(rnp.less_equal(z, 0), 1, rnp.exp(-_positive(z))),
    quantile=lambda q: -rnp.log1p(-q),
    log_below=lambda z: rnp.where(rnp.less_equal(z, 0), -np.inf, log1mexp(_positive(z))),
    log_above=lambda z: -rnp.maximum(z, 0),
    quantile_above=lambda q: -rnp.log(q),
)
uniform = Continuous(
    "uniform",
    density=lambda z: _from(0, z, 0 * rnp.clip(z, 0, 1), 1),
    below=lambda z: rnp.clip(z, 0, 1),
    above=lambda z: 1 - rnp.clip(z, 0, 1),
    quantile=lambda q: q,
)
laplace = Continuous(
    "laplace",
    density=lambda z: -rnp.abs(z) - math.log(2),
    below=lambda z: _of_laplace(z),
    above=lambda z: _of_laplace(-z),
    quantile=lambda q: _laplace_quantile(q),
    log_below=lambda z: _log_of_laplace(z),
    log_above=lambda z: _log_of_laplace(-z),
    quantile_above=lambda q: -_laplace_quantile(q),
)
logistic = Continuous(
    "logistic",
    density=lambda z: nn.log_sigmoid(z) + nn.log_sigmoid(-z),
    below=nn.sigmoid,
    above=lambda z: nn.sigmoid(-z),
    quantile=special.logit,
    log_below=nn.log_sigmoid,
    log_above=lambda z: nn.log_sigmoid(-z),
    quantile_above=lambda q: -special.logit(q),
)
cauchy = Continuous(
    "cauchy",
    density=lambda z: -math.log(math.pi) - rnp.log1p(rnp.square(z)),
    below=lambda z: rnp.arctan2(rnp.ones_like(z), -z) / math.pi,
    above=lambda z: rnp.arctan2(rnp.ones_like(z), z) / math.pi,
    quantile=lambda q: _cauchy_quantile(q),
    quantile_above=lambda q: -_cauchy_quantile(q),
)
gumbel_r = Continuous(
    "gumbel_r",
    density=lambda z: -z - rnp.exp(-z),
    below=lambda z: rnp.exp(-rnp.exp(-z)),
    above=lambda z: -rnp.expm1(-rnp.exp(-z)),
    quantile=lambda q: -rnp.log(-rnp.log(q)),
    log_below=lambda z: -rnp.exp(-z),
    log_above=lambda z: log1mexp(rnp.exp(-z)),
    quantile_above=lambda q: -rnp.log(-rnp.log1p(-q)),
)
gumbel_l = Continuous(
    "gumbel_l",
    density=lambda z: z - rnp.exp(z),
    below=lambda z: -rnp.expm1(-rnp.exp(z)),
    above=lambda z: rnp.exp(-rnp.exp(z)),
    log_below=lambda z: log1mexp(rnp.exp(z)),
    log_above=lambda z: -rnp.exp(z),
    quantile=lambda q: rnp.log(-rnp.log1p(-q)),
    quantile_above=lambda q: rnp.log(-rnp.log(q)),
)
gamma = Continuous(
    "gamma",
    density=lambda z, a: _from(
        0, z, special.xlogy(a - 1, rnp.where(rnp.less(z, 0), 1, z)) - z - special.gammaln(a)
    ),
    below=lambda z, a: special.gammainc(a, rnp.maximum(z, 0)),
    above=lambda z, a: special.gammaincc(a, rnp.maximum(z, 0)),
)
chi2 = Continuous(
    "chi2",
    density=lambda z, df: gamma.density(z / 2, df / 2) - math.log(2),
    below=lambda z, df: special.gammainc(df / 2, rnp.maximum(z, 0) / 2),
    above=lambda z, df: special.gammaincc(df / 2, rnp.maximum(z, 0) / 2),
)
beta = Continuous(
    "beta",
    density=lambda z, a, b: _from(
        0, z, special.xlogy(a - 1, rnp.clip(z, 0, 1)) - special.betaln(a, b)
        + special.xlog1py(b - 1, -rnp.clip(z, 0, 1)), 1,
    ),
    below=lambda z, a, b: special.betainc(a, b, rnp.clip(z, 0, 1)),
    above=lambda z, a, b: special.betainc(b, a, 1 - rnp.clip(z, 0, 1)),
)  # fmt: skip
t = Continuous(
    "t",
    density=lambda z, df: special.gammaln((df + 1) / 2) - special.gammaln(df / 2)
    - 0.5 * rnp.log(math.pi * df) - (df + 1) / 2 * rnp.log1p(rnp.square(z) / df),
    below=lambda z, df: _of_t(z, df),
    above=lambda z, df: _of_t(-z, df),
)  # fmt: skip
pareto = Continuous(
    "pareto",
    density=lambda z, b: _from(1, z, rnp.log(b) - (b + 1) * rnp.log(rnp.maximum(z, 1))),
    below=lambda z, b: -rnp.expm1(-b * rnp.log(rnp.maximum(z, 1))),
    above=lambda z, b: rnp.power(rnp.maximum(z, 1), -b),
    quantile=lambda q, b: rnp.exp(-rnp.log1p(-q) / b),
    log_below=lambda z, b: rnp.where(
        rnp.less_equal(z, 1), -np.inf, log1mexp(b * rnp.log(rnp.where(rnp.less_equal(z, 1), 2, z)))
    ),
    log_above=lambda z, b: -b * rnp.log(rnp.maximum(z, 1)),
    quantile_above=lambda q, b: rnp.power(q, -1 / b),
)
gennorm = Continuous(
    "gennorm",
    density=lambda z, beta: (
        rnp.log(beta / 2) - special.gammaln(1 / beta) - rnp.power(rnp.abs(z), beta)
    ),
    below=lambda z, p: _of_gennorm(z, p),
    above=lambda z, p: _of_gennorm(-z, p),
)
vonmises = Continuous(
    "vonmises",
    density=lambda z, kappa: kappa * (rnp.cos(z) - 1)
    - rnp.log(2 * math.pi * special.i0e(kappa)),
)  # fmt: skip


def _of_laplace(z: Any) -> Any:
    tail = 0.5 * rnp.exp(-rnp.abs(z))
    return rnp.where(rnp.less(z, 0), tail, 1 - tail)


def _log_of_laplace(z: Any) -> Any:
    low = rnp.less(z, 0)
    upper = rnp.log1p(-0.5 * rnp.exp(-rnp.where(low, 0, z)))
    return rnp.where(low, z - math.log(2), upper)


def _laplace_quantile(q: Any) -> Any:
    low = rnp.less(q, 0.5)
    size = -rnp.log(2 * rnp.where(low, q, 1 - q))
    return rnp.where(low, -size, size)


def _cauchy_quantile(q: Any) -> Any:
    """Return the cotangent of the smaller of `pi q` and `pi (1 - q)`, with the sign of the side."""
    low = rnp.less(q, 0.5)
    tail = rnp.where(low, q, 1 - q)
    near = rnp.greater(tail, 0.25)
    inner = rnp.tan(math.pi * (q - 0.5))
    outer = 1 / rnp.tan(math.pi * rnp.where(near, 0.25, tail))
    return rnp.where(near, inner, rnp.where(low, -outer, outer))


def _of_gennorm(z: Any, p: Any) -> Any:
    tail = 0.5 * special.gammaincc(1 / p, rnp.power(rnp.abs(z), p))
    return rnp.where(rnp.greater(z, 0), 1 - tail, tail)


def _of_t(z: Any, df: Any) -> Any:
    tail = 0.5 * special.betainc(df / 2, rnp.full_like(df, 0.5), df / (df + rnp.square(z)))
    return rnp.where(rnp.greater(z, 0), 1 - tail, tail)


def _log_mass(a: Any, b: Any) -> Any:
    """Return the logarithm of the normal probability from a to b, by the tail that both are in."""
    is_right = rnp.greater(a, 0)
    low, high = rnp.where(is_right, -b, a), rnp.where(is_right, -a, b)
    is_tail = rnp.less_equal(high, 0)
    most = special.log_ndtr(high)
    apart = special.log_ndtr(rnp.where(is_tail, low, -1)) - rnp.where(is_tail, most, 0)
    tail = most + rnp.log(-rnp.expm1(rnp.minimum(apart, 0)))
    around = rnp.log1p(-special.ndtr(low) - special.ndtr(rnp.where(is_tail, 0, -high)))
    return rnp.where(is_tail, tail, around)


def _truncated(value: Any, z: Any, a: Any, b: Any) -> Any:
    """Return NaN unless `a` is below `b`, and for NaN."""
    return rnp.where(rnp.logical_and(rnp.less(a, b), rnp.equal(z, z)), value, np.nan)


def _truncated_tail(z: Any, a: Any, b: Any, least: Any, most: Any) -> Any:
    """Return the logarithm of the share from `least` to `most` of that from a to b."""
    empty = rnp.greater_equal(least, most)
    share = _log_mass(rnp.where(empty, a, least), rnp.where(empty, b, most)) - _log_mass(a, b)
    return _truncated(rnp.where(empty, -np.inf, rnp.minimum(share, 0)), z, a, b)


def _within(z: Any, a: Any, b: Any) -> Any:
    return rnp.minimum(rnp.maximum(z, a), b)


truncnorm = Continuous(
    "truncnorm",
    density=lambda z, a, b: _truncated(
        _from(a, z, norm.density(_within(z, a, b)) - _log_mass(a, b), b), z, a, b
    ),
    below=lambda z, a, b: rnp.exp(_truncated_tail(z, a, b, a, _within(z, a, b))),
    above=lambda z, a, b: rnp.exp(_truncated_tail(z, a, b, _within(z, a, b), b)),
    log_below=lambda z, a, b: _truncated_tail(z, a, b, a, _within(z, a, b)),
    log_above=lambda z, a, b: _truncated_tail(z, a, b, _within(z, a, b), b),
    quantile=lambda q, *shapes: _truncnorm_ppf(q, *shapes),
    quantile_above=lambda q, *shapes: _truncnorm_isf(q, *shapes),
)
wrapcauchy = Continuous(
    "wrapcauchy",
    density=lambda z, c: _from(
        0,
        z,
        rnp.log1p(-c * c) - math.log(2 * math.pi) - rnp.log1p(c * c - 2 * c * rnp.cos(_turn(z))),
        2 * math.pi,
    ),
)


def _turn(z: Any) -> Any:
    """Return `z` within a turn."""
    return rnp.clip(z, 0, 2 * math.pi)


def _counts(k: Any, value: Any, most: Any = np.inf) -> Any:
    """Return `value` at the integers from 0 to `most`, minus infinity elsewhere."""
    valid = rnp.logical_and(rnp.greater_equal(k, 0), rnp.less_equal(k, most))
    found = rnp.where(rnp.logical_and(valid, rnp.equal(k, rnp.round(k))), value, -np.inf)
    return rnp.where(rnp.isnan(k), rnp.nan, found)


def _nan_for_nan(k: Any, value: Any) -> Any:
    return rnp.where(rnp.isnan(k), rnp.nan, value)


def _poisson_below(k: Any, mu: Any) -> Any:
    is_counted = rnp.logical_and(rnp.greater_equal(k, 0), rnp.less(k, np.inf))
    share = special.gammaincc(rnp.floor(rnp.where(is_counted, k, 0)) + 1, mu)
    return _nan_for_nan(k, rnp.where(is_counted, share, rnp.where(rnp.less(k, 0), 0, 1)))


def _choices(n: Any, k: Any) -> Any:
    k = rnp.clip(k, 0, n)
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


bernoulli = Discrete(
    "bernoulli",
    mass=lambda k, p: _counts(k, special.xlogy(k, p) + special.xlog1py(1 - k, -p), 1),
    below=lambda k, p: _nan_for_nan(
        k, rnp.where(rnp.less(k, 0), 0, rnp.where(rnp.less(k, 1), 1 - p, 1))
    ),
)
binom = Discrete(
    "binom",
    mass=lambda k, n, p: _counts(
        k, _choices(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p), n
    ),
)
poisson = Discrete(
    "poisson",
    mass=lambda k, mu: _counts(
        k, special.xlogy(k, mu) - special.gammaln(rnp.maximum(k, 0) + 1) - mu
    ),
    below=lambda k, mu: _poisson_below(k, mu),
)
geom = Discrete(
    "geom",
    mass=lambda k, p: _counts(k - 1, special.xlog1py(k - 1, -p) + rnp.log(p)),
)
nbinom = Discrete(
    "nbinom",
    mass=lambda k, n, p: _counts(
        k,
        special.gammaln(rnp.maximum(k, 0) + n) - special.gammaln(n)
        - special.gammaln(rnp.maximum(k, 0) + 1) + special.xlogy(n, p) + special.xlog1py(k, -p),
    ),
)  # fmt: skip
betabinom = Discrete(
    "betabinom",
    mass=lambda k, n, a, b: _counts(
        k, _choices(n, k) + special.betaln(rnp.clip(k, 0, n) + a, n - rnp.clip(k, 0, n) + b)
        - special.betaln(a, b), n,
    ),
)  # fmt: skip


def _inverse_of_truncnorm(share: Any, *, upper: bool) -> Formula:
    return quantile("truncnorm", truncnorm_quantile, share, truncnorm.density, upper=upper)


_truncnorm_ppf: Formula = _inverse_of_truncnorm(truncnorm.below, upper=False)
_truncnorm_isf: Formula = _inverse_of_truncnorm(truncnorm.above, upper=True)
