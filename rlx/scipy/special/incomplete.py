"""Incomplete gamma and beta functions: series and continued fractions, as long as they move.

Their slopes by the last argument are formulas; those by the others are of the series that gave
the value, as long, and so are second ones. Third ones by these are there in forward mode.
"""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.runtime.arrays import Array
from rlx.scipy.special import shares
from rlx.scipy.special.elementary import betaln, digamma, gammaln
from rlx.tracing.apply import function, inexact
from rlx.tracing.kept_traces import kept
from rlx.transforms.control import while_loop
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.differentiate import jvp

_MOST_TERMS = 5000
_TERMS_OF_SLOPES = 200
"""At least: of whole numbers a fraction may end, and its slopes go on."""


def _eps(x: Any) -> float:
    """Convergence threshold, relative to 1: the last bits of a product never converge."""
    return 4 * float(rnp.finfo(x.dtype).eps)


def _tiny(x: Any) -> float:
    return float(rnp.finfo(x.dtype).tiny) * 1e3


def _lower_factor(a: Any, x: Any) -> Any:
    """`x ** a * exp(-x) / gamma(a + 1)`."""
    safe = rnp.where(rnp.greater(x, 0), x, 1)
    found = rnp.exp(a * rnp.log(safe) - x - gammaln(a + 1))
    return rnp.where(rnp.greater(x, 0), found, 0)


@kept
def _series(a: Any, x: Any) -> Any:
    """`sum x ** n / ((a + 1) ... (a + n))`, to the last bit."""
    one = rnp.ones_like(a + x)

    def step(n: Any, total: Any, term: Any) -> Any:
        term = term * x / (a + n)
        return total + term, term

    def moves(state: Any) -> Any:
        n, total, term = state
        alive = rnp.any(rnp.greater(rnp.abs(term), rnp.abs(total) * _eps(x) / 16))
        return rnp.logical_and(alive, rnp.less(n, _MOST_TERMS))

    def go(state: Any) -> Any:
        n, total, term = state
        return n + 1, *step(rnp.astype(n, x.dtype), total, term)

    return while_loop(moves, go, (1, one, one))[1]


@kept
def _fraction(a: Any, x: Any, least: int = 0) -> Any:
    """The continued fraction of the upper function (Lentz), for x above a + 1."""
    tiny, eps = _tiny(x), _eps(x)
    b = x + 1 - a
    c, d = rnp.full_like(b, 1 / tiny), 1 / b

    def step(n: Any, b: Any, c: Any, d: Any, h: Any) -> Any:
        number = rnp.astype(n, x.dtype)
        factor, b = -number * (number - a), b + 2
        d = 1 / _away(factor * d + b, tiny)
        c = _away(b + factor / c, tiny)
        return b, c, d, h * (c * d)

    def moves(state: Any) -> Any:
        return rnp.logical_and(rnp.any(state[5]), rnp.less(state[0], _MOST_TERMS))

    def go(state: Any) -> Any:
        n, b, c, d, h, alive = state
        b, c, d, new = step(n, b, c, d, h)
        # A converged product would drift by rounding while others converge
        still = rnp.logical_or(rnp.greater(rnp.abs(c * d - 1), eps), rnp.less(n, least))
        return n + 1, b, c, d, rnp.where(alive, new, h), rnp.logical_and(alive, still)

    state = (1, b, c, d, d, rnp.ones_like(b, dtype=bool))
    return while_loop(moves, go, state)[4]


def _away(x: Any, tiny: float) -> Any:
    """Return `x`, or `tiny` where it would divide by zero."""
    return rnp.where(rnp.less(rnp.abs(x), tiny), tiny, x)


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


def _gamma_slopes(primals: Any, tangents: Any) -> Any:
    """The tangent of the lower function."""
    (a, x), (da, dx) = primals, tangents
    safe = rnp.where(rnp.greater(x, 0) & rnp.logical_not(rnp.isinf(x)), x, 1)
    by_x = rnp.exp((a - 1) * rnp.log(safe) - safe - gammaln(a))
    by_x = rnp.where(rnp.greater(x, 0), by_x, rnp.where(rnp.equal(a, 1), 1, 0))
    endless = rnp.isinf(a)
    by_x = rnp.where(rnp.isinf(x) | endless, 0, by_x)
    by_order = _slope_by_order(rnp.where(endless, 1, a) * rnp.ones_like(x), x * rnp.ones_like(a))

    # No slope where there is no value; a factor, so that the tangent stays linear
    unknown = rnp.less(x, 0) | rnp.less(a, 0) | (rnp.equal(a, 0) & rnp.equal(x, 0))
    unknown |= (endless & rnp.isinf(x)) | rnp.isnan(x) | rnp.isnan(a)
    known = rnp.where(unknown, rnp.nan, 1.0)
    return known * (by_x * dx + rnp.where(endless, 0, by_order) * da)


