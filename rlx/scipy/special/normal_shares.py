"""Probabilities of intervals of the normal distribution, with small relative errors, in f64.

That of an interval on one side of 0 is `exp(e) m`, with an exponent that is a pair of doubles: a
difference of tails, by Mills' ratio, or an integral by Gauss where both are almost equal.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.elementary import erf
from rlx.scipy.special.faddeeva import scaled_erfc
from rlx.scipy.special.scaled import Scaled, Shares, shares_of
from rlx.scipy.special.shares import at_ends
from rlx.tracing.kept_traces import kept
from rlx.transforms.control import fori_loop

_ROOT_HALF = math.sqrt(0.5)
_LOG_ROOT_2_PI = (0.9189385332046728, -3.878294158067242e-17)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_DENSITY = (0.3989422804014327, -2.49232720227773e-17)
"""The density at 0."""
_NEAR, _TERMS = 4.5, 64
_MOST = 1e150
"""Larger numbers have no square, and nothing is beyond them."""


def density(x: Any) -> Scaled:
    """Return the normal density."""
    x = rnp.minimum(rnp.abs(x), _MOST)
    square = pairs.two_product(x, x)
    half = pairs.Pair(-0.5 * square.high, -0.5 * square.low)
    return Scaled(half - pairs.Pair(*_LOG_ROOT_2_PI), rnp.ones_like(x))


def between(low: Any, high: Any, width: Any) -> Scaled:
    """Return the probability from `low` to `high`, above it by `width`; both may be infinite."""
    is_left = rnp.less_equal(high, 0)
    near, far = rnp.where(is_left, -high, low), rnp.where(is_left, -low, high)
    around = rnp.less(near, 0)
    near, far = rnp.where(around, 0.0, near), rnp.where(around, 1.0, far)
    width = rnp.where(around, 1.0, width)
    endless = rnp.greater(far, _MOST)
    near, end = rnp.minimum(near, _MOST), rnp.where(endless, near + 1, far)
    width = rnp.where(endless, 1.0, width)
    depth = width * (0.5 * (near + end))
    beyond = rnp.where(endless, 0.0, rnp.exp(-depth) * _mills(end))
    is_short = rnp.less(depth, 1) & rnp.logical_not(endless)
    factor = rnp.where(is_short, _integral(near, width, is_short), _mills(near) - beyond)
    one = density(near)
    both = 0.5 * (_half(rnp.where(around, high, 1.0)) + _half(rnp.where(around, -low, 1.0)))
    return Scaled(
        pairs.Pair(*(rnp.where(around, 0.0, each) for each in one.exponent)),
        rnp.where(around, both, factor),
    )


def _half(x: Any) -> Any:
    return erf(x * _ROOT_HALF)


def from_zero(x: Any) -> pairs.Pair:
    """Return the probability from 0 to positive `x`, with an absolute error below 1e-21.

    By its power series (DLMF 7.6.1), whose cancellation costs five of the thirty digits of a pair.
    """
    near = rnp.less(x, _NEAR)
    number = rnp.where(near, x, 1.0)
    half = pairs.two_product(number, 0.5 * number)

    def term(i: Any, state: Any) -> Any:
        n = rnp.astype(i, x.dtype) + 1
        power = pairs.Pair(*state[:2]) * half / -n
        return *power, *(pairs.Pair(*state[2:]) + power / (2 * n + 1))

    one, zero = rnp.ones_like(x), rnp.zeros_like(x)
    found = pairs.Pair(*fori_loop(0, _TERMS, term, (one, zero, one, zero))[2:])
    found = found * number * pairs.Pair(*_DENSITY)
    far = rnp.where(near, _NEAR, rnp.minimum(x, _MOST))
    tail = density(far).value() * _mills(far)
    rest = pairs.two_sum(0.5, -tail)
    return pairs.Pair(*(rnp.where(near, *each) for each in zip(found, rest, strict=True)))


def _mills(x: Any) -> Any:
    """Return the tail over the density."""
    return math.sqrt(math.pi / 2) * scaled_erfc(x * _ROOT_HALF)


def _integral(near: Any, width: Any, is_short: Any) -> Any:
    """Return the integral of the density over that of `near`."""
    near, width = rnp.where(is_short, near, 0.0), rnp.where(is_short, width, 1.0)
    total: Any = 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        past = width * (0.5 + 0.5 * float(node))
        total = total + float(weight) * rnp.exp(-past * (near + 0.5 * past))
    return 0.5 * width * total


def shares_between(a: Any, x: Any, b: Any, past: Any, rest: Any) -> Shares:
    """Return the shares below and above `x` of the interval from `a` to `b`.

    `x` is `past` above `a`, and `rest` below `b`.
    """
    whole = between(a, b, past + rest)
    return shares_of(between(a, x, past).over(whole), between(x, b, rest).over(whole))


def between_all(a: Any, x: Any, b: Any) -> Shares:
    """Return the shares below and above `x` of the interval from `a` to `b`."""
    return shares_between(a, x, b, x - a, b - x)


@kept
def truncnorm_shares(a: Any, b: Any, x: Any) -> Shares:
    """Return the shares of the truncated normal distribution below and above `x`."""
    valid = rnp.less(a, b) & rnp.equal(x, x)
    inside = valid & rnp.greater(x, a) & rnp.less(x, b)
    low, high, point = (rnp.where(inside, *e) for e in ((a, -1.0), (b, 1.0), (x, 0.0)))
    found = between_all(low, point, high)
    return at_ends(found, inside, rnp.greater_equal(x, b), valid)
