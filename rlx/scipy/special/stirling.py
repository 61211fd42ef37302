"""Gamma functions next to Stirling's formula, and near 1, with small relative errors, in f64."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import rlx.numpy as rnp
from rlx.scipy.special import pairs
from rlx.scipy.special.elementary import _EULER, _ZETA

STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip

_TWO_PI = (6.283185307179586, 2.4492935982947064e-16)


_PAST_ROOT = (
    7.541166252875723e-4, 1.7236295716332268e-3, 1.213937694018118e-3, 2.7401320672102054e-4,
    2.9785098998158717e-5, -2.8812799749817694e-7, -6.768156845898208e-7, -2.825172049076427e-7,
    -1.1390221481942853e-7, -2.8664707438509067e-8, -7.171191077665245e-9, -2.318414020192983e-9,
    -4.564898581618955e-10, -1.2047906590079773e-10, -4.468928180107781e-11,
    -2.1691110324657025e-12, -2.008896299743132e-12, -1.3568791321063794e-12,
)  # fmt: skip
"""What is past 1 of `root_of_gamma(a) / sqrt(2 pi (a + 1/6))` for `a` from 1 up.

From the lowest degree up, in `3.5 / (a + 3/4) - 1`, by Chebyshev points; it is off by 1.3e-18.
"""


class Root(NamedTuple):
    """The number `sqrt(2 pi square) (1 + past) scale`."""

    square: pairs.Pair
    past: Any
    scale: Any


def root_of_gamma(a: Any) -> Any:
    """Return `gamma(a + 1) exp(a) / a**a`, which is almost `sqrt(2 pi a)`, for positive `a`."""
    square, past, scale = root_parts(pairs.Pair(a, 0.0))
    root = rnp.sqrt(2 * math.pi * square.high)
    return (root + root * past) * scale


def root_parts(a: pairs.Pair) -> Root:
    """Return the parts of `root_of_gamma(a)`, of which the first two are almost exact."""
    is_small = rnp.less(a.high, 1)
    above = rnp.where(is_small, a.high + 1, a.high)
    past = polynomial(_PAST_ROOT, 3.5 / (above + 0.75) - 1)
    # gamma(a + 1) is gamma(a + 2) / (a + 1)
    low = rnp.clip(a.high, 1e-300, 1)
    scale = rnp.where(is_small, rnp.exp(low * rnp.log1p(1 / low) - 1), 1.0)
    return Root(a + rnp.where(is_small, 7 / 6, 1 / 6), past, scale)


def root_of_gammas(total: pairs.Pair, a: Any, b: Any) -> Any:
    """Return `root_of_gamma(a + b) / root_of_gamma(a) / root_of_gamma(b)`.

    It is one root of a quotient; what its square has lost is added, so that few roundings enter.
    """
    nothing = rnp.zeros_like(a)
    stack = pairs.stacked(total, pairs.Pair(a, nothing), pairs.Pair(b, nothing))
    squares, (of_total, of_a, of_b), scales = root_parts(stack)
    square, square_a, square_b = pairs.unstacked(squares)
    root = rnp.sqrt(square.high / square_a.high / (2 * math.pi) / square_b.high)
    back = pairs.two_product(root, root) * square_a * pairs.Pair(*_TWO_PI) * square_b
    rest = root * ((square - back).high / (2 * square.high))
    past = (of_total - of_a - of_b - of_a * of_b) / ((1 + of_a) * (1 + of_b))
    return (root + (root * past + rest)) * (scales[0] / (scales[1] * scales[2]))


def stirling(a: Any) -> Any:
    """Return `gamma(a) exp(a) / a**a sqrt(a / 2 pi)` for `a` from ten up (DLMF 5.11.1)."""
    return rnp.exp(polynomial(STIRLING, 1 / (a * a)) / a)


def log_gamma_1p(z: Any) -> Any:
    """Return `log(gamma(1 + z))` for z from 0 to 1.6, with small relative errors."""
    upper = rnp.greater(z, 0.5)
    past = rnp.where(upper, z - 1, z)
    series = past * polynomial((1 - _EULER, *_ZETA), past)
    return series - rnp.where(upper, 0.0, rnp.log1p(rnp.where(upper, 0.0, past)))


def polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    """Return the polynomial with these coefficients, of the lowest power first."""
    found: Any = coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        found = found * x + coefficient
    return found