def _moved(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return where the fraction serves, and the slopes by `a` without the functions' factors.

    The lower function is a factor times the series, the upper one a factor times the fraction;
    both factors' logarithms have the slope `log(x)` less a digamma function.
    """
    right = rnp.greater(x, a + 1)
    inside = rnp.logical_and(rnp.greater(x, 0), rnp.logical_not(rnp.isinf(x)))
    low = rnp.where(rnp.logical_or(right, rnp.logical_not(inside)), a / 2, x)
    high = rnp.where(rnp.logical_and(right, inside), x, a + 2)
    one = (rnp.ones_like(a),)
    series = jvp(lambda a: _series(a, low), (a,), one)
    fraction = jvp(lambda a: _fraction(a, high, _TERMS_OF_SLOPES), (a,), one)
    below = series[0] * (rnp.log(low) - digamma(a + 1)) + series[1]
    above = fraction[0] * (rnp.log(high) - digamma(a)) + fraction[1]
    return right, below, above


@kept
def _slope(a: Any, x: Any) -> Any:
    right, below, above = _moved(a, x)
    factor = _lower_factor(a, x)
    found = factor * rnp.where(right, -a * above, below)
    return rnp.where(rnp.isinf(x), 0, found)


@custom_jvp
def _slope_by_order(a: Any, x: Any) -> Any:
    """The slope of the lower function by `a`."""
    return _slope(a, x)


@_slope_by_order.defjvp
def _slope_by_order_jvp(primals: Any, tangents: Any) -> Any:
    (a, x), (da, dx) = primals, tangents
    by_a = _second_slope(a, x)
    inside = rnp.logical_and(rnp.greater(x, 0), rnp.logical_not(rnp.isinf(x)))
    safe = rnp.where(inside, x, 1)
    density = rnp.exp((a - 1) * rnp.log(safe) - safe - gammaln(a))
    by_x = rnp.where(inside, density * (rnp.log(safe) - digamma(a)), 0)
    return _slope_by_order(a, x), by_a * da + by_x * dx


@kept
def _second_slope(a: Any, x: Any) -> Any:
    """The slope by `a` of that by `a`."""
    return jvp(lambda a: _slope(a, x), (a,), (rnp.ones_like(a),))[1]


def slope_over_density(a: Any, x: Any) -> Any:
    """The slope of the lower function by `a` over that by `x`, which may be less than any float."""
    right, below, above = _moved(a, x)
    return x * rnp.where(right, -above, below / a)


@_gammainc.defjvp
def _gammainc_jvp(primals: Any, tangents: Any) -> Any:
    return _gammainc(*primals), _gamma_slopes(primals, tangents)


@_gammaincc.defjvp
def _gammaincc_jvp(primals: Any, tangents: Any) -> Any:
    return _gammaincc(*primals), -_gamma_slopes(primals, tangents)


def _beta_fraction(a: Any, b: Any, x: Any, least: int) -> Any:
    """The continued fraction of the incomplete beta function (Lentz)."""
    tiny, eps = _tiny(x), _eps(x)
    one = rnp.ones_like(a + b + x)
    d = 1 / _away(one - (a + b) * x / (a + 1), tiny)

    def half(factor: Any, c: Any, d: Any, h: Any) -> Any:
        d = 1 / _away(1 + factor * d, tiny)
        c = _away(1 + factor / c, tiny)
        return c, d, h * c * d

    def step(m: Any, c: Any, d: Any, h: Any) -> Any:
        even = m * (b - m) * x / ((a - 1 + 2 * m) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 1 + 2 * m))
        return half(odd, *half(even, c, d, h))

    def moves(state: Any) -> Any:
        return rnp.logical_and(rnp.any(state[4]), rnp.less(state[0], _MOST_TERMS))

    def go(state: Any) -> Any:
        m, c, d, h, alive = state
        c, d, new = step(rnp.astype(m, x.dtype), c, d, h)
        changes = rnp.greater(rnp.abs(new - h), eps * rnp.abs(new))
        still = rnp.logical_or(changes, rnp.less(m, least))
        return m + 1, c, d, rnp.where(alive, new, h), rnp.logical_and(alive, still)

    return while_loop(moves, go, (1, one, d, d, rnp.ones_like(d, dtype=bool)))[3]


@function
@kept
def _betainc(a: Any, b: Any, x: Any, least: int = 0) -> Any:
    a, b, x = inexact(a, b, x)
    a, b, x = rnp.broadcast_arrays(a, b, x)
    inside = rnp.logical_and(rnp.greater(x, 0), rnp.less(x, 1))
    safe = rnp.where(inside, x, 0.5)
    swapped = rnp.greater(safe, (a + 1) / (a + b + 2))
    p, q = rnp.where(swapped, b, a), rnp.where(swapped, a, b)
    y = rnp.where(swapped, 1 - safe, safe)
    factor = rnp.exp(p * rnp.log(y) + q * rnp.log1p(-y) - betaln(p, q)) / p
    value = factor * _beta_fraction(p, q, y, least)
    found = rnp.where(swapped, 1 - value, value)
    found = rnp.where(inside, found, rnp.where(rnp.less_equal(x, 0), 0.0, 1.0))
    # All of the function is at 0 where a is 0 or b infinite, at 1 where b is 0 or a infinite
    at_zero = rnp.logical_or(rnp.equal(a, 0), rnp.isinf(b))
    at_one = rnp.logical_or(rnp.equal(b, 0), rnp.isinf(a))
    found = rnp.where(inside & at_zero, 1.0, rnp.where(inside & at_one, 0.0, found))
    valid = rnp.logical_and(rnp.greater_equal(x, 0), rnp.less_equal(x, 1))
    valid &= rnp.greater_equal(a, 0) & rnp.greater_equal(b, 0)
    return rnp.where(valid & rnp.logical_not(at_zero & at_one), found, rnp.nan)


@custom_jvp
def betainc(a: Any, b: Any, x: Any, /) -> Array:
    """The incomplete beta function, over `beta(a, b)`."""
    return shares.in_doubles(lambda a, b, x: shares.beta(a, b, x).lower, a, b, x)


@betainc.defjvp
def _betainc_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, x), (da, db, dx) = primals, tangents
    limit = rnp.isinf(a) | rnp.isinf(b) | rnp.equal(a, 0) | rnp.equal(b, 0)
    a, b = (rnp.where(limit, 1, shape) for shape in (a, b))
    inside = rnp.greater(x, 0) & rnp.less(x, 1) & rnp.logical_not(limit)
    safe = rnp.where(inside, x, 0.5)
    by_x = rnp.exp((a - 1) * rnp.log(safe) + (b - 1) * rnp.log1p(-safe) - betaln(a, b))

    one = rnp.ones_like(a + b + x)
    by_a, by_b = _slopes_by_shapes(a * one, b * one, x * one)
    by_a, by_b = (rnp.where(limit, 0, slope) for slope in (by_a, by_b))
    return betainc(*primals), rnp.where(inside, by_x, 0) * dx + by_a * da + by_b * db


@kept
def _shape_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    one = (rnp.ones_like(x),)
    by_a = jvp(lambda a: _betainc(a, b, x, _TERMS_OF_SLOPES), (a,), one)[1]
    return by_a, _slope_by_b(a, b, x)


@kept
def _slope_by_b(a: Any, b: Any, x: Any) -> Any:
    one = (rnp.ones_like(x),)
    return jvp(lambda b: _betainc(a, b, x, _TERMS_OF_SLOPES), (b,), one)[1]


@kept
def _second_shape_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """The slopes by `a` twice, by both and by `b` twice."""
    one = (rnp.ones_like(x),)
    by_aa, by_ab = jvp(lambda a: _shape_slopes(a, b, x), (a,), one)[1]
    return by_aa, by_ab, jvp(lambda b: _slope_by_b(a, b, x), (b,), one)[1]


@custom_jvp
def _slopes_by_shapes(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """The slopes by `a` and `b`."""
    by_a, by_b = _shape_slopes(a, b, x)
    return by_a, by_b


@_slopes_by_shapes.defjvp
def _slopes_by_shapes_jvp(primals: Any, tangents: Any) -> Any:
    (a, b, x), (da, db, dx) = primals, tangents
    by_aa, by_ab, by_bb = _second_shape_slopes(a, b, x)
    inside = rnp.logical_and(rnp.greater(x, 0), rnp.less(x, 1))
    safe, both = rnp.where(inside, x, 0.5), digamma(a + b)
    density = rnp.exp((a - 1) * rnp.log(safe) + (b - 1) * rnp.log1p(-safe) - betaln(a, b))
    dx = rnp.where(inside, density, 0) * dx
    by_ax = by_aa * da + by_ab * db + (rnp.log(safe) - digamma(a) + both) * dx
    by_bx = by_ab * da + by_bb * db + (rnp.log1p(-safe) - digamma(b) + both) * dx
    return _slopes_by_shapes(a, b, x), (by_ax, by_bx)
