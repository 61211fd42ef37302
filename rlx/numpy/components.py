"""Quotient and remainder, mantissa and exponent, sign, and common divisors of numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from rlx.errors import DTypeError
from rlx.ir.dtype import DType
from rlx.numpy import elementwise
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, function, inexact, promoted


def _limits(x: Any) -> Any:
    """The limits of a floating type; NumPy's `finfo` has no bfloat16."""
    return ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]  # is not annotated


@function
def divmod(x: Any, y: Any, /) -> tuple[Array, Array]:
    """`floor_divide` and `remainder`."""
    return elementwise.floor_divide(x, y), elementwise.remainder(x, y)


@function
def modf(x: Any, /) -> tuple[Array, Array]:
    """The fractional and the integer part, each with the sign of `x`."""
    (x,) = inexact(x)
    whole = elementwise.trunc(x)
    none = copysign(elementwise.astype(elementwise.not_equal(x, x), x.dtype), x)
    return elementwise.where(elementwise.isinf(x), none, elementwise.fmod(x, 1)), whole


@function
def copysign(x: Any, y: Any, /) -> Array:
    """The magnitude of `x` with the sign of `y`."""
    x, y = inexact(x, y)
    agree = elementwise.equal(elementwise.signbit(x), elementwise.signbit(y))
    return elementwise.where(agree, x, elementwise.negative(x))


@function
def heaviside(x: Any, y: Any, /) -> Array:
    """0 below zero, 1 above it, and `y` at it."""
    x, y = inexact(x, y)
    step = elementwise.where(elementwise.less(x, 0), 0.0, 1.0)
    step = elementwise.where(elementwise.equal(x, 0), y, step)
    return elementwise.where(elementwise.isnan(x), x, step)


@function
def frexp(x: Any, /) -> tuple[Array, Array]:
    """A mantissa in [0.5, 1) and its power of two (i32)."""
    (x,) = inexact(x)
    regular = elementwise.logical_and(elementwise.isfinite(x), elementwise.not_equal(x, 0))
    size = elementwise.where(regular, elementwise.abs(x), 1.0)
    # Numbers below the normal ones are scaled up, exactly, before their logarithm is taken.
    up = 2.0 ** _limits(x).nmant
    tiny = elementwise.less(size, float(_limits(x).tiny))
    scaled = elementwise.multiply(size, elementwise.where(tiny, up, 1.0))
    power = elementwise.floor(elementwise.log2(scaled))
    mantissa = ldexp(scaled, elementwise.negative(elementwise.add(power, 1)))
    # A rounded logarithm is off by one next to powers of two.
    high, low = elementwise.greater_equal(mantissa, 1.0), elementwise.less(mantissa, 0.5)
    scale = elementwise.where(high, 0.5, elementwise.where(low, 2.0, 1.0))
    mantissa = elementwise.multiply(mantissa, scale)
    off = elementwise.where(high, 1, elementwise.where(low, -1, 0))
    lifted = elementwise.where(tiny, _limits(x).nmant, 0)
    exponent = elementwise.subtract(elementwise.add(convert(power, DType.I32), off), lifted)
    exponent = elementwise.where(regular, elementwise.add(exponent, 1), 0)
    mantissa = elementwise.where(regular, copysign(mantissa, x), x)
    return mantissa, convert(exponent, DType.I32)


@function
def ldexp(x: Any, exponent: Any, /) -> Array:
    """`x * 2 ** exponent`; in three factors, none of which overflows unless the result does."""
    (x,) = inexact(x)
    limit = _limits(x).maxexp
    exponent = elementwise.clip(convert(exponent, DType.I32), -3 * limit, 3 * limit)
    third = elementwise.floor_divide(exponent, 3)
    for part in (third, third, elementwise.subtract(exponent, elementwise.multiply(third, 2))):
        x = elementwise.multiply(x, elementwise.exp2(convert(part, x.value.dtype)))
    return x


@function
def logaddexp2(x: Any, y: Any, /) -> Array:
    """`log2(2 ** x + 2 ** y)`, without overflow."""
    scale = np.log(2.0).item()
    x, y = (elementwise.multiply(each, scale) for each in inexact(x, y))
    return elementwise.divide(elementwise.logaddexp(x, y), scale)


@function
def gcd(x: Any, y: Any, /) -> Array:
    """The greatest common divisor, by Euclid's algorithm: as many steps as the type may need."""
    x, y = _integers("gcd", x, y)
    x, y = elementwise.abs(x), elementwise.abs(y)
    for _ in range(_EUCLIDS_STEPS[x.value.dtype.size]):
        done = elementwise.equal(y, 0)
        rest = elementwise.remainder(x, y)
        x, y = elementwise.where(done, x, y), elementwise.where(done, 0, rest)
    return x


_EUCLIDS_STEPS = {1: 12, 2: 24, 4: 47, 8: 93}
"""By the bytes of an integer: Fibonacci numbers take the longest."""


@function
def lcm(x: Any, y: Any, /) -> Array:
    """The least common multiple."""
    x, y = _integers("lcm", x, y)
    divisor = gcd(x, y)
    quotient = elementwise.floor_divide(
        x, elementwise.where(elementwise.equal(divisor, 0), 1, divisor)
    )
    return elementwise.abs(elementwise.multiply(quotient, y))


def _integers(name: str, x: Any, y: Any) -> Any:
    x, y = promoted([x, y])
    if not x.value.dtype.is_int:
        raise DTypeError(f"{name} takes integers", remedy="convert with .astype('i64')")
    return x, y


@function
def bitwise_count(x: Any, /) -> Array:
    """How many bits of the magnitude are set (u8)."""
    x = as_tracer(x)
    if x.value.dtype is DType.BOOL:
        return convert(x, DType.U8)
    bits = convert(x, DType.I64)
    if x.value.dtype.is_signed_int:
        bits = elementwise.abs(bits)  # widened first: the least of 8 bits has a magnitude, too
    if x.value.dtype.size == 4 and not x.value.dtype.is_signed_int:
        bits = elementwise.bitwise_and(bits, 0xFFFFFFFF)
    count: Any = 0
    for _ in range(0, 64, 8):
        byte = elementwise.bitwise_and(bits, 255)
        for mask, by in ((0x55, 1), (0x33, 2), (0x0F, 4)):
            high = elementwise.bitwise_and(elementwise.right_shift(byte, by), mask)
            byte = elementwise.add(elementwise.bitwise_and(byte, mask), high)
        count = elementwise.add(count, byte)
        bits = elementwise.right_shift(bits, 8)
    return convert(count, DType.U8)
