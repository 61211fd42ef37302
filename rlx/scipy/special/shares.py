"""Shares of the gamma and beta distributions and their slopes in f64, with those at the ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.scipy.special import beta_slopes as of_beta
from rlx.scipy.special import gamma_slopes as of_gamma
from rlx.scipy.special.beta_shares import beta_shares, point_of
from rlx.scipy.special.gamma_shares import gamma_shares
from rlx.scipy.special.scaled import Shares
from rlx.tracing.apply import emit, function, inexact
from rlx.tracing.kept_traces import kept
from rlx.tracing.pytree import tree_map
from rlx.tracing.widths import wide_types


@function
def in_doubles(formula: Callable[..., Any], *numbers: Any) -> Any:
    """Return `formula` of `numbers` in f64, rounded once to their own floating type.

    They are broadcast; a formula may return a tree.
    """
    narrow = inexact(*numbers)
    with wide_types():
        shaped = rnp.broadcast_arrays(*(emit(ops.cast, x, to=DType.F64) for x in narrow))
        own = narrow[0].value.dtype
        return tree_map(lambda wide: emit(ops.cast, wide, to=own), formula(*shaped))


@kept
def gamma(a: Any, x: Any) -> Shares:
    """Return the shares of order `a` below and above `x`."""
    endless = rnp.isinf(a) & rnp.greater(a, 0)  # all of the function is at infinity
    inside = rnp.greater(x, 0) & rnp.logical_not(rnp.isinf(x) | endless) & rnp.greater(a, 0)
    found = gamma_shares(rnp.where(inside, a, 1.0), rnp.where(inside, x, 1.0))
    # All of the function of order 0 is at 0 itself
    none = rnp.equal(a, 0) & rnp.greater(x, 0)
    is_below = none | (rnp.isinf(x) & rnp.logical_not(endless))
    wrong = rnp.less(x, 0) | (rnp.less_equal(a, 0) & rnp.logical_not(none))
    wrong |= (endless & rnp.isinf(x)) | rnp.isnan(x) | rnp.isnan(a)
    return at_ends(found, inside, is_below, rnp.logical_not(wrong))


@kept
def beta(a: Any, b: Any, x: Any) -> Shares:
    """Return the shares of the parameters `a` and `b` below and above `x`."""
    at_zero = rnp.equal(a, 0) | rnp.isinf(b)
    at_one = rnp.equal(b, 0) | rnp.isinf(a)
    valid = rnp.greater_equal(x, 0) & rnp.less_equal(x, 1)
    valid &= rnp.greater_equal(a, 0) & rnp.greater_equal(b, 0) & rnp.logical_not(at_zero & at_one)
    inside = valid & rnp.greater(x, 0) & rnp.less(x, 1)
    regular = inside & rnp.logical_not(at_zero | at_one)
    order, other, point = (rnp.where(regular, each, 0.5) for each in (a, b, x))
    found = beta_shares(order, other, point_of(point))
    # All of the function is at 0 where a is 0 or b infinite, at 1 where b is 0 or a infinite
    is_below = rnp.where(inside, at_zero, rnp.greater_equal(x, 1))
    return at_ends(found, regular, is_below, valid)


def at_ends(shares: Shares, inside: Any, is_below: Any, valid: Any) -> Shares:
    """Return `shares` inside; where not, all is below or nothing, and NaN is where invalid."""
    all_of_it = Shares(1.0, 0.0, 0.0, -np.inf)
    nothing = all_of_it.reversed()
    return Shares(
        *(
            rnp.where(valid, rnp.where(inside, share, rnp.where(is_below, high, low)), rnp.nan)
            for share, high, low in zip(shares, all_of_it, nothing, strict=True)
        )
    )


@kept
def gamma_slopes(a: Any, x: Any) -> tuple[Any, Any]:
    """Return the slopes of the lower share of order `a` by `a` and `x`, one-sided at the ends."""
    known, inside, order, point = _gamma_points(a, x)
    by_a, by_x = of_gamma.slopes(order, point)
    at_origin = rnp.where(rnp.equal(x, 0), _power_of_0(a - 1), 0.0)
    return known * rnp.where(inside, by_a, 0.0), known * rnp.where(inside, by_x, at_origin)


@kept
def second_gamma_slopes(a: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the slopes by `a` twice, by both and by `x` twice."""
    known, inside, order, point = _gamma_points(a, x)
    by_aa, by_ax, by_xx = of_gamma.second_slopes(order, point)
    at_origin = rnp.equal(x, 0)
    mixed = rnp.where(at_origin & rnp.less_equal(a, 1), -np.inf, 0.0)
    bend = rnp.where(rnp.equal(a, 1), -1.0, (a - 1) * _power_of_0(a - 2))
    bend = rnp.where(at_origin & rnp.isfinite(a), bend, 0.0)
    return (
        known * rnp.where(inside, by_aa, 0.0),
        known * rnp.where(inside, by_ax, mixed),
        known * rnp.where(inside, by_xx, bend),
    )


