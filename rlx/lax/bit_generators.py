"""Bits of XLA's generators, as its expander defines them, and the ciphers that they apply.

The state is a key of two words and a counter of two, of u32, or two words of u64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir import ops
from rlx.lax.arrays import slice_in_dim
from rlx.lax.elementwise import bitcast_convert_type, convert_element_type, mulhi
from rlx.tracing.apply import emit
from rlx.tracing.trace import shape_of

_PHILOX_ROUNDS = 10
_PHILOX_FACTORS = np.uint32(0xD2511F53), np.uint32(0xCD9E8D57)
_PHILOX_STEPS = 0x9E3779B9, 0xBB67AE85
_PHILOX_WORDS = 4


def threefry2x32(*words: Any) -> list[Any]:
    """Both words of the cipher, of keys and counters that broadcast to one shape."""
    return [emit(ops.threefry2x32, *words, word=word) for word in ("first", "second")]


def philox4x32(key0: Any, key1: Any, *counter: Any) -> list[Any]:
    """The four words of the cipher: Philox-4x32-10 of Salmon et al. (2011)."""
    a, b, c, d = counter
    for number in range(_PHILOX_ROUNDS):
        keys = [
            key + np.uint32(number * step & 0xFFFFFFFF)
            for key, step in zip((key0, key1), _PHILOX_STEPS, strict=True)
        ]
        (low0, high0), (low1, high1) = (
            (rnp.multiply(factor, x), mulhi(factor, x))
            for factor, x in zip(_PHILOX_FACTORS, (a, c), strict=True)
        )
        a, b, c, d = high1 ^ b ^ keys[0], low1, high0 ^ d ^ keys[1], low0
    return [a, b, c, d]


def rng_bit_generator(
    state: Any, shape: tuple[int, ...], dtype: Any, algorithm: str
) -> tuple[Any, Any]:
    """The state after the draw, and bits; 8 and 16 bits are the lower ones of 32.

    `algorithm` is "THREE_FRY" or "PHILOX": XLA leaves it to the platform what its default draws.
    """
    draws = {"THREE_FRY": _threefry_bits, "PHILOX": _philox_bits}
    if algorithm not in draws:
        raise InputError(
            f"rng_bit_generator by the algorithm {algorithm!r}, whose bits are not defined",
            remedy=f"name one of {', '.join(draws)}",
        )
    is_wide = np.dtype(dtype) == np.uint64
    is_u64 = shape_of(state) == (2,)
    words = rnp.reshape(bitcast_convert_type(state, np.uint32), (4,)) if is_u64 else state
    position = bitcast_convert_type(words[2:], np.uint64)
    bits, used = draws[algorithm](words[0], words[1], position, shape, is_wide)
    moved = bitcast_convert_type(position + np.uint64(used), np.uint32)
    after = rnp.concatenate([words[:2], moved])
    if is_u64:
        after = bitcast_convert_type(rnp.reshape(after, (2, 2)), np.uint64)
    return after, convert_element_type(bits, np.dtype(dtype))


def _counters(position: Any, count: int) -> tuple[Any, Any, Any]:
    """Return `count` numbers from a position on: u64, and their words, the lower one first."""
    numbers = position + rnp.arange(count, dtype=np.uint64)
    words = bitcast_convert_type(numbers, np.uint32)
    return numbers, words[:, 0], words[:, 1]


def _threefry_bits(
    key0: Any, key1: Any, position: Any, shape: tuple[int, ...], is_wide: bool
) -> tuple[Any, int]:
    """Return bits, and how many counters they take."""
    if is_wide:
        count = math.prod(shape)
        pairs = rnp.stack(threefry2x32(key0, key1, *_counters(position, count)[1:]), -1)
        return rnp.reshape(bitcast_convert_type(pairs, np.uint64), shape), count
    full = shape or (1,)
    evens = (axis for axis, extent in enumerate(full) if extent % 2 == 0)
    axis = next(evens, int(np.argmax(full)))
    half = (*full[:axis], -(-full[axis] // 2), *full[axis + 1 :])
    count = math.prod(half)
    words = threefry2x32(key0, key1, *_counters(position, count)[1:])
    pairs = rnp.stack([rnp.reshape(w, half) for w in words], axis + 1)
    whole = rnp.reshape(pairs, (*half[:axis], 2 * half[axis], *half[axis + 1 :]))
    return rnp.reshape(slice_in_dim(whole, 0, full[axis], axis=axis), shape), count


def _philox_bits(
    key0: Any, key1: Any, position: Any, shape: tuple[int, ...], is_wide: bool
) -> tuple[Any, int]:
    """Return bits, and how many counters they take; the counter's upper half is the key."""
    count = math.prod(shape)
    blocks = -(-count * (2 if is_wide else 1) // _PHILOX_WORDS)
    numbers, low, high = _counters(position, blocks)
    carry = convert_element_type(numbers < position, np.uint64)
    upper = bitcast_convert_type(rnp.stack([key0, key1]), np.uint64) + carry
    upper_words = bitcast_convert_type(upper, np.uint32)
    words = rnp.ravel(
        rnp.stack(philox4x32(key0, key1, low, high, upper_words[:, 0], upper_words[:, 1]), -1)
    )
    if is_wide:
        words = bitcast_convert_type(rnp.reshape(words, (-1, 2)), np.uint64)
    return rnp.reshape(words[:count], shape), blocks
