"""Lower shares of the gamma and beta distributions of orders up to 1.6, near 0, in f64.

They are `(scale x / k)**c (1 + c s)`, where s is the sum of `t[n] / (c + n)` from n = 1, and
`t[n] / t[n - 1]` is `x` times a ratio (DLMF 8.7.1 and 8.17.7). What a small order makes of errors
is large: the upper share is about c, and a quantile a power of the share by `1 / c`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.stirling import STIRLING, log_gamma_1p
from rlx.transforms.control import fori_loop

LARGEST = 1.6
_TERMS, _STEPS = 52, 8


class Power(NamedTuple):
    """A lower share near 0."""

    order: Any
    scale: Any
    log_k: pairs.Pair
    limit: Any
    """Up to which the series converges by halves."""
    ratio: Callable[[Any], Any]
    terms: Any = _TERMS

    def series(self, x: Any) -> tuple[Any, Any]:
        """Return s, and its slope times `x`."""

        def step(i: Any, state: Any) -> Any:
            term, total, rise = state
            n = rnp.astype(i, x.dtype) + 1
            term = term * (x * self.ratio(n))
            part = term / (self.order + n)
            return term, total + part, rise + n * part

        zero = rnp.zeros_like(x * self.order)
        total, rise = fori_loop(0, self.terms, step, (zero + 1, zero, zero))[1:]
        return total, rise

    def rest(self, x: Any) -> Any:
        """Return the upper share, where `scale x` is up to about 1."""
        power = rnp.log(x * self.scale) - self.log_k.high
        return -rnp.expm1(self.order * power + rnp.log1p(self.order * self.series(x)[0]))

    def far_rest(self, x: Any, d: Any, fraction: Callable[[Any, Any], Any]) -> Any:
        """Return the upper share of the beta distribution of large `d`, for `d x` from 1 up.

        By its expansion in functions of the gamma distribution, of which `fraction` is the upper
        one over its front (Didonato and Morris, Algorithm 708, 1992, equations 9 to 11).
        """
        c, depth = self.order, -rnp.log1p(-x)
        order = d + 0.5 * (c - 1)
        u, quarter = order * depth, 0.25 / (order * order)
        first = fraction(c, u)
        second = (c * (c + 1) * first + (u + c + 1)) * quarter
        third = ((c + 2) * (c + 3) * second + (u + c + 3) * rnp.square(0.5 * depth)) * quarter
        factor = (c - 1) / 6
        total = first + factor * second + ((c - 1) / 120 + (c - 2) / 12 * factor) * third
        power = rnp.log(depth * self.scale) - self.log_k.high
        return c * total * rnp.exp(c * power - u)

    def root(self, log_share: pairs.Pair) -> tuple[Any, Any]:
        """Return the number with that lower share, and its root; NaN beyond the limit."""
        c = self.order
        power = log_share / c + self.log_k
        first = pairs.exp(power) / self.scale

        def newton(_: Any, past: Any) -> Any:
            s, rise = self.series(rnp.minimum(first * rnp.exp(-past), self.limit))
            return past - (past - rnp.log1p(c * s) / c) / (1 + rise / (1 + c * s))

        past = fori_loop(0, _STEPS, newton, rnp.zeros_like(first))
        x = first * rnp.exp(-past)
        root = pairs.exp(pairs.Pair(0.5 * power.high, 0.5 * power.low)) / rnp.sqrt(self.scale)
        inside = rnp.less(x, self.limit)
        return rnp.where(inside, x, rnp.nan), rnp.where(
            inside, root * rnp.exp(-0.5 * past), rnp.nan
        )


def gamma_power(a: Any) -> Power:
    """Return the lower share of the gamma distribution."""
    one = rnp.ones_like(a)
    return Power(a, one, pairs.Pair(log_gamma_1p(a) / a, 0.0), 0.5 * one, lambda n: -1 / n)


def beta_power(c: Any, d: Any, rise: pairs.Pair) -> Power:
    """Return the lower share of the beta distribution; `rise` is of `c` and `d`, as below."""
    end = d + _steps(d)
    u = c / end
    rest = log_gamma_1p(c) + (0.5 * rnp.log1p(u) - end * _log1p_less(u)) - _stirling_rise(end, c)
    return Power(c, end + c, (rise + rest) / c, 0.5 / rnp.maximum(d, 1.0), lambda n: (n - d) / n)


def rise_of_gamma(c: Any, d: Any) -> pairs.Pair:
    """Return the sum of `log(1 + c / (d + n))` for n from 0 to 9; 0 where `d` is large."""
    steps = _steps(d)

    def part(n: Any) -> Any:
        return rnp.where(rnp.greater(steps, n), rnp.log1p(c / (d + n)), 0.0)

    def step(i: Any, total: Any) -> Any:
        return total + part(rnp.astype(i + 1, d.dtype))

    # The first part, of small d, may be large
    return pairs.two_sum(part(0.0), fori_loop(0, 9, step, rnp.zeros_like(c + d)))


def exact_rise_of_gamma(c: Any, d: Any) -> pairs.Pair:
    """Return the same as the logarithm of a product of pairs."""
    steps = _steps(d)

    def step(i: Any, product: Any) -> Any:
        n = rnp.astype(i, d.dtype)
        below = pairs.two_sum(d, n)
        grown = pairs.Pair(*product) * pairs.quotient(below + c, below)
        return tuple(
            rnp.where(rnp.greater(steps, n), *each) for each in zip(grown, product, strict=True)
        )

    one = rnp.ones_like(c + d)
    return pairs.log_of_pair(pairs.Pair(*fori_loop(0, 10, step, (one, rnp.zeros_like(one)))))


def _steps(d: Any) -> Any:
    """Return the steps from `d` up to where the series of log gamma has few terms."""
    return rnp.where(rnp.less(d, 10), 10.0, 0.0)


def _log1p_less(u: Any) -> Any:
    """Return `log(1 + u) - u` for `u` up to 0.16."""
    s = u / (2 + u)
    z = s * s
    total: Any = 1 / 17
    for n in range(15, 1, -2):
        total = total * z + 1 / n
    return 2 * s * z * total - u * s


def _stirling_rise(x: Any, c: Any) -> Any:
    """Return the sum of `k (1 / (x + c)**n - 1 / x**n)` for the series of log gamma from 10 up."""
    u, v = 1 / (x + c), 1 / x
    total, quotient, power = 0.0 * x, 1 + 0.0 * x, v
    for factor in STIRLING:
        total = total + factor * quotient
        quotient = u * u * quotient + power * (u + v)
        power = power * v * v
    return -c * u * v * total
