"""Shares of Student's t distribution and their slopes in f64, by the side that is accurate."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx.scipy.special import beta_slopes, pairs
from rlx.scipy.special.beta_function import digamma_rise
from rlx.scipy.special.beta_shares import Point, beta_front, beta_shares
from rlx.scipy.special.scaled import Scaled, Shares
from rlx.scipy.special.shares import at_ends
from rlx.tracing.kept_traces import kept
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.differentiate import jvp

_FAR = 1e100
"""From here on the tail is a power."""
_ALMOST_NORMAL = 1e7
"""Degrees of freedom from which slopes by them are an expansion in their inverse."""


def _point(df: Any, z: Any) -> tuple[Point, Any]:
    """Return `df / (df + z**2)`, and the logarithm of `df + z**2`."""
    z = rnp.clip(rnp.abs(z), 1e-145, _FAR)
    square = pairs.two_product(z, z)
    whole = square + df
    return Point(pairs.Pair(df, 0.0) / whole, square / whole), rnp.log(whole.high)


def t_halves(df: Any, z: Any) -> Shares:
    """Return the shares from 0 to positive `z` and beyond, and their logarithms."""
    df = pairs.bounded(df)
    half = rnp.full_like(df, 0.5)
    tail, inside, log_tail, log_inside = beta_shares(df / 2, half, _point(df, z)[0])
    log_2 = math.log(2.0)
    beyond = Scaled(_past_far(df, z), 0.5 * tail)
    log_beyond = beyond.exponent.high + (log_tail - log_2)
    return Shares(0.5 * inside, beyond.value(), log_inside - log_2, log_beyond)


def _past_far(df: Any, z: Any) -> pairs.Pair:
    """Return the logarithm of the power of `z` that the tail is, for far `z`."""
    z = pairs.bounded(rnp.maximum(rnp.abs(z), _FAR))
    return (pairs.log(z) - pairs.log(rnp.full_like(z, _FAR))) * -df


@kept
def t_shares(df: Any, z: Any) -> Shares:
    """Return the shares below and above `z`."""
    valid, regular, degrees, number = _regular(df, z)
    inside, tail, _, log_tail = t_halves(degrees, number)
    most = rnp.where(rnp.less(tail, 0.25), 1 - tail, 0.5 + inside)
    found = Shares(tail, most, log_tail, rnp.log1p(-tail)).swapped(rnp.greater_equal(z, 0))
    return at_ends(found, regular, rnp.greater(z, 0), valid)


def _regular(df: Any, z: Any) -> tuple[Any, Any, Any, Any]:
    """Return where there is a value, where it is computed, and at what."""
    valid = rnp.greater(df, 0) & rnp.equal(z, z)
    regular = valid & rnp.isfinite(z) & rnp.less(df, 1e300)
    return valid, regular, rnp.where(regular, df, 1.0), rnp.where(regular, z, 1.0)


def t_density(df: Any, z: Any) -> Any:
    """Return the density at finite `z`, for positive `df`."""
    df = pairs.bounded(df)
    at, log_whole = _point(df, z)
    at = at._replace(y=pairs.Pair(rnp.ones_like(df), rnp.zeros_like(df)))
    half = rnp.full_like(df, 0.5)
    # x**a y**b / beta(a, b) / a / b with y = 1, whose power of total / b is divided out
    exponent, factor = beta_front(df / 2, half, at)
    log_factor = exponent.high + (exponent.low + rnp.log(factor * df / 4)) - 0.5 * log_whole
    past = _past_far(df, z).high
    return rnp.exp(log_factor + past + rnp.where(rnp.less(past, 0), past / df, 0.0))


@custom_jvp
def t_slopes(df: Any, z: Any) -> tuple[Any, Any]:
    """Return the slopes of the lower share by `df` and `z`, f64."""
    by_df, by_z = _slopes(df, z)
    return by_df, by_z


@t_slopes.defjvp
def _t_slopes_jvp(primals: Any, tangents: Any) -> Any:
    by_df, by_both, by_z = _second_slopes(*primals)
    d_df, dz = tangents
    return t_slopes(*primals), (by_df * d_df + by_both * dz, by_both * d_df + by_z * dz)


@kept
def _slopes(df: Any, z: Any) -> tuple[Any, Any]:
    valid, regular, degrees, number = _regular(df, z)
    large, few, many, near = _split(degrees, number)
    at = _point(few, number)[0]
    by_a, _, by_x = beta_slopes.slopes(few / 2, rnp.full_like(few, 0.5), at)
    by_df = -0.25 * by_a - 0.5 * by_x * (at.x.high * at.y.high / few)
    by_df = rnp.where(rnp.less(number, 0), -by_df, by_df)
    by_df = rnp.where(large, _normal(near) * _expansion(many, near), by_df)
    known, density = rnp.where(valid, 1.0, rnp.nan), t_density(degrees, number)
    return known * rnp.where(regular, by_df, 0.0), known * rnp.where(regular, density, 0.0)


@kept
def _second_slopes(df: Any, z: Any) -> tuple[Any, Any, Any]:
    valid, regular, degrees, number = _regular(df, z)
    large, few, many, near = _split(degrees, number)
    at = _point(few, number)[0]
    half, x, y = rnp.full_like(few, 0.5), at.x.high, at.y.high
    _, _, by_x = beta_slopes.slopes(few / 2, half, at)
    by_aa, _, _, by_ax, _, by_xx = beta_slopes.second_slopes(few / 2, half, at)
    rise = x * y / few
    twice = 0.25 * by_aa + by_ax * rise + by_xx * rise * rise - 2 * by_x * rise * x / few
    twice = rnp.where(rnp.less(number, 0), 0.5, -0.5) * twice
    density = t_density(degrees, number)
    ratio = number / few * number
    of_log = 0.5 * (digamma_rise(few / 2, half) - 1 / few - rnp.log1p(ratio))
    both = density * (of_log + 0.5 * (few + 1) / few * (ratio / (1 + ratio)))
    one = (rnp.ones_like(near),)
    sums, by_many = jvp(lambda n: _expansion(n, near), (many,), one)
    by_near = jvp(lambda z: _expansion(many, z), (near,), one)[1]
    found = (
        rnp.where(large, _normal(near) * by_many, twice),
        rnp.where(large, _normal(near) * (by_near - near * sums), both),
        -density * ((degrees + 1) / (degrees + number * number) * number),
    )
    known = rnp.where(valid, 1.0, rnp.nan)
    by_df, by_both, by_z = (known * rnp.where(regular, each, 0.0) for each in found)
    return by_df, by_both, by_z


def _split(df: Any, z: Any) -> tuple[Any, Any, Any, Any]:
    """Return where slopes are an expansion, and the numbers for the formulas of both cases."""
    large = rnp.greater(df, _ALMOST_NORMAL)
    many, few = rnp.where(large, df, _ALMOST_NORMAL), rnp.where(large, 1.0, df)
    return large, few, many, rnp.clip(z, -40.0, 40.0)


def _normal(z: Any) -> Any:
    return rnp.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


def _expansion(n: Any, z: Any) -> Any:
    """Return the slope by `n` over the normal density, Abramowitz and Stegun 26.7.8 by `n`."""
    w = z * z
    third = w * (w * (w * (w * (w - 11) + 14) + 6) - 3) - 15
    second = w * (w * (3 * w - 7) - 5) - 3
    return z * ((w + 1) / 4 + (second / 48 + third / 128 / n) / n) / n / n
