"""Gamma functions next to Stirling's formula, and near 1, with small relative errors, in f64."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx.scipy.special.elementary import _EULER, _ZETA

STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip


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


def root_of_gamma(a: Any) -> Any:
    """Return `gamma(a + 1) exp(a) / a**a`, which is almost `sqrt(2 pi a)`, for positive `a`."""
    is_small = rnp.less(a, 1)
    above = rnp.where(is_small, a + 1, a)
    past = polynomial(_PAST_ROOT, 3.5 / (above + 0.75) - 1)
    root = rnp.sqrt(2 * math.pi * (above + 1 / 6))
    root = root + root * past
    # gamma(a + 1) is gamma(a + 2) / (a + 1)
    low = rnp.clip(a, 1e-300, 1)
    return rnp.where(is_small, root * rnp.exp(low * rnp.log1p(1 / low) - 1), root)


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
