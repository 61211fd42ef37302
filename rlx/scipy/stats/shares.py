"""Distribution functions that have no closed form, in f64, with derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.scipy.special import normal_shares, shares
from rlx.scipy.special.incomplete import beta_slopes, gamma_slopes
from rlx.scipy.special.scaled import Shares
from rlx.scipy.special.student import t_shares, t_slopes
from rlx.transforms.custom_jvp import custom_jvp

_LEAST = 1e-290
"""Shares that are less have no digits to divide by."""


def _functions(of: Callable[..., Shares], slopes: Callable[..., Any]) -> Shares:
    """Return the shares of `of` as functions, whose derivatives are by `slopes` of the lower one.

    The logarithm of a share that is less than any float has no derivative: NaN.
    """

    @custom_jvp
    def all_of(*numbers: Any) -> Any:
        return of(*numbers)

    @all_of.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        found = all_of(*primals)
        moved = sum(s * t for s, t in zip(slopes(*primals), tangents, strict=True))
        parts = (rnp.where(rnp.greater(part, _LEAST), part, rnp.nan) for part in found[:2])
        by_lower, by_upper = (moved / part for part in parts)
        return found, Shares(moved, -moved, by_lower, -by_upper)

    def function_of(place: int) -> Any:
        def share(*numbers: Any) -> Any:
            return all_of(*numbers)[place]

        share.plain = lambda *numbers: of(*numbers)[place]  # type: ignore[attr-defined]
        return share

    return Shares(*map(function_of, range(4)))


@custom_jvp
def _normal_parts(a: Any, b: Any, x: Any) -> Any:
    """Return densities at `a`, `b` and `x`, 0 outside, over their integral, and both shares."""
    valid = rnp.less(a, b)
    low, high = rnp.where(valid, a, -1.0), rnp.where(valid, b, 1.0)
    whole = normal_shares.between(low, high, high - low)
    known = rnp.where(valid, 1.0, rnp.nan)
    densities = [known * normal_shares.density(each).over(whole).value() for each in (a, b, x)]
    inside = rnp.greater_equal(x, a) & rnp.less_equal(x, b)
    densities[2] = densities[2] * rnp.where(inside, 1.0, 0.0)
    return *densities, *normal_shares.truncnorm_shares(a, b, x)[:2]


@_normal_parts.defjvp
def _normal_parts_jvp(primals: Any, tangents: Any) -> Any:
    parts = _normal_parts(*primals)
    da, db, _ = tangents
    growth = parts[0] * da - parts[1] * db
    densities = (
        part * (growth - rnp.clip(x, -1e150, 1e150) * dx)
        for part, x, dx in zip(parts[:3], primals, tangents, strict=True)
    )
    moved = sum(s * t for s, t in zip(_slopes_of(*primals, *parts), tangents, strict=True))
    return parts, (*densities, moved, -moved)


def _slopes_of(
    a: Any, b: Any, x: Any, at_a: Any, at_b: Any, at_x: Any, lower: Any, upper: Any
) -> tuple[Any, Any, Any]:
    inside = rnp.where(rnp.greater_equal(x, a) & rnp.less_equal(x, b), 1.0, 0.0)
    return -inside * at_a * upper, -inside * at_b * lower, at_x


def normal_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the slopes of the lower share of the truncated normal distribution."""
    return _slopes_of(a, b, x, *_normal_parts(a, b, x))


normal = _functions(normal_shares.truncnorm_shares, normal_slopes)
gamma = _functions(shares.gamma, gamma_slopes)
beta = _functions(shares.beta, beta_slopes)
student = _functions(t_shares, t_slopes)
