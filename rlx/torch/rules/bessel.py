"""Bessel functions of orders 0 and 1, and Airy's, of `torch.special`: computed in f64.

Near 0 they are power series. Elsewhere they come from one integral,
`exp(z) K(z) = 2 * integral of exp(-u^2) cosh(order * t) / sqrt(2z + u^2), u from 0 on`, with
`sinh(t / 2) = u / sqrt(2z)`, at `z = x` or, for J and Y, at `z = -ix`. The trapezoidal rule
converges exponentially: its terms are analytic in a strip around the real axis.

Source: DLMF 10.2, 10.8, 10.27, 10.31, 10.32 and 9.4, 9.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.torch.registry import RULES, Entry

_EULER = 0.57721566490153286
_STEP = 0.25
_NODES = np.arange(26) * _STEP
_WEIGHTS = 2 * _STEP * np.exp(-(_NODES**2)) * np.where(_NODES == 0, 0.5, 1)
_TERMS = 24
_NEAR = 4.0
"""Below, series are used; above, the integral has all digits of f64."""
_AI, _AI_SLOPE = 0.35502805388781723926, -0.25881940379280679841
"""Airy's function and its derivative at 0."""


def _series(square: Any, factors: list[float]) -> Any:
    """The sum of `factors[k] * square ** k`."""
    total = rnp.full_like(square, factors[-1])
    for factor in reversed(factors[:-1]):
        total = total * square + factor
    return total


def _powers(order: int) -> list[float]:
    """Coefficients of I of an order, in powers of x^2 / 4."""
    return [1 / (math.factorial(k) * math.factorial(k + order)) for k in range(_TERMS)]


def _harmonics(order: int) -> list[float]:
    """Those coefficients times the mean of digamma(k + 1) and digamma(k + order + 1)."""
    number = [sum(1 / n for n in range(1, k + 1)) - _EULER for k in range(_TERMS + order)]
    pairs = ((number[k] + number[k + order]) / 2 for k in range(_TERMS))
    return [c * pair for c, pair in zip(_powers(order), pairs, strict=True)]


def _near(x: Any, order: int, sign: int) -> tuple[Any, Any]:
    """I and K near 0 (`sign` 1), or J and Y times -pi / 2 (`sign` -1)."""
    half = x / 2
    square = sign * half * half
    first = _series(square, _powers(order)) * half**order
    second = _series(square, _harmonics(order)) * half**order
    logarithm = rnp.log(half) * first
    if order == 0:
        return first, second - logarithm
    pole = 1 / x
    return first, (pole + logarithm - second if sign > 0 else pole - logarithm + second)


def _integral(x: Any, order: int) -> Any:
    """`exp(x) * K(x)` from `_NEAR` on."""
    total: Any = 0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        square = float(node**2)
        grown = 1 + square / x if order else 1.0
        total = total + float(weight) * grown / rnp.sqrt(2 * x + square)
    return total


def _oscillating(x: Any, order: int) -> tuple[Any, Any]:
    """J and Y from `_NEAR` on."""
    real: Any = 0
    imaginary: Any = 0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        square = float(node**2)
        size = rnp.sqrt(square**2 + 4 * x * x)
        part = rnp.sqrt((size + square) / 2) / size * float(weight)
        other = rnp.sqrt((size - square) / 2) / size * float(weight)
        if order:
            grown = square / x
            part, other = part - grown * other, other + grown * part
        real, imaginary = real + part, imaginary + other
    cos, sin = rnp.cos(x), rnp.sin(x)
    first, second = real * cos - imaginary * sin, real * sin + imaginary * cos
    pair = (second, -first) if order == 0 else (-first, -second)
    return 2 / math.pi * pair[0], 2 / math.pi * pair[1]


def _split(x: Any, limit: float, near: Callable[[Any], Any], far: Callable[[Any], Any]) -> Any:
    """`near` below a limit and `far` above, each of numbers where it is defined."""
    is_near = rnp.less(x, limit)
    return rnp.where(
        is_near, near(rnp.where(is_near, x, limit / 2)), far(rnp.where(is_near, limit, x))
    )


