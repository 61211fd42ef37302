"""Rounding and packing helpers of the encoders."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.errors import InputError


def round_away(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.float32(1), x), whole)


def reciprocal(d: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return `1 / d`, and 0 for 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(d == 0, np.float32(0), np.float32(1) / d)


def to_half(x: NDArray[np.float32]) -> NDArray[np.float16]:
    """Round scales to f16; an InputError if one is too large for it."""
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    if not np.isfinite(half).all():
        raise InputError(
            f"a block's scale, {np.abs(x).max()}, is beyond the largest f16",
            remedy="scale the weights down",
        )
    return half


def half_bytes(x: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return scales `[blocks, 1]` as the bytes of f16."""
    return to_half(x).astype("<f2").view(np.uint8)


def nibble_pairs(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Put the second half of each row into the high nibbles over the first."""
    half = codes.shape[-1] // 2
    return codes[..., :half] | shifted_left(codes[..., half:], 4)


def shifted_left(codes: NDArray[np.uint8], bits: int | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return `codes << bits` as bytes."""
    result: NDArray[np.uint8] = np.left_shift(codes, bits, dtype=np.uint8)
    return result


def shifted_right(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Return `codes >> bits` as bytes."""
    result: NDArray[np.uint8] = np.right_shift(codes, bits, dtype=np.uint8)
    return result


def divided(x: Any, d: Any) -> Any:
    """Return `x / d`, and 0 where `d` is 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(d == 0, np.float32(0), x / np.where(d == 0, np.float32(1), d))


def signed_largest(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the element of largest absolute value of each row, the first of equal ones."""
    at = np.abs(x).argmax(axis=-1, keepdims=True)
    result: NDArray[np.float32] = np.take_along_axis(x, at, axis=-1)
    return result
