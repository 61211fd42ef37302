"""Shares of the gamma and beta distributions in f64, with their values at the ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.scipy.special.beta_shares import beta_shares, point_of
from rlx.scipy.special.gamma_shares import Shares, gamma_shares
from rlx.tracing.apply import emit, function, inexact
from rlx.tracing.kept_traces import kept
from rlx.tracing.widths import wide_types


@function
def in_doubles(formula: Callable[..., Any], *numbers: Any) -> Any:
    """Return `formula` of `numbers` in f64, rounded once to their own floating type."""
    narrow = inexact(*numbers)
    with wide_types():
        shaped = rnp.broadcast_arrays(*(emit(ops.cast, x, to=DType.F64) for x in narrow))
        return emit(ops.cast, formula(*shaped), to=narrow[0].value.dtype)


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
    all_of_it, nothing = Shares(1.0, 0.0, 0.0, -np.inf), Shares(0.0, 1.0, -np.inf, 0.0)
    return Shares(
        *(
            rnp.where(valid, rnp.where(inside, share, rnp.where(is_below, high, low)), rnp.nan)
            for share, high, low in zip(shares, all_of_it, nothing, strict=True)
        )
    )
