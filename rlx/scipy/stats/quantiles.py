"""Quantiles of distributions that have no formula for them; all is computed in f64.

Distribution functions are inverted on the side where the share is at most 1/2. Newton's steps are
in the logarithms of share and number, where tails are almost straight, and within a bracket, which
is halved where they leave it. Derivatives are those of the implicit function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.scipy.special import normal_shares, pairs
from rlx.scipy.special.beta_shares import Point, beta_front, beta_shares
from rlx.scipy.special.gamma_shares import gamma_density, gamma_shares
from rlx.scipy.special.normal_quantile import CENTRAL, central_quantile
from rlx.scipy.special.scaled import Scaled, Shares
from rlx.scipy.special.shares import in_doubles
from rlx.scipy.special.small_orders import (
    LARGEST,
    Power,
    beta_power,
    exact_rise_of_gamma,
    gamma_power,
)
from rlx.tracing.apply import function
from rlx.transforms.control import while_loop
from rlx.transforms.custom_jvp import custom_jvp

_MOST_STEPS = 120
_CLOSE = 1e-9
"""A relative step, after which the error is of its square."""
_LEAST = 2.3e-308


def quantile(
    name: str, solve: Callable[..., Any], slopes: Callable[..., Any], *, upper: bool
) -> Callable[..., Any]:
    """Return the inverse of a share of `x` and shapes by `solve(p, upper, *shapes)`.

    `slopes` are those of the lower share by the shapes and `x`.
    """

    @custom_jvp
    def inverse(p: Any, *shapes: Any) -> Any:
        dtype = p.dtype
        wide = [rnp.astype(x, np.float64) for x in rnp.broadcast_arrays(p, *shapes)]
        return rnp.astype(solve(wide[0], upper, *wide[1:]), dtype)

    @inverse.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (p, *shapes), (dp, *changes) = primals, tangents
        x = inverse(p, *shapes)
        *by_shapes, density = in_doubles(lambda *numbers: tuple(slopes(*numbers)), *shapes, x)
        moved = sum(s * t for s, t in zip(by_shapes, changes, strict=True))
        return x, ((-dp if upper else dp) - moved) / density

    inverse.__name__ = name
    return inverse


def _halves(p: Any, upper: bool) -> tuple[Any, Any]:
    """Return the share of the side that has at most half, and whether that is the lower one."""
    small = rnp.less_equal(p, 0.5)
    return rnp.where(small, p, 1 - p), rnp.logical_not(small) if upper else small


def _root(
    shares: Callable[[Any], Shares], density: Callable[[Any], Scaled], p: Any, rises: Any,
    start: Any, *, is_power: Any, most: Any = 1e300, where: Any = True,
) -> Any:  # fmt: skip
    """Return the number in (0, most) with the share `p` below it, or above it unless `rises`.

    `density` is the slope of the lower share. Where `is_power` the share is almost a power of the
    number, elsewhere an exponential. No step is taken for elements that are not in `where`.
    """
    low, high = rnp.full_like(p, _LEAST), most + rnp.zeros_like(p)
    logarithm = rnp.log(p)

    def is_moving(state: Any) -> Any:
        return rnp.logical_and(rnp.less(state[0], _MOST_STEPS), rnp.any(state[4]))

    def step(state: Any) -> Any:
        count, x, low, high, moving = state
        at = shares(x)
        share, log_share = rnp.where(rises, at[0], at[1]), rnp.where(rises, at[2], at[3])
        is_normal = rnp.greater(share, _LEAST)
        by_ratio = rnp.log(rnp.where(is_normal, share, p) / p)
        excess = rnp.where(is_normal, by_ratio, log_share - logarithm)
        excess = rnp.where(rises, excess, -excess)
        low = rnp.where(rnp.less(excess, 0), rnp.maximum(low, x), low)
        high = rnp.where(rnp.greater(excess, 0), rnp.minimum(high, x), high)
        by = excess * rnp.exp(log_share - density(x).log() - rnp.log(x))
        is_scaled = rnp.logical_and(is_power, rnp.greater(rnp.abs(by), 0.5))
        newton = rnp.where(is_scaled, x * rnp.exp(-by), x - x * by)
        inside = rnp.logical_and(rnp.greater(newton, low), rnp.less(newton, high))
        inside = rnp.logical_or(inside, rnp.equal(newton, x))
        moved = rnp.where(inside, newton, rnp.sqrt(low) * rnp.sqrt(high))
        done = rnp.logical_or(
            rnp.logical_and(inside, rnp.less(rnp.abs(by), _CLOSE)),
            rnp.less_equal(high, low * (1 + 1e-15)),
        )
        x = rnp.where(moving, moved, x)
        return count + 1, x, low, high, rnp.logical_and(moving, rnp.logical_not(done))

    begin = rnp.clip(start, _LEAST, 0.5 * high)
    found = while_loop(is_moving, step, (0, begin, low, high, rnp.greater(p, 0) & where))
    return rnp.where(found[4], rnp.nan, found[1])


def _normal_start(p: Any, rises: Any) -> Any:
    """Return about the normal quantile of the share `p`, at most 1/2."""
    size = rnp.sqrt(-2 * rnp.log(2 * p))
    return rnp.where(rises, -size, size)


def _by_power(power: Power, is_small: Any, p: Any, rises: Any) -> tuple[Any, Any, Any]:
    """Return where the quantile is by a power of the lower share, it and its root."""
    rest = pairs.two_sum(1.0, -p)
    lower = pairs.Pair(rnp.where(rises, p, rest.high), rnp.where(rises, 0.0, rest.low))
    x, root = power.root(pairs.log_of_pair(lower))
    return is_small & rnp.isfinite(x), x, root


def _at_ends(p: Any, rises: Any, x: Any, low: Any, high: Any, valid: Any) -> Any:
    """Return `x`, the ends of the distribution for a share of 0, and NaN unless `valid`."""
    x = rnp.where(rnp.greater(p, 0), x, rnp.where(rises, low, high))
    return rnp.where(valid, x, rnp.nan)


@function
def gamma_quantile(p: Any, upper: bool, a: Any) -> Any:
    """The gamma distribution's, from Wilson and Hilferty's (1931)."""
    p, rises = _halves(p, upper)
    valid = rnp.logical_and(rnp.greater(a, 0), rnp.isfinite(a))
    a = rnp.where(valid, a, 1)
    safe = rnp.where(rnp.greater(p, 0), p, 0.5)
    is_small = rnp.less(a, LARGEST)
    power = gamma_power(rnp.where(is_small, a, 1.0))
    by_power, near, _ = _by_power(power, is_small, safe, rises)
    cube = 1 - 1 / (9 * a) + _normal_start(safe, rises) / (3 * rnp.sqrt(a))
    # Where the power is all, the search is for the median of the order 1
    order, share = rnp.where(by_power, 1.0, a), rnp.where(by_power, 0.5, safe)
    x = _root(
        lambda x: gamma_shares(order, x), lambda x: gamma_density(order, x), share, rises,
        rnp.where(by_power, math.log(2), a * rnp.maximum(cube, 0.1) ** 3), is_power=rises,
    )  # fmt: skip
    return _at_ends(p, rises, rnp.where(by_power, near, x), 0.0, np.inf, valid)


def _beta_odds(p: Any, rises: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Return `x / (1 - x)` of the quantile `x` of the beta distribution, and its root."""
    lower = rnp.where(rises, p, 1 - p)
    mirrored = rnp.greater(lower, b / (a + b))  # most of the share of that end is above
    c, d = rnp.where(mirrored, b, a), rnp.where(mirrored, a, b)
    is_small = rnp.less(c, LARGEST)
    order, other = rnp.where(is_small, c, 1.0), rnp.where(is_small, d, 1.0)
    power = beta_power(order, other, exact_rise_of_gamma(order, other))
    by_power, near, root = _by_power(power, is_small, p, rnp.not_equal(rises, mirrored))
    near, root = near / (1 - near), root / rnp.sqrt(1 - near)
    near, root = (rnp.where(mirrored, 1 / each, each) for each in (near, root))

    def point(odds: Any) -> Point:
        whole = pairs.two_sum(1.0, odds)
        return Point(pairs.Pair(odds, 0.0) / whole, pairs.Pair(rnp.ones_like(odds), 0.0) / whole)

    def density(odds: Any) -> Scaled:
        exponent, factor = beta_front(c, d, point(odds))
        return Scaled(exponent, c * (d * factor) / odds)

    width = rnp.clip(_normal_start(p, rises) * rnp.sqrt(1 / a + 1 / b), -300.0, 300.0)
    c, d = (rnp.where(by_power, 1.0, each) for each in (a, b))
    start = rnp.where(by_power, 1.0, a / b * rnp.exp(width))
    share = rnp.where(by_power, 0.5, p)
    # The tail is `(1 + odds)**-d`, a power of large odds
    odds = _root(
        lambda odds: beta_shares(c, d, point(odds)), density, share, rises, start,
        is_power=rises | rnp.greater(-rnp.log(share), 2 * d),
    )  # fmt: skip
    return rnp.where(by_power, near, odds), rnp.where(by_power, root, rnp.sqrt(odds))


