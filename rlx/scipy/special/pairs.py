"""Sums and logarithms in pairs of doubles: a number and what its rounding took off.

Exponents of distribution functions are differences of large terms, whose rounding would be a
relative error of the result. Source: Dekker, A floating-point technique for extending the
available precision (1971); Knuth's sum without a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import rlx.numpy as rnp

_SPLITTER = 2.0**27 + 1
_LARGEST = 1e290
"""Larger numbers would overflow when they are split."""
_SMALLEST = 5e-324
_TINY, _SCALE = 1e-200, 600
"""Products of smaller numbers are scaled by a power of two: parts of them would underflow."""
_LOG_2 = (0.6931471805599453, 2.3190468138462996e-17)
_EXACT_TERMS, _TERMS = 6, 17
"""Terms of the series of the logarithm that are pairs, and all."""


class Pair(NamedTuple):
    """`high + low`, where `high` is the sum rounded."""

    high: Any
    low: Any

    def __add__(self, other: Any) -> Pair:
        if not isinstance(other, Pair):
            other = Pair(other, 0.0)
        total = two_sum(self.high, other.high)
        return _renormalized(total.high, total.low + (self.low + other.low))

    def __sub__(self, other: Any) -> Pair:
        return self + Pair(-other.high, -other.low)

    def __mul__(self, other: Any) -> Pair:
        if not isinstance(other, Pair):
            product = two_product(self.high, other)
            return _renormalized(product.high, product.low + self.low * other)
        product = two_product(self.high, other.high)
        rest = self.high * other.low + self.low * other.high
        return _renormalized(product.high, product.low + rest)

    def __truediv__(self, other: Any) -> Pair:
        if not isinstance(other, Pair):
            first = self.high / other
            product = two_product(first, other)
            rest = ((self.high - product.high) - product.low) + self.low
            return _renormalized(first, rest / other)
        first = self.high / other.high
        rest = self - other * first
        return _renormalized(first, rest.high / other.high)


def _renormalized(high: Any, low: Any) -> Pair:
    total = high + low
    return Pair(total, low - (total - high))


def two_sum(a: Any, b: Any) -> Pair:
    """Return `a + b`, exactly."""
    total = a + b
    of_b = total - a
    return Pair(total, (a - (total - of_b)) + (b - of_b))


def two_product(a: Any, b: Any) -> Pair:
    """Return `a * b`, exactly, unless parts of it underflow."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    rest = a_high * b_high - product
    return Pair(product, ((rest + a_high * b_low) + a_low * b_high) + a_low * b_low)


def _split(a: Any) -> tuple[Any, Any]:
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def log(x: Any) -> Pair:
    """Return the logarithm of `x`, f64, with a relative error of about 1e-27.

    `x` is positive, up to 1e290. With `x = m 2**k` and `s = (m - 1) / (m + 1)`, it is
    `k log 2 + 2 s (1 + s**2 / 3 + s**4 / 5 + ...)`.
    """
    power = rnp.floor(rnp.log2(x) + 0.5)
    half = rnp.floor(power / 2)
    m = x * rnp.exp2(-half) * rnp.exp2(half - power)
    s = Pair(m - 1, 0.0) / two_sum(m, 1.0)
    z = s * s
    tail: Any = 0.0
    for k in range(_TERMS, _EXACT_TERMS - 1, -1):
        tail = tail * z.high + 1 / (2 * k + 1)
    series = Pair(tail, 0.0)
    for k in range(_EXACT_TERMS - 1, -1, -1):
        high = 1 / (2 * k + 1)
        low = _remainder(2 * k + 1, high)
        series = series * z + Pair(high, low)
    return Pair(*_LOG_2) * power + series * s * 2.0


def _remainder(n: int, high: float) -> float:
    """Return `1 / n - high`."""
    numerator, denominator = high.as_integer_ratio()
    return (denominator - numerator * n) / (denominator * n)


def quotient(x: Pair, a: Any) -> Pair:
    """Return `x / a` for positive numbers, or the largest that can be split."""
    least = x.high / _LARGEST
    if isinstance(a, Pair):
        return x / Pair(rnp.maximum(a.high, least), a.low)
    return x / rnp.maximum(a, least)


def log_of_pair(x: Pair) -> Pair:
    """Return the logarithm of a pair; that of a bound beyond the bounds of `log`."""
    high = bounded(x.high)
    return log(high) + rnp.where(rnp.equal(high, x.high), x.low / high, 0.0)


def log_of_product(x: Pair, factor: Pair) -> Pair:
    """Return the logarithm of a product, where `x` may be as small as any float."""
    is_tiny = rnp.less(x.high, _TINY)
    scale = rnp.where(is_tiny, 2.0**_SCALE, 1.0)
    product = Pair(x.high * scale, x.low * scale) * factor
    return log_of_pair(product) - Pair(*_LOG_2) * rnp.where(is_tiny, float(_SCALE), 0.0)


def stacked(*numbers: Pair) -> Pair:
    """Return pairs along a new first axis: what is computed of them is traced once."""
    return Pair(*map(rnp.stack, zip(*numbers, strict=True)))


def unstacked(x: Pair) -> Iterator[Pair]:
    """Return the pairs of `stacked`."""
    return map(Pair, *x)


def bounded(x: Any) -> Any:
    """Return positive `x` within the bounds of `log`."""
    return rnp.clip(x, _SMALLEST, _LARGEST)


def exp(x: Pair) -> Any:
    """Return the exponential, rounded."""
    value = rnp.exp(x.high)
    return rnp.where(rnp.isfinite(x.low), value + value * x.low, value)
