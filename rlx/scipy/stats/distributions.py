"""The distributions, each by its formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.scipy import special
from rlx.scipy.special.incomplete import beta_slopes, gamma_slopes
from rlx.scipy.special.scaled import Shares
from rlx.scipy.special.student import t_slopes
from rlx.scipy.stats import shares
from rlx.scipy.stats.family import Continuous, Discrete, Formula, log1mexp
from rlx.scipy.stats.quantiles import (
    beta_quantile,
    gamma_quantile,
    quantile,
    t_quantile,
    truncnorm_quantile,
)
from rlx.transforms.custom_jvp import custom_jvp

_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)


@custom_jvp
def _of_logistic(z: Any) -> Any:
    return nn.sigmoid(z)


@_of_logistic.defjvp
def _of_logistic_jvp(primals: Any, tangents: Any) -> Any:
    """The density is the product of both shares: `y (1 - y)` is 0 in the upper tail."""
    (z,), (dz,) = primals, tangents
    share = _of_logistic(z)
    return share, share * _of_logistic(-z) * dz


def _from(least: float, z: Any, value: Any, most: float = np.inf) -> Any:
    """Return `value` from `least` to `most`, minus infinity elsewhere, and NaN for NaN."""
    outside = rnp.logical_or(rnp.less(z, least), rnp.greater(z, most))
    return rnp.where(outside, -np.inf, value)


def _positive(z: Any) -> Any:
    """Return `z`, or 1 where it is not positive, for the sake of derivatives."""
    return rnp.where(rnp.less_equal(z, 0), 1, z)


def _inverses(name: str, solve: Formula, slopes: Formula) -> tuple[Formula, Formula]:
    """Return the inverses of the distribution function and of what is above."""
    below, above = (quantile(name, solve, slopes, upper=upper) for upper in (False, True))
    return below, above


_truncnorm_ppf, _truncnorm_isf = _inverses("truncnorm", truncnorm_quantile, shares.normal_slopes)
_gamma_ppf, _gamma_isf = _inverses("gamma", gamma_quantile, gamma_slopes)
_beta_ppf, _beta_isf = _inverses("beta", beta_quantile, beta_slopes)
_t_ppf, _t_isf = _inverses("t", t_quantile, t_slopes)


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
    below=lambda z: _of_logistic(z),
    above=lambda z: _of_logistic(-z),
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
    below=lambda z, a: shares.gamma.lower(a, rnp.maximum(z, 0)),
    above=lambda z, a: shares.gamma.upper(a, rnp.maximum(z, 0)),
    log_below=lambda z, a: shares.gamma.log_lower(a, rnp.maximum(z, 0)),
    log_above=lambda z, a: shares.gamma.log_upper(a, rnp.maximum(z, 0)),
    quantile=_gamma_ppf,
    quantile_above=_gamma_isf,
    in_doubles=True,
)
chi2 = Continuous(
    "chi2",
    density=lambda z, df: gamma.density(z / 2, df / 2) - math.log(2),
    below=lambda z, df: shares.gamma.lower(df / 2, rnp.maximum(z, 0) / 2),
    above=lambda z, df: shares.gamma.upper(df / 2, rnp.maximum(z, 0) / 2),
    log_below=lambda z, df: shares.gamma.log_lower(df / 2, rnp.maximum(z, 0) / 2),
    log_above=lambda z, df: shares.gamma.log_upper(df / 2, rnp.maximum(z, 0) / 2),
    quantile=lambda q, df: 2 * _gamma_ppf(q, df / 2),
    quantile_above=lambda q, df: 2 * _gamma_isf(q, df / 2),
    in_doubles=True,
)
beta = Continuous(
    "beta",
    density=lambda z, a, b: _from(
        0, z, special.xlogy(a - 1, rnp.clip(z, 0, 1)) - special.betaln(a, b)
        + special.xlog1py(b - 1, -rnp.clip(z, 0, 1)), 1,
    ),
    below=lambda z, a, b: shares.beta.lower(a, b, rnp.clip(z, 0, 1)),
    above=lambda z, a, b: shares.beta.upper(a, b, rnp.clip(z, 0, 1)),
    log_below=lambda z, a, b: shares.beta.log_lower(a, b, rnp.clip(z, 0, 1)),
    log_above=lambda z, a, b: shares.beta.log_upper(a, b, rnp.clip(z, 0, 1)),
    quantile=_beta_ppf,
    quantile_above=_beta_isf,
    in_doubles=True,
)  # fmt: skip
t = Continuous(
    "t",
    density=lambda z, df: special.gammaln((df + 1) / 2) - special.gammaln(df / 2)
    - 0.5 * rnp.log(math.pi * df) - (df + 1) / 2 * rnp.log1p(rnp.square(z) / df),
    below=lambda z, df: shares.student.lower(df, z),
    above=lambda z, df: shares.student.upper(df, z),
    log_below=lambda z, df: shares.student.log_lower(df, z),
    log_above=lambda z, df: shares.student.log_upper(df, z),
    quantile=_t_ppf,
    quantile_above=_t_isf,
    in_doubles=True,
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
    quantile=lambda q, p: _gennorm_quantile(q, p),
    quantile_above=lambda q, p: -_gennorm_quantile(q, p),
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


def _gennorm_quantile(q: Any, p: Any) -> Any:
    size = rnp.power(_gamma_isf(2 * rnp.minimum(q, 1 - q), 1 / p), 1 / p)
    return rnp.where(rnp.less(q, 0.5), -size, size)


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


def _within(z: Any, a: Any, b: Any) -> Any:
    return rnp.minimum(rnp.maximum(z, a), b)


truncnorm = Continuous(
    "truncnorm",
    density=lambda z, a, b: _truncated(
        _from(a, z, norm.density(_within(z, a, b)) - _log_mass(a, b), b), z, a, b
    ),
    below=lambda z, a, b: shares.normal.lower(a, b, z),
    above=lambda z, a, b: shares.normal.upper(a, b, z),
    log_below=lambda z, a, b: shares.normal.log_lower(a, b, z),
    log_above=lambda z, a, b: shares.normal.log_upper(a, b, z),
    quantile=_truncnorm_ppf,
    quantile_above=_truncnorm_isf,
    in_doubles=True,
)
wrapcauchy = Continuous(
    "wrapcauchy",
    density=lambda z, c: _from(
        0,
        z,
        rnp.log1p(-c * c) - math.log(2 * math.pi) - rnp.log1p(c * c - 2 * c * rnp.cos(_turn(z))),
        2 * math.pi,
    ),
    below=lambda z, c: _of_wrapcauchy(_turn(z), 2 * math.pi - _turn(z), c),
    above=lambda z, c: _of_wrapcauchy(2 * math.pi - _turn(z), _turn(z), c),
    quantile=lambda q, c: _wrapcauchy_quantile(q, c),
    quantile_above=lambda q, c: 2 * math.pi - _wrapcauchy_quantile(q, c),
)


def _of_wrapcauchy(past: Any, rest: Any, c: Any) -> Any:
    """Return the share of an arc of `past`, which `rest` completes to a turn."""
    slope = (1 + c) / (1 - c)
    half = rnp.arctan(slope * rnp.tan(0.5 * rnp.minimum(past, rest))) / math.pi
    return rnp.where(rnp.less(past, rest), half, 1 - half)


def _wrapcauchy_quantile(q: Any, c: Any) -> Any:
    slope = (1 - c) / (1 + c)
    arc = 2 * rnp.arctan(slope * rnp.tan(math.pi * rnp.minimum(q, 1 - q)))
    return rnp.where(rnp.less(q, 0.5), arc, 2 * math.pi - arc)


def _turn(z: Any) -> Any:
    """Return `z` within a turn."""
    return rnp.clip(z, 0, 2 * math.pi)


def _counts(k: Any, value: Any, most: Any = np.inf) -> Any:
    """Return `value` at the integers from 0 to `most`, minus infinity elsewhere."""
    valid = rnp.logical_and(rnp.greater_equal(k, 0), rnp.less_equal(k, most))
    found = rnp.where(rnp.logical_and(valid, rnp.equal(k, rnp.round(k))), value, -np.inf)
    return rnp.where(rnp.isnan(k), rnp.nan, found)


def _choices(n: Any, k: Any) -> Any:
    k = rnp.clip(k, 0, n)
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


bernoulli = Discrete(
    "bernoulli",
    mass=lambda k, p: _counts(k, special.xlogy(k, p) + special.xlog1py(1 - k, -p), 1),
    shares=Shares(
        lambda k, p: 1 - p + 0 * k,
        lambda k, p: p + 0 * k,
        lambda k, p: rnp.log1p(-p) + 0 * k,
        lambda k, p: rnp.log(p) + 0 * k,
    ),
    most=lambda *_: 1.0,
)
binom = Discrete(
    "binom",
    mass=lambda k, n, p: _counts(
        k, _choices(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p), n
    ),
    shares=shares.beta.reversed(),
    numbers=lambda k, n, p: (k + 1, n - k, p),
    most=lambda n, *_: rnp.floor(n),
)
poisson = Discrete(
    "poisson",
    mass=lambda k, mu: _counts(
        k, special.xlogy(k, mu) - special.gammaln(rnp.maximum(k, 0) + 1) - mu
    ),
    shares=shares.gamma.reversed(),
    numbers=lambda k, mu: (k + 1, mu),
)
geom = Discrete(
    "geom",
    mass=lambda k, p: _counts(k - 1, special.xlog1py(k - 1, -p) + rnp.log(p)),
    least=1.0,
    shares=Shares(
        lambda k, p: -rnp.expm1(special.xlog1py(k, -p)),
        lambda k, p: rnp.exp(special.xlog1py(k, -p)),
        lambda k, p: rnp.log(-rnp.expm1(special.xlog1py(k, -p))),
        lambda k, p: special.xlog1py(k, -p),
    ),
)
nbinom = Discrete(
    "nbinom",
    mass=lambda k, n, p: _counts(
        k,
        special.gammaln(rnp.maximum(k, 0) + n) - special.gammaln(n)
        - special.gammaln(rnp.maximum(k, 0) + 1) + special.xlogy(n, p) + special.xlog1py(k, -p),
    ),
    shares=shares.beta,
    numbers=lambda k, n, p: (n, k + 1, p),
)  # fmt: skip
betabinom = Discrete(
    "betabinom",
    mass=lambda k, n, a, b: _counts(
        k, _choices(n, k) + special.betaln(rnp.clip(k, 0, n) + a, n - rnp.clip(k, 0, n) + b)
        - special.betaln(a, b), n,
    ),
)  # fmt: skip