def _first_kind(order: int) -> Any:
    def apply(x: Any) -> Any:
        x = x.astype("f64")
        size = rnp.abs(x)
        found = _split(
            size, _NEAR, lambda x: _series(-(x * x) / 4, _powers(order)) * (x / 2) ** order,
            lambda x: _oscillating(x, order)[0],
        )  # fmt: skip
        return rnp.where(rnp.less(x, 0), -found, found) if order else found

    return apply


def _at_zero(x: Any, found: Any, value: float) -> Any:
    """NaN below 0, and `value` at 0."""
    return rnp.where(rnp.equal(x, 0), value, rnp.where(rnp.less(x, 0), math.nan, found))


def _second_kind(order: int) -> Any:
    def apply(x: Any) -> Any:
        x = x.astype("f64")
        found = _split(
            x, _NEAR, lambda x: -2 / math.pi * _near(_positive(x), order, -1)[1],
            lambda x: _oscillating(x, order)[1],
        )  # fmt: skip
        return _at_zero(x, found, -math.inf)

    return apply


def _positive(x: Any) -> Any:
    return rnp.where(rnp.greater(x, 0), x, 1)


def _modified(order: int, is_scaled: bool) -> Any:
    def near(x: Any) -> Any:
        x = _positive(x)
        found = _near(x, order, 1)[1]
        return found * rnp.exp(x) if is_scaled else found

    def far(x: Any) -> Any:
        found = _integral(x, order)
        return found if is_scaled else found * rnp.exp(-x)

    def apply(x: Any) -> Any:
        x = x.astype("f64")
        return _at_zero(x, _split(x, _NEAR, near, far), math.inf)

    return apply


def _spherical(x: Any) -> Any:
    x = x.astype("f64")
    safe = rnp.where(rnp.logical_or(rnp.equal(x, 0), rnp.isinf(x)), 1, x)
    at_ends = rnp.where(rnp.equal(x, 0), 1.0, 0.0)
    return rnp.where(rnp.equal(safe, x), rnp.sin(safe) / safe, at_ends)


def _airy(x: Any) -> Any:
    """By powers near 0, else by K and the Hankel function of order 1/3; NaN at infinities."""
    limit, x = 2.5, x.astype("f64")
    cube = rnp.where(rnp.less(rnp.abs(x), limit), x, 0) ** 3
    even, odd = [1.0], [1.0]
    for k in range(1, 20):
        even.append(even[-1] / ((3 * k - 1) * 3 * k))
        odd.append(odd[-1] / (3 * k * (3 * k + 1)))
    small = _AI * _series(cube, even) + _AI_SLOPE * x * _series(cube, odd)
    size = rnp.maximum(rnp.abs(x), limit)
    phase = size * rnp.sqrt(size) * (2 / 3)
    is_falling = rnp.greater(x, 0)
    argument = rnp.where(is_falling, phase.astype("c128"), phase * np.complex128(-1j))
    root = rnp.sqrt(2 * argument)
    total: Any = 0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        turned = 2 / 3 * rnp.arcsinh(float(node) / root)
        total = total + float(weight) * rnp.cosh(turned) / rnp.sqrt(2 * argument + float(node**2))
    whole = total * rnp.exp(-argument) * (rnp.sqrt(size / 3) / math.pi)
    large = rnp.where(is_falling, rnp.real(whole), 2 * rnp.imag(whole))
    found = rnp.where(rnp.less(rnp.abs(x), limit), small, large)
    return rnp.where(rnp.isinf(x), math.nan, found)


_TABLE = {
    "prims.bessel_j0": _first_kind(0), "prims.bessel_j1": _first_kind(1),
    "special_bessel_j0": _first_kind(0), "special_bessel_j1": _first_kind(1),
    "special_bessel_y0": _second_kind(0), "special_bessel_y1": _second_kind(1),
    "special_modified_bessel_k0": _modified(0, False),
    "special_modified_bessel_k1": _modified(1, False),
    "special_scaled_modified_bessel_k0": _modified(0, True),
    "special_scaled_modified_bessel_k1": _modified(1, True),
    "prims.spherical_bessel_j0": _spherical, "special_spherical_bessel_j0": _spherical,
    "special_airy_ai": _airy,
}  # fmt: skip
RULES.update({name: Entry(apply, "result") for name, apply in _TABLE.items()})
