"""Slopes of the incomplete beta function by both parameters, in f64.

A share is a front, `x**c y**d / (c d beta(c, d))`, times `d` times a fraction, on the side of the
mean where that converges. All terms of a slope have one sign there.
"""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.beta_shares import (
    Levels,
    Point,
    Side,
    beta_front,
    fraction,
    levels_of,
    past_mean,
    side_of,
)
from rlx.scipy.special.gamma_slopes import log_of_ratio, past_log
from rlx.transforms.differentiate import jvp


def slopes(a: Any, b: Any, at: Point) -> tuple[Any, Any, Any]:
    """Return the slopes of the lower share by `a`, `b` and `x`."""
    side, levels, exponent, front = _parts(a, b, at)
    signed = front * levels.where_known(exponent, _sign(side))
    by_a, by_b = _in_order(side, signed, *_slopes(side, levels))
    return by_a, by_b, front * (side.c / side.x) * (side.d / side.y)


def second_slopes(a: Any, b: Any, at: Point) -> tuple[Any, ...]:
    """Return the slopes by `aa`, `ab`, `bb`, `ax`, `bx` and `xx`."""
    side, levels, exponent, front = _parts(a, b, at)
    signed, one = front * levels.where_known(exponent, _sign(side)), (rnp.ones_like(side.c),)
    rise_c, rise_d = log_front_slopes(side)

    def moved(c: Any) -> tuple[Any, Any]:
        return _slopes(side._replace(c=c), levels)

    (by_c, by_d), (by_cc, by_cd) = jvp(moved, (side.c,), one)
    by_dd = jvp(lambda d: _slopes(side._replace(d=d), levels)[1], (side.d,), one)[1]
    c, d, x, y, is_upper, _ = side
    outer = _in_order(side, signed, rise_c * by_c + by_cc, rise_d * by_d + by_dd)
    by_cx = front * ((c * rise_c + 1) / x) * (d / y)
    by_dx = front * ((d * rise_d + 1) / y) * (c / x)
    inner = rnp.where(is_upper, by_dx, by_cx), rnp.where(is_upper, by_cx, by_dx)
    bend = front * (c / x) * (d / y) * ((past_mean(side).high - 1 + 2 * x) / x / y)
    return outer[0], signed * (rise_c * by_d + by_cd), outer[1], *inner, _sign(side) * bend


def _parts(a: Any, b: Any, at: Point) -> tuple[Side, Levels, pairs.Pair, Any]:
    """Return the side, the levels of the fraction, the front's exponent and the front."""
    a, b = pairs.bounded(a), pairs.bounded(b)
    exponent, factor = beta_front(a, b, at)
    side = side_of(a, b, at)
    return side, levels_of(side), exponent, pairs.exp(exponent) * factor


def _sign(side: Side) -> Any:
    """Return the sign of the lower share's slopes in those of this side's."""
    return rnp.where(side.is_upper, -1.0, 1.0)


def _in_order(side: Side, front: Any, by_c: Any, by_d: Any) -> tuple[Any, Any]:
    """Return slopes by `a` and `b` from those by `c` and `d` over the front."""
    by_a, by_b = rnp.where(side.is_upper, by_d, by_c), rnp.where(side.is_upper, by_c, by_d)
    return front * by_a, front * by_b


def _slopes(side: Side, levels: Levels) -> tuple[Any, Any]:
    """Return the slopes of the share by `c` and `d`, over the front."""
    one = (rnp.ones_like(side.c),)
    rise_c, rise_d = log_front_slopes(side)
    found, by_c = jvp(lambda c: fraction(side._replace(c=c), levels), (side.c,), one)
    by_d = jvp(lambda d: fraction(side._replace(d=d), levels), (side.d,), one)[1]
    d = side.d
    return d * (rise_c * found + by_c), (1 + d * rise_d) * found + d * by_d


def log_front_slopes(side: Side) -> tuple[Any, Any]:
    """Return the slopes of the front's logarithm by `c` and `d`.

    They are `log(x) - digamma(c + 1) + digamma(c + d)`, and the same of `y` and `d`.
    """
    c, d, x, y = side[:4]
    total, past = c + d, past_mean(side).high
    of_total = past_log(total) - 1 / total

    def slope(x: Any, c: Any, past: Any) -> Any:
        return log_of_ratio(x * total, c, past) - past_log(c) + of_total

    return slope(x, c, -past), slope(y, d, past)
