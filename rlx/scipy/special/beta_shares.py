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
    """`x`, and `y`, which is `1 - x`."""

    x: pairs.Pair
    y: pairs.Pair


def point_of(x: Any) -> Point:
    """Return the point of `x`, between 0 and 1."""
    x = rnp.maximum(x, 1e-300)
    return Point(pairs.Pair(x, 0.0), pairs.two_sum(1.0, -x))


def beta_front(a: Any, b: Any, at: Point) -> tuple[pairs.Pair, Any]:
    """Return the exponent and the factor of `x**a y**b / beta(a, b) / (a b)`."""
    total = pairs.two_sum(a, b)
    exponent = pairs.log_of_pair(at.x * pairs.quotient(total, a)) * a
    exponent = exponent + pairs.log_of_pair(at.y * pairs.quotient(total, b)) * b
    return exponent, root_of_gamma(total.high) / root_of_gamma(a) / root_of_gamma(b) / total.high


class Side(NamedTuple):
    """The side of a point on which the share is computed; `c` and `d` are `a` and `b` in order."""

    c: Any
    d: Any
    x: Any
    y: Any
    is_upper: Any


def side_of(a: Any, b: Any, at: Point) -> Side:
    """Return the side on which the fraction is short."""
    is_upper = _is_upper(a, b, at)
    c, d = rnp.where(is_upper, b, a), rnp.where(is_upper, a, b)
    x, y = at.x.high, at.y.high
    return Side(c, d, rnp.where(is_upper, y, x), rnp.where(is_upper, x, y), is_upper)


def beta_shares(a: Any, b: Any, at: Point) -> Shares:
    """Return the shares below and above `x` for positive, finite `a` and `b`, f64."""
    a, b = pairs.bounded(a), pairs.bounded(b)
    exponent, factor = beta_front(a, b, at)
    side = side_of(a, b, at)
    levels = levels_of(side)
    factor = factor * side.d * levels.where_known(exponent, fraction(side, levels))
    share = rnp.minimum(pairs.exp(exponent) * factor, 1.0)
    return Shares(share, 1 - share).swapped(side.is_upper)


def _is_upper(a: Any, b: Any, at: Point) -> Any:
    """Return where the upper share is computed: above the mean, or almost.

    The fraction is short there. Of a parameter below 1 most is on one side of the mean: the other
    one is computed, unless that takes hundreds of terms.
    """
    total = a + b
    near = rnp.where(rnp.less(a, 1), 0.5 * a / total, 2.0) > _LEAST
    low = rnp.where(near & rnp.less(a, 1), 0.5 * a / total, (a + 1) / (total + 2))
    far = rnp.less(b, 1) & (rnp.where(rnp.less(b, 1), 0.5 * b / total, 0.0) > _LEAST)
    return rnp.where(far, at.y.high < 0.5 * b / total, at.x.high > low)


_LEAST = 6e-4
"""The least number near which the other side's fraction converges in 400 terms."""


class Levels(NamedTuple):
    """The levels of the fraction, and where they are enough."""

    count: Any
    converges: Any

    def where_known(self, exponent: pairs.Pair, value: Any) -> Any:
        """Return `value`, or NaN where neither the fraction converges nor the front is 0."""
        known = self.converges | rnp.less(exponent.high, _LEAST_EXPONENT)
        return rnp.where(known, value, rnp.nan)


def levels_of(side: Side) -> Levels:
    """Return how many levels are enough for all elements for which a bounded number is."""
    c, d, x, y, _ = side
    terms = 14 + 5 * rnp.power(rnp.minimum(c, d), 0.35)
    beyond = rnp.greater(x, (c + 1) / (c + d + 2))
    terms = terms + rnp.where(beyond, 10 / rnp.sqrt(rnp.maximum(y, _LEAST / 2)), 0.0)
    converges = rnp.less_equal(terms, _MOST_TERMS)
    return Levels(rnp.floor(rnp.max(rnp.where(converges, terms, 0.0))), converges)


def fraction(side: Side, levels: Levels) -> Any:
    """Return the share below `x`, up to about the mean, over `d` times the front.

    A continued fraction of Didonato and Morris, Algorithm 708 (1992), equation 9.
    """
    c, d, x, y, _ = side
    past = past_mean(side) + 1

    def level(i: Any, below: Any) -> Any:
        n = levels.count - rnp.astype(i, x.dtype)
        width = c + 2 * n + 1
        above = (c + d + n) * ((n + 1) * (d - n - 1) * x / width) * x / _away(below)
        whole = n + n * (d - n) * x / (width - 2)
        return whole + (c + n) / width * (past + n * (1 + y) + above)

    last = levels.count + 1
    first = last + (c + last) / (c + 2 * last + 1) * (past + last * (1 + y))
    inner = _away(fori_loop(0, rnp.astype(levels.count, "int64"), level, first))
    return (c + 1) / _away(past + (c + d) * ((d - 1) * x / (c + 1)) * x / inner)


def past_mean(side: Side) -> Any:
    """Return `c y - d x`, which is 0 at the mean."""
    return (pairs.two_product(side.c, side.y) - pairs.two_product(side.d, side.x)).high


def _away(x: Any) -> Any:
    return rnp.where(rnp.less(rnp.abs(x), _TINY), _TINY, x)
