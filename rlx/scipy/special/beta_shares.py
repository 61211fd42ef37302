"""The regularized incomplete beta functions in f64, each by the side on which it is accurate.

Shares are `exp(e) m` with an exponent that is a pair of doubles, and the continued fraction of
DLMF 8.17.22 from its end, whose errors do not add up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.gamma_shares import Shares, root_of_gamma
from rlx.transforms.control import fori_loop

_TINY = 1e-290
_MOST_TERMS = 10_000.0
"""Enough for the smaller parameter up to 2.6e9; beyond, shares that are not 0 or 1 are NaN."""
_LEAST_EXPONENT = -1000.0
"""Of less the share is 0."""


class Point(NamedTuple):
    """`x` and `y`, which is `1 - x`, and their logarithms."""

    x: Any
    y: Any
    log_x: pairs.Pair
    log_y: pairs.Pair

    def where(self, chosen: Any, other: Point) -> Point:
        """Return this point where `chosen`, else the other."""
        return Point(
            rnp.where(chosen, self.x, other.x),
            rnp.where(chosen, self.y, other.y),
            pairs.where(chosen, self.log_x, other.log_x),
            pairs.where(chosen, self.log_y, other.log_y),
        )

    def swapped(self) -> Point:
        return Point(self.y, self.x, self.log_y, self.log_x)


def point_of(x: Any) -> Point:
    """Return the point of `x`, between 0 and 1."""
    x = rnp.maximum(x, 1e-300)
    rest = pairs.two_sum(1.0, -x)
    return Point(x, rest.high, pairs.log(x), pairs.log_of_pair(rest))


def beta_exponent(a: Any, b: Any, at: Point) -> tuple[pairs.Pair, Any]:
    """Return the exponent and the factor of `x**a y**b / beta(a, b)`."""
    total = pairs.two_sum(a, b)
    log_total = pairs.log_of_pair(total)
    exponent = (at.log_x + log_total - pairs.log(a)) * a
    exponent = exponent + (at.log_y + log_total - pairs.log(b)) * b
    roots = root_of_gamma(total.high) / root_of_gamma(a) / root_of_gamma(b)
    return exponent, a * (b / total.high) * roots


def beta_shares(a: Any, b: Any, at: Point) -> Shares:
    """Return the shares below and above `x` for positive, finite `a` and `b`, f64."""
    a, b = pairs.bounded(a), pairs.bounded(b)
    exponent, factor = beta_exponent(a, b, at)
    swapped = _is_upper(a, b, at)
    c, d = rnp.where(swapped, b, a), rnp.where(swapped, a, b)
    turned = at.swapped().where(swapped, at)
    fraction, converges = _fraction(c, d, turned.x, turned.y)
    known = converges | rnp.less(exponent.high, _LEAST_EXPONENT)
    factor = factor * rnp.where(known, fraction, rnp.nan)
    share = rnp.minimum(pairs.exp(exponent) * factor, 1.0)
    logarithm = rnp.minimum(exponent.high + (exponent.low + rnp.log(factor)), 0.0)
    rest = 1 - share
    log_rest = rnp.log1p(-share)
    logarithm = rnp.where(rnp.greater(share, 0.5), rnp.log1p(-rest), logarithm)
    return Shares(
        rnp.where(swapped, rest, share),
        rnp.where(swapped, share, rest),
        rnp.where(swapped, log_rest, logarithm),
        rnp.where(swapped, logarithm, log_rest),
    )


def _is_upper(a: Any, b: Any, at: Point) -> Any:
    """Return where the upper share is computed: above the mean, or almost.

    The fraction is short there. Of a parameter below 1 most is on one side of the mean: the other
    one is computed, unless that takes hundreds of terms.
    """
    total = a + b
    near = rnp.where(rnp.less(a, 1), 0.5 * a / total, 2.0) > _LEAST
    low = rnp.where(near & rnp.less(a, 1), 0.5 * a / total, (a + 1) / (total + 2))
    far = rnp.less(b, 1) & (rnp.where(rnp.less(b, 1), 0.5 * b / total, 0.0) > _LEAST)
    return rnp.where(far, at.y < 0.5 * b / total, at.x > low)


_LEAST = 6e-4
"""The least number near which the other side's fraction converges in 400 terms."""


def _fraction(a: Any, b: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Return the share below `x`, up to about the mean, over `x**a y**b / beta(a, b)`.

    And where it converges. A continued fraction of Didonato and Morris, Algorithm 708 (1992),
    equation 9.
    """
    past = (pairs.two_product(a, y) - pairs.two_product(b, x)).high + 1
    least = rnp.minimum(a, b)
    terms = 14 + 5 * rnp.power(least, 0.35)
    beyond = rnp.greater(x, (a + 1) / (a + b + 2))
    terms = terms + rnp.where(beyond, 10 / rnp.sqrt(rnp.maximum(y, _LEAST / 2)), 0.0)
    converges = rnp.less_equal(terms, _MOST_TERMS)
    count = rnp.floor(rnp.max(rnp.where(converges, terms, 0.0)))

    def whole(n: Any) -> Any:
        return (a + n) / (a + 2 * n + 1) * (past + n * (1 + y))

    def above_of(n: Any) -> Any:
        width = a + 2 * n - 1
        return (a + n - 1) / width * (a + b + n - 1) * (n * (b - n) * x / width) * x

    def level(i: Any, fraction: Any) -> Any:
        n = count - rnp.astype(i, x.dtype)
        share = n * (b - n) * x / (a + 2 * n - 1)
        return n + share + whole(n) + above_of(n + 1) / _away(fraction)

    inner = fori_loop(0, rnp.astype(count, "int64"), level, count + 1 + whole(count + 1))
    return 1 / _away(whole(0.0) + above_of(1.0) / _away(inner)), converges


def _away(x: Any) -> Any:
    return rnp.where(rnp.less(rnp.abs(x), _TINY), _TINY, x)
