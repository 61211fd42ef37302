"""Gauss's hypergeometric function of real arguments: a series, continued by its equation.

Numbers of formulas are those of the Digital Library of Mathematical Functions, dlmf.nist.gov/15.
Below zero, Pfaff's transformation leads to [0, 1). From 1/2 on, the function is continued towards
1 by Taylor series of its differential equation, each over half of the way that is left. So there is
no difference of gamma functions, whose digits cancel where `c - a - b` is near an integer. Where
nothing but the first power of the distance is left, the equation's solution is a formula.
"""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.numpy.polynomials import polyval
from rlx.runtime.arrays import Array
from rlx.scipy.special.elementary import gammaln, gammasgn
from rlx.tracing.apply import function, inexact
from rlx.tracing.kept_traces import kept
from rlx.transforms.control import while_loop
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.differentiate import jvp

_MOST_TERMS = 5000
_PHI = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 1 / 2, 1.0)
"""Of `(exp(y) - 1) / y`, the highest power first."""


@function
def hyp2f1(a: Any, b: Any, c: Any, z: Any, /) -> Array:
    """The hypergeometric function 2F1 of real arguments (15.2.1, continued to all z below 1).

    Of 0 or a negative integer as `a` or `b` it is a polynomial, at any z, unless `c` is another one
    nearer to 0; all else at such `c` is infinite. At 1 it has Gauss's limit or is infinite, and so
    after it, unless 15.8.1 makes a polynomial of it. By z it has slopes of any order; those by
    `a`, `b` and `c`, of first order in both modes, of others in forward mode, end at 1 (NaN).
    docs/numerics.md has bounds of the errors.
    """
    return _hyp2f1(*inexact(a, b, c, z))


@custom_jvp
def _hyp2f1(a: Any, b: Any, c: Any, z: Any) -> Any:
    return _value(a, b, c, z)


@_hyp2f1.defjvp
def _hyp2f1_jvp(primals: Any, tangents: Any) -> Any:
    """By z 15.5.1; by the others the slopes of what is computed below 1, or at 1."""
    one = rnp.ones_like(primals[0] + primals[1] + primals[2] + primals[3])
    (a, b, c, z), (da, db, dc, dz) = (x * one for x in primals), tangents
    by_z = a * b / c * _hyp2f1(a + 1, b + 1, c + 1, z)
    converges = rnp.greater(c - a - b, 0) & rnp.logical_not(_is_pole(c - a) | _is_pole(c - b))
    known = rnp.less(z, 1) | (rnp.equal(z, 1) & converges)
    known = known & rnp.logical_not(_is_pole(c))
    given = [rnp.where(known, x, safe) for x, safe in ((a, 0.25), (b, 0.25), (c, 1), (z, 0))]

    def by(place: int, tangent: Any) -> Any:
        def moved(x: Any) -> Any:
            return _to_one(*(x if i == place else y for i, y in enumerate(given)))

        slope = jvp(moved, (given[place],), (one,))[1]
        # What does not move has no slope: 0 stays 0, all else is infinity less infinity
        most = float(rnp.finfo(one.dtype).max)
        unknown = tangent * one * most * most + tangent * -one * most * most
        return rnp.where(known, slope * tangent, unknown)

    return _hyp2f1(*primals), by_z * dz + by(0, da) + by(1, db) + by(2, dc)


@kept
def _to_one(a: Any, b: Any, c: Any, z: Any) -> Any:
    """The function for z up to 1, where there is a limit; `c` is no pole."""
    ends = rnp.equal(z, 1)
    one = [rnp.where(ends, x, safe) for x, safe in ((a, 0.25), (b, 0.25), (c, 1))]
    return rnp.where(ends, _at_one(*one), _within(a, b, c, rnp.where(ends, 0, z)))


def _is_pole(x: Any) -> Any:
    """True for 0 and negative integers."""
    return rnp.less_equal(x, 0) & rnp.equal(x, rnp.floor(x))


