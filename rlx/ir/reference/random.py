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