@function
def beta_quantile(p: Any, upper: bool, a: Any, b: Any) -> Any:
    """The beta distribution's."""
    p, rises = _halves(p, upper)
    valid = rnp.greater(a, 0) & rnp.greater(b, 0) & rnp.isfinite(a) & rnp.isfinite(b)
    a, b = rnp.where(valid, a, 1), rnp.where(valid, b, 1)
    odds = _beta_odds(rnp.where(rnp.greater(p, 0), p, 0.5), rises, a, b)[0]
    y = 1 / (1 + odds)
    x = rnp.where(rnp.less(odds, 1), odds * y, 1 - y)  # next to 1, y has more digits than 1 + y
    return _at_ends(p, rises, x, 0.0, 1.0, valid)


@function
def t_quantile(p: Any, upper: bool, df: Any) -> Any:
    """Student's: by the tail, or by the share between 0 and the quantile where that is smaller.

    Twice that is a share of the beta distribution, of which `z**2 / df` are the odds.
    """
    center = 0.5 - p if upper else p - 0.5
    tail = rnp.minimum(p, 1 - p)
    valid = rnp.greater(df, 0)
    df = rnp.where(valid, rnp.minimum(df, _ENDLESS), 1.0)
    near = rnp.less(rnp.abs(center), 0.25)
    share = rnp.where(near, rnp.abs(center), tail)
    safe = 2 * rnp.where(rnp.greater(share, 0), share, 0.25)
    root = _beta_odds(safe, near, rnp.full_like(df, 0.5), df / 2)[1]
    x = rnp.where(rnp.greater(share, 0), rnp.sqrt(df) * root, rnp.where(near, 0.0, np.inf))
    return rnp.where(valid, rnp.where(rnp.less(center, 0), -x, x), rnp.nan)


