"""Floats of 8 and 4 bits and integers of 4 and 2: dtypes of files, not of ours.

Arrays of them are converted by NumPy, where they are known, bit for bit as the standard says.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray[Any, Any]

_FLOATS = {
    np.dtype(kind): largest
    for kind, largest in {
        ml_dtypes.float8_e4m3fn: 448.0,
        ml_dtypes.float8_e4m3fnuz: 240.0,
        ml_dtypes.float8_e5m2: 57344.0,
        ml_dtypes.float8_e5m2fnuz: 57344.0,
        ml_dtypes.float4_e2m1fn: 6.0,
    }.items()
}
_INTEGERS = {
    np.dtype(ml_dtypes.int4): (-8, 7),
    np.dtype(ml_dtypes.uint4): (0, 15),
    np.dtype(ml_dtypes.int2): (-2, 1),
    np.dtype(ml_dtypes.uint2): (0, 3),
}
_BITS = {
    np.dtype(ml_dtypes.float4_e2m1fn): 4,
    np.dtype(ml_dtypes.int4): 4,
    np.dtype(ml_dtypes.uint4): 4,
    np.dtype(ml_dtypes.int2): 2,
    np.dtype(ml_dtypes.uint2): 2,
}


def converted(x: Array, dtype: np.dtype[Any], *, saturate: bool, round_mode: str = "up") -> Array:
    """Return `x` in another dtype, one of them narrow."""
    if dtype in _INTEGERS:
        return x.astype(np.float32).astype(np.int32).astype(dtype)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):
        return _power_of_two(x.astype(np.float32), round_mode, saturate)
    wide = x.astype(np.float32) if x.dtype not in (np.float16, np.float64) else x
    if dtype in _FLOATS:
        return _rounded(wide, dtype, saturate)
    return wide.astype(dtype)


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int] | None:
    """Return the least and the largest integer of a dtype; None if it is none of integers."""
    if dtype.kind not in "iu":
        return _INTEGERS.get(dtype)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def limits(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the least and the largest number."""
    if dtype in _INTEGERS:
        low, high = _INTEGERS[dtype]
        return float(low), float(high)
    return -_FLOATS[dtype], _FLOATS[dtype]


def bits(dtype: np.dtype[Any]) -> int:
    """Return the bits of an element in a file, where those of less than a byte are packed."""
    return _BITS.get(dtype, 8 * dtype.itemsize)


def _rounded(x: Array, dtype: np.dtype[Any], saturate: bool) -> Array:
    largest = _FLOATS[dtype]
    is_four_bits = dtype == np.dtype(ml_dtypes.float4_e2m1fn)
    if not saturate and not is_four_bits:
        return x.astype(dtype)
    held = np.clip(x, -largest, largest)
    return np.where(np.isnan(x), x, held).astype(dtype)


def _power_of_two(x: Array, round_mode: str, saturate: bool) -> Array:
    """Return the exponent alone: the nearest, the next or the last power of two."""
    magnitude, exponent = np.frexp(np.abs(x))  # in [0.5, 1)
    power = exponent - 1
    if round_mode == "up":
        power = np.where(magnitude > 0.5, power + 1, power)
    elif round_mode == "nearest":
        power = np.where(magnitude >= 0.75, power + 1, power)
    power = np.where(x == 0, -127, power)
    stored = np.clip(power + 127, 0, 254 if saturate else 255)
    stored = np.where(np.isnan(x) | (np.isinf(x) & (not saturate)), 255, stored)
    stored = np.where(np.isinf(x) & saturate, 254, stored)
    return stored.astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