def _gamma_points(a: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Return 1 where there is a value, else NaN; where slopes are computed; and at what."""
    unknown = rnp.less(x, 0) | rnp.less(a, 0) | (rnp.equal(a, 0) & rnp.equal(x, 0))
    unknown |= (rnp.isinf(a) & rnp.isinf(x)) | rnp.isnan(x) | rnp.isnan(a)
    inside = rnp.greater(x, 0) & rnp.isfinite(x) & rnp.isfinite(a) & rnp.greater_equal(a, 0)
    order, point = rnp.where(inside, a, 1.0), rnp.where(inside, x, 1.0)
    return rnp.where(unknown, rnp.nan, 1.0), inside, order, point


@kept
def beta_slopes(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return the slopes of the lower share by `a`, `b` and `x`, one-sided at the ends."""
    known, inside, *point = _beta_points(a, b, x)
    by_a, by_b, by_x = of_beta.slopes(*point)
    is_end, _, c, d = _ends(a, b, x)
    at_end = rnp.where(is_end, _power_of_0(c - 1) * d, 0.0)
    return (
        known * rnp.where(inside, by_a, 0.0),
        known * rnp.where(inside, by_b, 0.0),
        known * rnp.where(inside, by_x, at_end),
    )


@kept
def second_beta_slopes(a: Any, b: Any, x: Any) -> tuple[tuple[Any, ...], ...]:
    """Return the slopes of those by `a`, `b` and `x` by `a`, `b` and `x`."""
    known, inside, *point = _beta_points(a, b, x)
    found = of_beta.second_slopes(*point)
    by_aa, by_ab, by_bb = (known * rnp.where(inside, slope, 0.0) for slope in found[:3])
    is_end, is_one, c, d = _ends(a, b, x)
    by_c = rnp.where(is_end & rnp.less_equal(c, 1), -np.inf, 0.0)
    by_d = rnp.where(is_end, _power_of_0(c - 1), 0.0)
    bend = (c - 1) * _power_of_0(c - 2) * d * (d + 1)
    bend = rnp.where(is_end, rnp.where(rnp.equal(c, 1), d * (1 - d), bend), 0.0)
    ends = rnp.where(is_one, by_d, by_c), rnp.where(is_one, by_c, by_d), bend
    ends = *ends[:2], rnp.where(is_one, -bend, bend)
    by_ax, by_bx, by_xx = (
        known * rnp.where(inside, slope, end) for slope, end in zip(found[3:], ends, strict=True)
    )
    return (by_aa, by_ab, by_ax), (by_ab, by_bb, by_bx), (by_ax, by_bx, by_xx)


def _beta_points(a: Any, b: Any, x: Any) -> tuple[Any, ...]:
    """Return 1 where there is a value, else NaN; where slopes are computed; and at what."""
    valid = rnp.greater_equal(x, 0) & rnp.less_equal(x, 1)
    valid &= rnp.greater_equal(a, 0) & rnp.greater_equal(b, 0)
    valid &= rnp.logical_not((rnp.equal(a, 0) | rnp.isinf(b)) & (rnp.equal(b, 0) | rnp.isinf(a)))
    inside = valid & rnp.greater(x, 0) & rnp.less(x, 1) & rnp.isfinite(a) & rnp.isfinite(b)
    a, b, x = (rnp.where(inside, each, 0.5) for each in (a, b, x))
    return rnp.where(valid, 1.0, rnp.nan), inside, a, b, point_of(x)


def _ends(a: Any, b: Any, x: Any) -> tuple[Any, Any, Any, Any]:
    """Return where `x` is 0 or 1, where it is 1, and the parameters, first that of the end."""
    is_one = rnp.equal(x, 1)
    is_end = (rnp.equal(x, 0) | is_one) & rnp.isfinite(a) & rnp.isfinite(b)
    return is_end, is_one, rnp.where(is_one, b, a), rnp.where(is_one, a, b)


def _power_of_0(exponent: Any) -> Any:
    return rnp.power(rnp.zeros_like(exponent), exponent)
