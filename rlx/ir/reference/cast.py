"""Conversions between every pair of dtypes (specification 02, section 3)."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from rlx.ir.dtype import DType, as_dtype
from rlx.ir.reference.registry import Array


def cast(x: Array, *, to: DType, rounding: str) -> Array:
    """Return `x` in dtype `to`, rounded once."""
    source = as_dtype(x.dtype)
    if source is to:
        return x
    if to is DType.BOOL:
        return x != 0
    if source.is_complex:
        x = x.real
    if source.is_float and to.is_int:
        return _saturated(x, to, rounding)
    if to is DType.BF16:
        return _to_bf16(x)
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


def _to_bf16(x: Array) -> Array:
    """Round through f32 with the last bit sticky, so that only the step to bf16 rounds."""
    if x.dtype in (np.float64, np.int64, np.int32, np.uint32):
        x = _to_odd_f32(x)
    return x.astype(np.float32).astype(ml_dtypes.bfloat16)


def _to_odd_f32(x: Array) -> Array:
    """Return f32 truncated towards zero, with an odd significand where that was inexact."""
    nearest = x.astype(np.float32)
    exact, back = _comparable(x, nearest)
    beyond = np.isfinite(nearest) & (np.abs(back) > np.abs(exact))
    truncated = np.where(beyond, np.nextafter(nearest, np.float32(0)), nearest)
    inexact = np.isfinite(nearest) & (back != exact)
    bits = truncated.astype(np.float32).view(np.uint32) | inexact.astype(np.uint32)
    return bits.view(np.float32)


def _comparable(x: Array, nearest: Array) -> tuple[Array, Array]:
    """Return `x` and its f32 neighbor in a type that holds both exactly."""
    if x.dtype == np.int64:
        return x.astype(np.longdouble), nearest.astype(np.longdouble)
    return x.astype(np.float64), nearest.astype(np.float64)