@function
@kept
def _value(a: Any, b: Any, c: Any, z: Any) -> Any:
    a, b, c, z = rnp.broadcast_arrays(*inexact(a, b, c, z))
    degree, turned, d = _degree(a, b), _degree(c - a, c - b), c - a - b
    ends = rnp.isfinite(degree)
    inside = rnp.less(z, 1) & rnp.greater(z, -rnp.inf)
    # 15.8.1 makes another polynomial of it, times a power of 1 - z that is real where it is whole
    turns = rnp.isfinite(turned) & rnp.logical_not(ends) & rnp.not_equal(z, 1)
    turns = turns & (inside | rnp.equal(d, rnp.floor(d)))
    p, q = rnp.where(turns, c - a, a), rnp.where(turns, c - b, b)
    power = rnp.power(rnp.where(turns, 1 - z, 1), rnp.where(turns, d, 0))
    polynomial = power * _polynomial(p, q, c, z, rnp.where(turns, turned, degree))
    usual = inside & rnp.logical_not(_is_pole(c))
    found = _within(a, b, rnp.where(usual, c, 1), rnp.where(usual, z, 0))
    beyond = rnp.where(rnp.equal(z, 1), _at_one(a, b, c), rnp.inf)
    found = rnp.where(inside, found, rnp.where(rnp.equal(z, -rnp.inf), rnp.nan, beyond))
    found = rnp.where(ends | turns, polynomial, found)
    found = rnp.where(_is_pole(c) & rnp.logical_not(degree <= -c), rnp.inf, found)
    found = rnp.where(rnp.equal(z, 0) | rnp.equal(a, 0) | rnp.equal(b, 0), 1, found)
    return rnp.where(rnp.isnan(a + b + c + z), rnp.nan, found)


def _degree(a: Any, b: Any) -> Any:
    """Return the power of z after which the series ends, infinite if it does not."""
    return rnp.minimum(*(rnp.where(_is_pole(x), -x, rnp.inf) for x in (a, b)))


@kept
def _at_one(a: Any, b: Any, c: Any) -> Any:
    """Gauss's theorem, 15.4.20; where it does not hold, the infinity of 15.4.21 and 15.4.23."""
    d = c - a - b
    below = gammaln(c - a) + gammaln(c - b)
    signs = gammasgn(c) * gammasgn(d) * gammasgn(c - a) * gammasgn(c - b)
    found = signs * rnp.exp(gammaln(c) + gammaln(d) - below)
    found = rnp.where(_is_pole(c - a) | _is_pole(c - b), 0, found)
    return rnp.where(rnp.greater(d, 0), found, rnp.inf * gammasgn(c) * gammasgn(a) * gammasgn(b))


def _ratio(a: Any, b: Any, c: Any, k: Any) -> Any:
    """Return the ratio of a term's factor to that before it."""
    return (a + k) / (c + k) * ((b + k) / (k + 1))


def _polynomial(a: Any, b: Any, c: Any, z: Any, degree: Any) -> Any:
    """Find the polynomial from those of lower degrees, 15.5.11: its terms would cancel."""
    degree = rnp.where(rnp.isinf(degree), 0, degree)
    upper = rnp.where(rnp.equal(a, -degree), b, a)  # the one that does not end it

    def moves(state: Any) -> Any:
        return rnp.any(rnp.less(state[0], degree)) & rnp.less(state[0], _MOST_TERMS)

    def go(state: Any) -> Any:
        n, before, found = state
        k = rnp.astype(n, z.dtype)
        counts = rnp.less(k, degree)  # after it, c may be a pole
        following = (2 * k + c - (upper + k) * z) * found + k * (z - 1) * before
        following = following / rnp.where(counts, c + k, 1)
        return n + 1, rnp.where(counts, found, before), rnp.where(counts, following, found)

    endless = rnp.isinf(z) & rnp.greater(degree, 0)
    z = rnp.where(endless, rnp.sign(z) * 1e4, z)
    one = rnp.ones_like(z)
    found = while_loop(moves, go, (0, one, one))[2]
    return rnp.where(endless, rnp.inf, 1) * found


# Between 0 and 1


@kept
def _within(a: Any, b: Any, c: Any, z: Any) -> Any:
    """The function for z below 1; `c` is no pole."""
    d, under = c - a - b, rnp.less(z, 0)
    low, high = rnp.minimum(a, b), rnp.maximum(a, b)
    positive = rnp.greater(low, 0) & rnp.greater(c, 0)
    turns = rnp.less(d, 0) & rnp.logical_not(positive)
    # 15.8.1, both forms, after which the function is finite at 1, or its terms are positive
    p = rnp.where(under, low, rnp.where(turns, c - a, a))
    q = rnp.where(under, c - high, rnp.where(turns, c - b, b))
    power = rnp.where(under, -low, rnp.where(turns, d, 0))
    near = rnp.where(under, z / (z - 1), z)
    rest = rnp.where(under, 1 / (1 - z), 1 - z)
    far = rnp.greater(near, 0.5)
    begin = rnp.where(far, 0.5, near)
    value, slope = _series(p, q, c, begin)
    found = rnp.where(far, _continued(p, q, c, rnp.where(far, rest, 0.5), value, slope), value)
    return found * rnp.power(1 - z, power)