_ENDLESS = 1e20
"""Degrees of freedom from which Student's distribution is the normal one."""


@function
def truncnorm_quantile(p: Any, upper: bool, a: Any, b: Any) -> Any:
    """The truncated normal's: of an interval around 0 by the share beyond it, else by the less.

    Near 0 within the interval the normal quantile is taken of a share less 1/2, a pair.
    """
    valid = rnp.less(a, b)
    a, b = rnp.where(valid, a, -1.0), rnp.where(valid, b, 1.0)
    below, above = (1 - p, p) if upper else (p, 1 - p)
    straddles = rnp.less(a, 0) & rnp.greater(b, 0)
    middle = normal_shares.between_all(a, rnp.zeros_like(a), b)
    is_left = rnp.where(straddles, rnp.less(below, middle.lower), rnp.less_equal(b, 0))
    # The side of 0 that the quantile is on becomes the right one
    low, high = rnp.where(is_left, -b, a), rnp.where(is_left, -a, b)
    inner, outer = rnp.where(is_left, above, below), rnp.where(is_left, below, above)
    rises = rnp.logical_not(straddles) & rnp.less(inner, outer)
    share = rnp.where(rises, inner, outer)
    safe = rnp.where(rnp.greater(share, 0), share, 0.5)
    origin = rnp.maximum(low, 0.0)
    width = high - origin

    whole = normal_shares.between(low, high, high - low)
    # Near a finite end the share is almost proportional to the distance from there
    reach = rnp.minimum(1 / rnp.maximum(high, 1e-300), 0.5 * width)
    most = normal_shares.density(high).over(whole).value() * reach
    from_end = rnp.isfinite(high) & rnp.logical_not(rises) & rnp.less(outer, most)

    def at(y: Any) -> tuple[Any, Any, Any]:
        x = rnp.where(from_end, high - y, origin + y)
        past = rnp.where(from_end, high - low, origin - low)
        gone = rnp.where(from_end, past - y, past + y)
        return x, gone, rnp.where(from_end, y, width - y)

    def shares(y: Any) -> Shares:
        x, past, rest = at(y)
        found = normal_shares.shares_between(low, x, high, past, rest)
        return found.swapped(from_end)

    def density(y: Any) -> Scaled:
        return normal_shares.density(at(y)[0]).over(whole)

    left, right = (normal_shares.from_zero(rnp.maximum(each, 0.0)) for each in (-a, b))
    center = right - (left + right) * p if upper else (left + right) * p - left
    near = straddles & rnp.less(rnp.abs(center.high), CENTRAL)
    start = rnp.where(from_end, outer / most * reach, rnp.minimum(1 / (1 + origin), 0.5 * width))
    grows, most = rises | from_end, rnp.minimum(width, 1e150)
    y = _root(shares, density, safe, grows, start, is_power=grows, most=most, where=~near)
    x = rnp.where(rnp.greater(share, 0), at(y)[0], rnp.where(rises, origin, high))
    x = rnp.where(is_left, -x, x)
    x = rnp.where(near, central_quantile(rnp.where(near, center.high, 0.0)), x)
    return rnp.where(valid, rnp.clip(x, a, b), rnp.nan)
