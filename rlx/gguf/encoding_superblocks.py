"""Encoding of the block types of 256 elements, whose runs have small integers as scales."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.gguf.rounding import (
    divided,
    nibble_pairs,
    round_away,
    shifted_left,
    shifted_right,
    signed_largest,
    to_half,
)

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

_ONE_BIT = np.arange(8, dtype=np.uint8)[:, None]
_TWO_BITS = np.array([0, 2, 4, 6], np.uint8)[:, None]
"""How far eight fields of one bit, and four of two, are shifted in a byte."""


class _Affine(NamedTuple):
    """Runs coded as scale and minimum."""

    d: Bytes
    dmin: Bytes
    scales: Bytes
    minima: Bytes
    codes: Bytes
    """`[blocks, runs, elements]`"""


def _affine(x: Floats, runs: int, most: int, top: int) -> _Affine:
    """Code runs as `scale * code - minimum`; scales and minima are integers up to `top`."""
    parts = x.reshape(len(x), runs, -1)
    least = np.minimum(parts.min(axis=-1), np.float32(0))
    scale = (np.maximum(parts.max(axis=-1), least) - least) / np.float32(most)
    d = _half(scale.max(axis=-1, keepdims=True) / np.float32(top))
    dmin = _half((-least).max(axis=-1, keepdims=True) / np.float32(top))
    scales = np.clip(round_away(divided(scale, d)), 0, top)
    minima = np.clip(round_away(divided(-least, dmin)), 0, top)
    step, below = (d * scales)[..., None], (dmin * minima)[..., None]
    codes = np.clip(round_away(divided(parts + below, step)), 0, most)
    return _Affine(*map(_raw, (d, dmin)), *(a.astype(np.uint8) for a in (scales, minima, codes)))


def _signed(x: Floats, runs: int, least: int, least_scale: int) -> tuple[Bytes, Floats, Floats]:
    """Code runs as `scale * code` with signed integers; return d, scales and codes."""
    parts = x.reshape(len(x), runs, -1)
    scale = signed_largest(parts)[..., 0] / np.float32(least)
    d = _half(signed_largest(scale) / np.float32(least_scale))
    scales = np.clip(round_away(divided(scale, d)), least_scale, -least_scale - 1)
    codes = np.clip(round_away(divided(parts, (d * scales)[..., None])), least, -least - 1)
    return _raw(d), scales, codes


def _half(x: Floats) -> Floats:
    """Round to f16, as f32."""
    return to_half(x).astype(np.float32)


def _raw(x: Floats) -> Bytes:
    return x.astype("<f2").view(np.uint8)


def _united(fields: Bytes, axis: int) -> Bytes:
    """Combine disjoint bit fields in one byte."""
    result: Bytes = np.bitwise_or.reduce(fields, axis=axis)
    return result


def _two_bits(codes: Bytes) -> Bytes:
    """Lay two bits of 256 codes in 64 bytes: four groups of 32 to a half."""
    groups = codes.reshape(len(codes), 2, 4, 32)
    return _united(shifted_left(groups, _TWO_BITS), 2).reshape(len(codes), 64)


def _q2_k(x: Floats) -> Bytes:
    parts = _affine(x, 16, 3, 15)
    scales = parts.scales | shifted_left(parts.minima, 4)
    return np.concatenate([scales, _two_bits(parts.codes), parts.d, parts.dmin], axis=1)


def _q3_k(x: Floats) -> Bytes:
    d, scales, codes = _signed(x, 16, -4, -32)
    stored = (codes + 4).astype(np.uint8)
    third = shifted_right(stored, 2).reshape(len(x), 8, 32)
    masks = _united(shifted_left(third, _ONE_BIT), 1)
    return np.concatenate([masks, _two_bits(stored & np.uint8(3)), _q3_scales(scales), d], axis=1)


def _q3_scales(scales: Floats) -> Bytes:
    """Lay 16 scales of six bits in twelve bytes."""
    fields = (scales + 32).astype(np.uint8)
    low = nibble_pairs(fields & np.uint8(15))
    groups = shifted_right(fields, 4).reshape(len(fields), 4, 4)
    return np.concatenate([low, _united(shifted_left(groups, _TWO_BITS), 1)], axis=1)


def _six_bit_scales(scales: Bytes, minima: Bytes) -> Bytes:
    """Lay eight scales and minima of six bits in twelve bytes."""
    first = scales[:, :4] | shifted_left(shifted_right(scales[:, 4:], 4), 6)
    second = minima[:, :4] | shifted_left(shifted_right(minima[:, 4:], 4), 6)
    third = (scales[:, 4:] & np.uint8(15)) | shifted_left(minima[:, 4:] & np.uint8(15), 4)
    return np.concatenate([first, second, third], axis=1)


def _paired_runs(codes: Bytes) -> Bytes:
    """Lay four bits of eight runs in 128 bytes: odd runs in the high nibbles."""
    pairs = codes.reshape(len(codes), 4, 64)
    return nibble_pairs(pairs).reshape(len(codes), 128)


def _q4_k(x: Floats) -> Bytes:
    parts = _affine(x, 8, 15, 63)
    scales = _six_bit_scales(parts.scales, parts.minima)
    return np.concatenate([parts.d, parts.dmin, scales, _paired_runs(parts.codes)], axis=1)


def _q5_k(x: Floats) -> Bytes:
    parts = _affine(x, 8, 31, 63)
    scales = _six_bit_scales(parts.scales, parts.minima)
    high = _united(shifted_left(shifted_right(parts.codes, 4), _ONE_BIT), 1)
    low = _paired_runs(parts.codes & np.uint8(15))
    return np.concatenate([parts.d, parts.dmin, scales, high, low], axis=1)


def _q6_k(x: Floats) -> Bytes:
    d, scales, codes = _signed(x, 16, -32, -128)
    stored = (codes + 32).astype(np.uint8).reshape(len(x), 2, 4, 32)
    low = (stored[:, :, :2] & np.uint8(15)) | shifted_left(stored[:, :, 2:] & np.uint8(15), 4)
    high = _united(shifted_left(shifted_right(stored, 4), _TWO_BITS), 2)
    parts = [
        low.reshape(len(x), 128),
        high.reshape(len(x), 64),
        scales.astype(np.int8).view(np.uint8),
        d,
    ]
    return np.concatenate(parts, axis=1)


def _q8_k(x: Floats) -> Bytes:
    largest = signed_largest(x)
    inverse = divided(np.float32(-127), largest)
    codes = np.minimum(np.rint(inverse * x), 127).astype(np.int8)
    d = divided(np.float32(1), inverse).astype("<f4").view(np.uint8)
    sums = codes.reshape(len(x), 16, 16).sum(axis=-1).astype("<i2").view(np.uint8)
    return np.concatenate([d, codes.view(np.uint8), sums], axis=1)


SUPERBLOCK_ENCODERS: dict[str, Callable[[Floats], Bytes]] = {
    "q2_k": _q2_k,
    "q3_k": _q3_k,
    "q4_k": _q4_k,
    "q5_k": _q5_k,
    "q6_k": _q6_k,
    "q8_k": _q8_k,
}
