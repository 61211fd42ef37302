"""Counter-based generators in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference

THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Of the rounds before each of the five times that the key is added, by turns."""
THREEFRY_PARITY = 0x1BD11BDA


@reference(ops.threefry2x32)
def threefry2x32(key0: Array, key1: Array, count0: Array, count1: Array, *, word: str) -> Array:
    keys = (key0, key1, key0 ^ key1 ^ np.uint32(THREEFRY_PARITY))
    shape = np.broadcast_shapes(*(each.shape for each in (key0, key1, count0, count1)))
    x = np.broadcast_to(count0 + key0, shape).copy()
    y = np.broadcast_to(count1 + key1, shape).copy()
    for turn in range(5):
        for distance in THREEFRY_ROTATIONS[turn % 2]:
            x += y
            y = (y << np.uint32(distance)) | (y >> np.uint32(32 - distance))
            y ^= x
        x += keys[(turn + 1) % 3]
        y += keys[(turn + 2) % 3] + np.uint32(turn + 1)
    return {"first": x, "second": y, "both": x ^ y}[word]


PHILOX_MULTIPLIERS = (0xD2561A75, 0xCD9E8D57)
PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)
"""What is added to the two words of the key after each of the ten rounds."""


@reference(ops.philox4x32)
def philox4x32(key0: Array, key1: Array, *counter: Array, word: int) -> Array:
    shape = np.broadcast_shapes(*(each.shape for each in (key0, key1, *counter)))
    c = [np.broadcast_to(each, shape).astype(np.uint64) for each in counter]
    keys = [np.asarray(each).astype(np.uint64) for each in (key0, key1)]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = (np.uint64(m) * x for m, x in zip(PHILOX_MULTIPLIERS, c[::2], strict=True))
        c = [
            *(second >> np.uint64(32) ^ c[1] ^ keys[0], second & low),
            *(first >> np.uint64(32) ^ c[3] ^ keys[1], first & low),
        ]
        keys = [(k + np.uint64(s)) & low for k, s in zip(keys, PHILOX_STEPS, strict=True)]
    return c[word].astype(np.uint32)
