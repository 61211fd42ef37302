"""The regularized incomplete beta functions in f64, each by the side on which it is accurate.

Shares are `exp(e) m` with an exponent that is a pair of doubles, and the continued fraction of
DLMF 8.17.22 from its end, whose errors do not add up.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.gamma_shares import upper
from rlx.scipy.special.scaled import Scaled, Shares, shares_of
from rlx.scipy.special.small_orders import LARGEST, beta_power, rise_of_gamma
from rlx.scipy.special.stirling import root_of_gammas
from rlx.transforms.control import fori_loop

_TINY = 1e-290
_MOST_TERMS = 14_000.0
"""Enough for the smaller parameter up to 2.6e9; beyond, shares that are not 0 or 1 are NaN."""
_LEAST_EXPONENT = -1000.0
"""Of less the share is 0."""


class Point(NamedTuple):
    """`x`, and `y`, which is `1 - x`."""

    x: pairs.Pair
    y: pairs.Pair


def point_of(x: Any) -> Point:
    """Return the point of `x`, between 0 and 1."""
    return Point(pairs.Pair(x, rnp.zeros_like(x)), pairs.two_sum(1.0, -x))


def beta_front(a: Any, b: Any, at: Point) -> tuple[pairs.Pair, Any]:
    """Return the exponent and the factor of `x**a y**b / beta(a, b) / (a b)`."""
    total, both = pairs.two_sum(a, b), rnp.stack([a, b])
    ratios = pairs.quotient(total, both)
    of_x, of_y = pairs.unstacked(pairs.log_of_product(pairs.stacked(*at), ratios) * both)
    return of_x + of_y, root_of_gammas(total, a, b) / total.high


class Side(NamedTuple):
    """The side of a point on which the share is computed; `c` and `d` are `a` and `b` in order."""

    c: Any
    d: Any
    x: Any
    y: Any
    is_upper: Any
    past: Any
    """What the rounding of `x` and `y` took off `c y - d x`."""


def side_of(a: Any, b: Any, at: Point) -> Side:
    """Return the side on which the fraction is short."""
    is_upper = _is_upper(a, b, at)
    c, d = rnp.where(is_upper, b, a), rnp.where(is_upper, a, b)
    past = rnp.where(is_upper, b * at.x.low - a * at.y.low, a * at.y.low - b * at.x.low)
    (x, _), (y, _) = at
    return Side(c, d, rnp.where(is_upper, y, x), rnp.where(is_upper, x, y), is_upper, past)


def beta_shares(a: Any, b: Any, at: Point) -> Shares:
    """Return the shares below and above `x` for positive, finite `a` and `b`, f64."""
    a, b = pairs.bounded(a), pairs.bounded(b)
    exponent, factor = beta_front(a, b, at)
    side = side_of(a, b, at)
    levels = levels_of(side)
    factor = factor * side.d * levels.where_known(exponent, fraction(side, levels))
    share = Scaled(exponent, factor)
    rest = 1 - rnp.minimum(share.value(), 1.0)
    return shares_of(*_by_power(side, share, rest)).swapped(side.is_upper)


def _by_power(side: Side, share: Scaled, rest: Any) -> tuple[Scaled, None, Any]:
    """Return the shares of a side, with those of a small order where the other one is large.

    Their upper share is not 1 less the lower one, where that may be almost 1, and no fraction
    converges just above the mean.
    """
    swaps = rnp.less(side.d, side.c)
    order, other = rnp.where(swaps, side.d, side.c), rnp.where(swaps, side.c, side.d)
    x = rnp.where(swaps, side.y, side.x)
    is_order, scaled = rnp.less(order, LARGEST), x * rnp.maximum(other, 1.0)
    is_small = is_order & rnp.less(scaled, 1.1) & rnp.less(x, 0.6) & rnp.logical_not(swaps)
    is_far = is_order & rnp.greater(other, _MANY) & rnp.greater_equal(scaled, 1.1)
    is_far &= rnp.less(scaled, 8)
    is_any = is_small | is_far
    order, other = rnp.where(is_any, order, 1.0), rnp.where(is_any, other, _MANY)
    power = beta_power(order, other, rise_of_gamma(order, other))
    # No step of a loop runs unless one element needs it
    power = power._replace(terms=power.terms * rnp.any(is_small))
    small = power.rest(rnp.where(is_small, x, 0.5 / _MANY))
    fraction_of = functools.partial(upper, is_needed=rnp.any(is_far))
    far = power.far_rest(rnp.where(is_far, x, 1.5 / _MANY), other, fraction_of)
    upper_is_share = is_far & swaps
    exponent = (rnp.where(upper_is_share, 0.0, each) for each in share.exponent)
    share = Scaled(pairs.Pair(*exponent), rnp.where(upper_is_share, far, share.factor))
    rest = rnp.where(upper_is_share, 1 - far, rnp.where(is_far, far, rest))
    return share, None, rnp.where(is_small, small, rest)


_MANY = 600.0
"""From here on shares of small orders are almost those of the gamma distribution."""


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
    c, d, x, y = side[:4]
    terms = 14 + 7 * rnp.power(rnp.minimum(c, d), 0.35)
    beyond = rnp.greater(x, (c + 1) / (c + d + 2))
    # Of a small d the fraction is almost that of the upper gamma function at c y
    root = rnp.sqrt(rnp.maximum(y, rnp.where(beyond, _LEAST / 2, _TINY)))
    below = rnp.minimum(10 / root, 120 / rnp.maximum(c * y, 1.0))
    terms = rnp.where(beyond, terms + 10 / root, rnp.maximum(terms, below))
    converges = rnp.less_equal(terms, _MOST_TERMS)
    return Levels(rnp.floor(rnp.max(rnp.where(converges, terms, 0.0))), converges)


def fraction(side: Side, levels: Levels) -> Any:
    """Return the share below `x`, up to about the mean, over `d` times the front.

    A continued fraction of Didonato and Morris, Algorithm 708 (1992), equation 9.
    """
    c, d, x, y = side[:4]
    whole = past_mean(side) + 1.0
    past = whole.high

    def level(i: Any, below: Any) -> Any:
        n = levels.count - rnp.astype(i, x.dtype)
        width = c + 2 * n + 1
        above = (c + d + n) * ((n + 1) * (d - n - 1) * x / width) * x / _away(below)
        whole = n + n * (d - n) * x / (width - 2)
        return whole + (c + n) / width * (past + n * (1 + y) + above)

    last = levels.count + 1
    first = last + (c + last) / (c + 2 * last + 1) * (past + last * (1 + y))
    inner = _away(fori_loop(0, rnp.astype(levels.count, "int64"), level, first))
    # The last step is of pairs: its roundings would be as large as those of all others
    next_c, total = pairs.two_sum(c, 1.0), pairs.two_sum(c, d)
    step = total * (pairs.two_sum(d, -1.0) * x / next_c) * x
    return (next_c / (whole + step / inner)).high


def past_mean(side: Side) -> pairs.Pair:
    """Return `c y - d x`, which is 0 at the mean."""
    exact = pairs.two_product(side.c, side.y) - pairs.two_product(side.d, side.x)
    return exact + side.past


def _away(x: Any) -> Any:
    return rnp.where(rnp.less(rnp.abs(x), _TINY), _TINY, x)
