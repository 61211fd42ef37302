"""The real Schur form of one matrix in NumPy: steps of QR with two shifts, block by block."""

from __future__ import annotations

import numpy as np

from rlx.ir.reference.registry import Array

_MOST_STEPS = 30
"""Per eigenvalue; two or three do."""


def real_schur(a: Array) -> tuple[Array, Array]:
    """Return the form and its basis; NaN where the iteration does not end."""
    t, z = _hessenberg(a)
    high, steps, since = len(a) - 1, 0, 0
    while high >= 0:
        low = _split_off(t, high)
        if low < high - 1:
            since, steps = since + 1, steps + 1
            if steps > _MOST_STEPS * len(a):
                return np.full_like(a, np.nan), np.full_like(a, np.nan)
            _step(t, z, low, high, is_exceptional=since % 10 == 0)
            continue
        if low == high - 1:
            _turn_pair(t, z, low)
        high, since = low - 1, 0
    return np.triu(t, -1), z


def _hessenberg(a: Array) -> tuple[Array, Array]:
    t, z = a.copy(), np.eye(len(a), dtype=a.dtype)
    for c in range(len(a) - 2):
        q, _ = np.linalg.qr(t[c + 1 :, c : c + 1], "complete")
        t[c + 1 :], z[:, c + 1 :] = q.T @ t[c + 1 :], z[:, c + 1 :] @ q
        t[:, c + 1 :] = t[:, c + 1 :] @ q
        t[c + 2 :, c] = 0
    return t, z


def _split_off(t: Array, high: int) -> int:
    """Return where the last block begins; entries that are negligible become 0."""
    low = 0
    for i in range(1, high + 1):
        scale = np.abs(t[i, i]) + np.abs(t[i - 1, i - 1])
        if np.abs(t[i, i - 1]) <= np.finfo(t.dtype).eps * (scale or 1):
            low, t[i, i - 1] = i, 0
    return low


def _step(t: Array, z: Array, low: int, high: int, *, is_exceptional: bool) -> None:
    """Turn by the orthogonal factor of `(h - s1) (h - s2)`, the shifts those of the last pair."""
    block = slice(low, high + 1)
    h = t[block, block]
    trace = h[-1, -1] + h[-2, -2]
    product = h[-1, -1] * h[-2, -2] - h[-1, -2] * h[-2, -1]
    if is_exceptional:
        size = np.abs(h[-1, -2]) + np.abs(h[-2, -3])
        corner = h[-1, -1] + 0.75 * size
        trace, product = 2 * corner, corner * corner + 0.4375 * size * size
    q, _ = np.linalg.qr(h @ h - trace * h + product * np.eye(len(h), dtype=t.dtype))
    t[block], z[:, block] = q.T @ t[block], z[:, block] @ q
    t[:, block] = t[:, block] @ q
    t[block, block] = np.triu(t[block, block], -1)


def _turn_pair(t: Array, z: Array, low: int) -> None:
    """Make a block of two a triangle, or its diagonal equal where its eigenvalues are complex.

    The larger of the off-diagonal entries is then above the diagonal.
    """
    pair = slice(low, low + 2)
    (a, b), (c, d) = t[pair, pair]
    half, both = (a - d) / 2, (b + c) / 2
    square = half * half + b * c
    if square < 0:
        angle = (np.arctan2(-half, both) if b >= c else np.arctan2(half, -both)) / 2
    else:
        root = np.copysign(np.sqrt(square), half)
        angle = np.arctan2(c, half + root) if c != 0 else 0.0
    x, y = np.cos(angle), np.sin(angle)
    turn = np.array([[x, y], [-y, x]], t.dtype)
    t[pair], t[:, pair], z[:, pair] = turn @ t[pair], t[:, pair], z[:, pair] @ turn.T
    t[:, pair] = t[:, pair] @ turn.T
    if square < 0:
        t[low, low] = t[low + 1, low + 1] = (a + d) / 2
    else:
        t[low + 1, low] = 0
