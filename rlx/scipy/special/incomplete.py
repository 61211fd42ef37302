"""Incomplete gamma and beta functions, and their derivatives to the second order.

All is computed in f64 and rounded once. Third derivatives by the orders are there in forward mode.
"""

from __future__ import annotations

from typing import Any

from rlx.runtime.arrays import Array
from rlx.scipy.special import gamma_slopes as of_gamma
from rlx.scipy.special import shares
from rlx.tracing.apply import function, inexact
from rlx.transforms.custom_jvp import custom_jvp


@function
def gammainc(a: Any, x: Any, /) -> Array:
    """The lower incomplete gamma function, over `gamma(a)`."""
    return _gammainc(*inexact(a, x))


@function
def gammaincc(a: Any, x: Any, /) -> Array:
    """The upper incomplete gamma function, over `gamma(a)`."""
    return _gammaincc(*inexact(a, x))


@custom_jvp
def _gammainc(a: Any, x: Any) -> Any:
    return shares.in_doubles(lambda a, x: shares.gamma(a, x).lower, a, x)


@custom_jvp
def _gammaincc(a: Any, x: Any) -> Any:
    return shares.in_doubles(lambda a, x: shares.gamma(a, x).upper, a, x)


@_gammainc.defjvp
def _gammainc_jvp(primals: Any, tangents: Any) -> Any:
    by_a, by_x = gamma_slopes(*primals)
    return _gammainc(*primals), by_a * tangents[0] + by_x * tangents[1]


@_gammaincc.defjvp
def _gammaincc_jvp(primals: Any, tangents: Any) -> Any:
    by_a, by_x = gamma_slopes(*primals)
    return _gammaincc(*primals), -(by_a * tangents[0] + by_x * tangents[1])


@custom_jvp
def gamma_slopes(a: Any, x: Any) -> tuple[Any, Any]:
    """The slopes of the lower function by `a` and `x`."""
    by_a, by_x = shares.in_doubles(shares.gamma_slopes, a, x)
    return by_a, by_x


@gamma_slopes.defjvp
def _gamma_slopes_jvp(primals: Any, tangents: Any) -> Any:
    da, dx = tangents
    by_aa, by_ax, by_xx = shares.in_doubles(shares.second_gamma_slopes, *primals)
    return gamma_slopes(*primals), (by_aa * da + by_ax * dx, by_ax * da + by_xx * dx)


def slope_over_density(a: Any, x: Any) -> Any:
    """The slope of the lower function by `a` over that by `x`, which may be less than any float."""
    return shares.in_doubles(lambda a, x: of_gamma.order_slope(a, x) / a * x, a, x)


@custom_jvp
def betainc(a: Any, b: Any, x: Any, /) -> Array:
    """The incomplete beta function, over `beta(a, b)`."""
    return shares.in_doubles(lambda a, b, x: shares.beta(a, b, x).lower, a, b, x)


@betainc.defjvp
def _betainc_jvp(primals: Any, tangents: Any) -> Any:
    slopes = beta_slopes(*primals)
    return betainc(*primals), sum(s * t for s, t in zip(slopes, tangents, strict=True))


@custom_jvp
def beta_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """The slopes by `a`, `b` and `x`."""
    by_a, by_b, by_x = shares.in_doubles(shares.beta_slopes, a, b, x)
    return by_a, by_b, by_x


@beta_slopes.defjvp
def _beta_slopes_jvp(primals: Any, tangents: Any) -> Any:
    seconds = shares.in_doubles(shares.second_beta_slopes, *primals)
    moved = (sum(s * t for s, t in zip(row, tangents, strict=True)) for row in seconds)
    return beta_slopes(*primals), tuple(moved)
