"""Gamma functions next to Stirling's formula, and near 1, with small relative errors, in f64."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx.scipy.special.elementary import _EULER, _ZETA

STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400,
)  # fmt: skip


def root_of_gamma(a: Any) -> Any:
    """Return `gamma(a + 1) exp(a) / a**a`, which is almost `sqrt(2 pi a)`."""
    large = rnp.greater_equal(a, 10)
    high, low = rnp.where(large, a, 10.0), rnp.where(large, 1.0, a)
    by_series = rnp.sqrt(2 * math.pi * high) * stirling(high)
    steps = rnp.clip(rnp.floor(low - 0.5), 0, 9)
    first = low - steps  # gamma(low + 1) = (low)(low - 1) ... (first + 1) gamma(first + 1)
    product = rnp.exp(log_gamma_1p(first))
    for step in range(1, 10):
        product = rnp.where(rnp.less_equal(step, steps), product * (first + step), product)
    return rnp.where(large, by_series, product * (rnp.exp(low) / rnp.power(low, low)))


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
