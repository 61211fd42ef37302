"""Encoding of three values (TQ1_0, TQ2_0) and of floats of four bits (MXFP4), as `gguf` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.gguf.rounding import half_bytes, nibble_pairs, reciprocal, round_away
from rlx.ir.block_codes import FP4

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

_POWERS = np.array([81, 27, 9, 3, 1], np.int64)[:, None]


def _thirds(x: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return scales, and codes in 0..2."""
    d = np.abs(x).max(axis=1, keepdims=True)
    return d, round_away(x * reciprocal(d)).astype(np.int64) + 1


def _tq1_0(x: Floats) -> Bytes:
    """Five codes to a byte in base three, as a fraction of 256 that is rounded up."""
    d, codes = _thirds(x)
    parts = [
        (group.reshape(len(x), digits, -1) * _POWERS[:digits]).sum(axis=1)
        for group, digits in zip(np.split(codes, [160, 240], axis=1), (5, 5, 4), strict=True)
    ]
    united = (np.concatenate(parts, axis=1) * 256 + 242) // 243
    return np.concatenate([united.astype(np.uint8), half_bytes(d)], axis=1)


def _tq2_0(x: Floats) -> Bytes:
    d, codes = _thirds(x)
    shifts = np.array([0, 2, 4, 6], np.int64)[:, None]
    united = (codes.reshape(len(x), 2, 4, 32) << shifts).sum(axis=2).reshape(len(x), 64)
    return np.concatenate([united.astype(np.uint8), half_bytes(d)], axis=1)


def _mxfp4(x: Floats) -> Bytes:
    """The nearest of 16 floats, of equal ones the first."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        exponent = np.where(largest > 0, np.floor(np.log2(largest)) - 2 + 127, 0)
    scale = np.ldexp(np.float32(1), exponent.astype(np.int32) - 128).astype(np.float32)
    levels = scale[..., None] * np.array(FP4, np.float32)
    codes = np.abs(levels - x[..., None]).argmin(axis=-1).astype(np.uint8)
    return np.concatenate([exponent.astype(np.uint8), nibble_pairs(codes)], axis=1)


LEVEL_ENCODERS: dict[str, Callable[[Floats], Bytes]] = {
    "tq1_0": _tq1_0,
    "tq2_0": _tq2_0,
    "mxfp4": _mxfp4,
}