def _series(a: Any, b: Any, c: Any, x: Any) -> tuple[Any, Any]:
    """The function and its slope at `x` between 0 and 1/2 (15.2.1).

    It runs until a bound of the terms is small, none of whose factors is 0: of whole numbers the
    series may end, and its slopes by them go on.
    """
    eps = float(rnp.finfo(x.dtype).eps)
    least = rnp.max(-c, initial=0.0) + 2  # a term may be large yet where c is near a pole

    def moves(state: Any) -> Any:
        n, bound, size, *_ = state
        alive = rnp.any(rnp.greater(bound, size * eps / 64)) | rnp.less(n, least)
        return alive & rnp.less(n, _MOST_TERMS)

    def go(state: Any) -> Any:
        n, bound, size, term, total, slope = state
        k = rnp.astype(n, x.dtype)
        above = rnp.maximum(rnp.abs(a + k), 1), rnp.maximum(rnp.abs(b + k), 1)
        bound = bound * above[0] * above[1] / (rnp.abs(c + k) * (k + 1)) * rnp.maximum(x, 1e-30)
        factor = term * _ratio(a, b, c, k)
        slope = slope + factor * (k + 1)
        term = factor * x
        return n + 1, bound, size + bound, term, total + term, slope

    one = rnp.ones_like(x)
    *_, total, slope = while_loop(moves, go, (0, one, one, one, one, rnp.zeros_like(x)))
    return total, slope


def _continued(a: Any, b: Any, c: Any, t: Any, value: Any, slope: Any) -> Any:
    """Continue the function from 1/2 to `1 - t`, by steps to half of the distance from 1."""
    least = float(rnp.finfo(t.dtype).eps) / 4
    stop = rnp.maximum(t, least)

    def moves(state: Any) -> Any:
        return rnp.any(rnp.greater(state[0], stop))

    def go(state: Any) -> Any:
        now, value, slope = state
        to = rnp.maximum(stop, now / 2)
        return to, *_stepped(a, b, c, now, now - to, value, slope)

    now, value, slope = while_loop(moves, go, (rnp.full_like(t, 0.5), value, slope))
    # Of t * F'' = (1 - d) * -F', which is what the equation becomes, F is a power of t or its log
    log = rnp.log(t / now)
    y = (c - a - b) * log
    small = rnp.less(rnp.abs(y), 0.02)
    safe = rnp.where(small, 1, y)
    phi = rnp.where(small, polyval(rnp.asarray(_PHI, dtype=t.dtype), y), rnp.expm1(safe) / safe)
    return value - slope * now * log * phi


def _stepped(a: Any, b: Any, c: Any, t: Any, step: Any, value: Any, slope: Any) -> tuple[Any, Any]:
    """Return the function and its slope at `1 - t + step` by the Taylor series of 15.10.1."""
    w, tall = 1 - t, rnp.max(a + b - c, initial=0.0)
    terms = (80 if step.dtype == rnp.float64 else 40) + 4 * tall
    before = step / (w * t)

    def moves(state: Any) -> Any:
        return rnp.less(state[0], terms) & rnp.less(state[0], _MOST_TERMS)

    def go(state: Any) -> Any:
        n, last, term, total, slopes = state
        k = rnp.astype(n, step.dtype)
        along = ((t - w) * k + c - (a + b + 1) * w) / (k + 2)
        across = (a + k) * (b + k) / ((k + 1) * (k + 2)) * step
        following = before * (across * last - along * term)
        return n + 1, term, following, total + following, slopes + (k + 2) * following

    # Terms are over `step`, which may be 0; the first one is the value
    second = (a * b * value - (c - (a + b + 1) * w) * slope) * before / 2
    begin = (1, slope, second, slope + second, slope + 2 * second)
    _, _, _, total, slopes = while_loop(moves, go, begin)
    return value + step * total, slopes
