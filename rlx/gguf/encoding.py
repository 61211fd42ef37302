"""Encode weights as GGUF block types, with NumPy.

The types of 32 elements give the bytes that the `gguf` package gives. The others are encoded
deterministically, run by run, without a search for the smallest error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.gguf.encoding_levels import LEVEL_ENCODERS
from rlx.gguf.encoding_superblocks import SUPERBLOCK_ENCODERS
from rlx.gguf.rounding import (
    half_bytes,
    nibble_pairs,
    reciprocal,
    round_away,
    shifted_right,
    signed_largest,
)
from rlx.ir.block_type import block_type

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]


def encode(weights: NDArray[Any], name: str) -> Bytes:
    """Encode `[..., elements]` as blocks of the type called `name`: `[..., bytes]`."""
    kind = block_type(name)
    if name not in ENCODERS:
        raise UnsupportedError(
            f"weights cannot be encoded as {name}, only decoded",
            remedy=f"use one of: {' '.join(ENCODERS)}",
        )
    values = np.asarray(weights, np.float32)
    columns = values.shape[-1] if values.ndim else 0
    if not columns or columns % kind.elements:
        raise ShapeError(
            f"weights have shape {values.shape}; rows of {name} are whole blocks of "
            f"{kind.elements} elements",
            remedy=f"pad the last axis to a multiple of {kind.elements}",
        )
    if not np.isfinite(values).all():
        raise InputError("weights are not finite", remedy="remove NaN and infinity first")
    blocks = ENCODERS[name](values.reshape(-1, kind.elements))
    return blocks.reshape(*values.shape[:-1], kind.row_bytes(columns))


def _codes(x: Floats, most: int) -> Bytes:
    """Return codes in 0..most, towards zero."""
    return np.clip(np.trunc(x), 0, most).astype(np.uint8)


def _q4_0(x: Floats) -> Bytes:
    d = signed_largest(x) / np.float32(-8)
    codes = _codes(x * reciprocal(d) + np.float32(8.5), 15)
    return np.concatenate([half_bytes(d), nibble_pairs(codes)], axis=1)


def _q4_1(x: Floats) -> Bytes:
    least = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - least) / np.float32(15)
    codes = _codes((x - least) * reciprocal(d) + np.float32(0.5), 15)
    return np.concatenate([half_bytes(d), half_bytes(least), nibble_pairs(codes)], axis=1)


def _fifth_bits(codes: Bytes) -> Bytes:
    return np.packbits(shifted_right(codes, 4), axis=1, bitorder="little")


def _q5_0(x: Floats) -> Bytes:
    d = signed_largest(x) / np.float32(-16)
    codes = _codes(x * reciprocal(d) + np.float32(16.5), 31)
    return np.concatenate(
        [half_bytes(d), _fifth_bits(codes), nibble_pairs(codes & np.uint8(15))], axis=1
    )


def _q5_1(x: Floats) -> Bytes:
    least = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - least) / np.float32(31)
    codes = _codes((x - least) * reciprocal(d) + np.float32(0.5), 31)
    parts = [
        half_bytes(d),
        half_bytes(least),
        _fifth_bits(codes),
        nibble_pairs(codes & np.uint8(15)),
    ]
    return np.concatenate(parts, axis=1)


def _q8_0(x: Floats) -> Bytes:
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    codes = round_away(x * reciprocal(d)).astype(np.int8)
    return np.concatenate([half_bytes(d), codes.view(np.uint8)], axis=1)


ENCODERS: dict[str, Callable[[Floats], Bytes]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    **SUPERBLOCK_ENCODERS,
    **LEVEL_ENCODERS,
}
