"""Conversions between every pair of dtypes."""

from __future__ import annotations

import numpy as np

from rlx.ir.dtype import DType, as_dtype
from rlx.ir.reference.registry import Array


def cast(x: Array, *, to: DType, rounding: str) -> Array:
    """Return `x` in dtype `to`, rounded once."""
    source = as_dtype(x.dtype)
    if source is to:
        return x
    if source.is_storage:
        return cast(x.astype(np.float32), to=to, rounding=rounding)
    if to is DType.BOOL:
        return x != 0
    if source.is_complex and not to.is_complex:
        x = x.real
    if source.is_float and to.is_int:
        return _saturated(x, to, rounding)
    if to is DType.BF16 or to.is_storage:
        return _by_f32(x, to)
    return x.astype(to.numpy)


def _saturated(x: Array, to: DType, rounding: str) -> Array:
    """Round to an integer and clamp to the range of `to`; NaN becomes 0."""
    wide = x.astype(np.float64)
    whole = np.trunc(wide)
    if rounding == "away":
        whole = whole + np.where(np.abs(wide - whole) >= 0.5, np.sign(wide), 0.0)
    bounds = np.iinfo(to.numpy)
    low, beyond = float(bounds.min), float(bounds.max + 1)  # exact: powers of two
    inside = np.where((whole >= low) & (whole < beyond), whole, 0.0)
    result = inside.astype(to.numpy)
    result = np.where(whole >= beyond, bounds.max, result)
    return np.where(whole < low, bounds.min, result).astype(to.numpy)


def _by_f32(x: Array, to: DType) -> Array:
    """Round through f64 and f32 with a sticky last bit, so that only the last step rounds."""
    wide = _sticky_integer(x) if x.dtype in (np.int64, np.uint64) else x
    return _sticky_f32(wide.astype(np.float64)).astype(to.numpy)


def _sticky_integer(x: Array) -> Array:
    """Return 52 significant bits of a large integer, the last one set if any bit was lost."""
    lost = (x & 2047) != 0
    large = x >= 2**53 if x.dtype == np.uint64 else (x >= 2**53) | (x <= -(2**53))
    return np.where(large, ((x >> 11) | lost) << 11, x)


def _sticky_f32(x: Array) -> Array:
    """Truncate towards zero and make the significand odd where that lost anything."""
    nearest = x.astype(np.float32)
    back = nearest.astype(np.float64)
    finite = np.isfinite(nearest)
    truncated = np.where(
        finite & (np.abs(back) > np.abs(x)), np.nextafter(nearest, np.float32(0)), nearest
    )
    bits = truncated.view(np.uint32) | (finite & (back != x)).astype(np.uint32)
    return bits.view(np.float32)
