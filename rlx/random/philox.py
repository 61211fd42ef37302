"""Random numbers by Philox-4x32-10 from a seed and a key, without state.

    uniform(42, 1, (3,))        the same at every call, whatever else is drawn

Uniform numbers have 24 random bits; normal ones are by Box and Muller, one of two words.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Shape
from rlx.numpy import elementwise as e
from rlx.numpy.axes import shape_from
from rlx.public_names import names_of as _names_of
from rlx.random.keys import WORD, random_words
from rlx.random.keys import key as key_of
from rlx.runtime.arrays import Array
from rlx.tracing.apply import convert, emit, function

_GOLDEN = 0x9E3779B97F4A7C15
_TINY = np.float32(2.0**-126)


def mixed(seed: int, key: int) -> int:
    """Return the 64 bits with which the generator of node `key` starts."""
    return (seed + key * _GOLDEN) % (1 << 64)


@function
def uniform(seed: int, key: int, shape: Any = (), low: float = 0.0, high: float = 1.0) -> Array:
    """Uniform in [low, high), as f32."""
    drawn = _unit(mixed(seed, key), shape_from(shape))
    width = np.float32(high) - np.float32(low)
    return e.add(np.float32(low), e.multiply(drawn, width))


@function
def normal(seed: int, key: int, shape: Any = (), mean: float = 0.0, scale: float = 1.0) -> Array:
    """Normally distributed, as f32."""
    extents = shape_from(shape)
    pairs: Any = _unit(mixed(seed, key), (math.prod(extents) * 2,)).reshape((*extents, 2))
    radius = e.sqrt(e.multiply(-2.0, e.log(e.maximum(pairs[..., 0], np.float32(2.0**-126)))))
    angle = e.multiply(np.float32(2 * math.pi), pairs[..., 1])
    turned = e.multiply(radius, e.cos(angle))
    return e.add(np.float32(mean), e.multiply(np.float32(scale), turned))


@function
def sample(
    logits: Any,
    seed: Any,
    *,
    top_k: int = 0,
    top_p: float = 1.0,
    temperature: float = 1.0,
    offset: Any = 0,
) -> Array:
    """Draw an index of each row of `logits`, `[..., vocabulary]`: as i32.

    Of each row the `top_k` largest (0: all; equals of the last one stay) are candidates, and of
    these the likeliest that together reach `top_p`. Row b takes word `offset + b` of the seed's
    stream, so that the steps of a text draw different numbers; seed 0 is a seed like any other, and
    a traced seed changes without another compilation. A row with NaN or inf, or of
    nothing but -inf, is an `IndexOutOfRangeError`.
    """
    logits = rnp.asarray(logits, np.float32)
    rows: Any = logits.reshape((-1, logits.shape[-1])) / np.float32(max(temperature, 1e-6))
    count = rows.shape[-1]
    if 0 < top_k < count:
        least = rnp.sort(rows, axis=-1)[:, count - top_k, None]
        rows = rnp.where(rows < least, np.float32(-math.inf), rows)
    largest = rnp.max(rows, axis=-1, keepdims=True)
    weights = rnp.exp(rows - largest)
    shares = _normalized(weights)
    if top_p < 1:
        shares = _normalized(_likeliest(shares, top_p))
    drawn = _words_from(seed, offset, rows.shape[0])[:, None]
    possible = shares > 0
    reached = possible & (drawn <= rnp.cumsum(shares, axis=-1))
    last = count - 1 - rnp.argmax(possible[:, ::-1], axis=-1)
    found = rnp.where(rnp.any(reached, axis=-1), rnp.argmax(reached, axis=-1), last)
    is_wrong = ~rnp.isfinite(largest[:, 0])
    numbers = np.arange(count, dtype=np.int32)
    checked = emit(ops.gather, numbers, rnp.where(is_wrong, -1, found).astype(np.int32), axis=0)
    return rnp.reshape(checked, logits.shape[:-1])


def _normalized(weights: Any) -> Any:
    return weights * (1 / rnp.maximum(rnp.sum(weights, axis=-1, keepdims=True), _TINY))


def _likeliest(shares: Any, top_p: float) -> Any:
    """Keep the likeliest shares that together reach `top_p`; equals come in order."""
    order = rnp.argsort(-shares, axis=-1)
    falling = rnp.take_along_axis(shares, order, axis=-1)
    before = rnp.pad(rnp.cumsum(falling, axis=-1)[:, :-1], ((0, 0), (1, 0)))
    kept = rnp.where(before < np.float32(top_p), falling, np.float32(0))
    return rnp.take_along_axis(kept, rnp.argsort(order, axis=-1), axis=-1)


def _words_from(seed: Any, offset: Any, count: int) -> Any:
    """Return `count` numbers in [0, 1) of a seed's stream, from word `offset` on."""
    place = rnp.asarray(offset, np.uint32) + np.arange(count, dtype=np.uint32)
    block, zero = e.right_shift(place, 2), np.uint32(0)
    words = [
        emit(ops.philox4x32, *_key_words(seed), block, zero, zero, zero, word=word)
        for word in range(4)
    ]
    which = place & np.uint32(3)
    chosen: Any = rnp.select([which == np.uint32(word) for word in range(4)], words)
    return e.multiply(convert(e.right_shift(chosen, 8), DType.F32), np.float32(2.0**-24))


def _key_words(seed: Any) -> tuple[Any, Any]:
    """Return the lower and the upper word of a seed, which may be traced."""
    if isinstance(seed, int):  # all 64 bits, without 64-bit types, too
        return np.uint32(seed & WORD), np.uint32(seed >> 32 & WORD)
    words = key_of(seed, impl="philox4x32")
    return words[0], words[1]


def _unit(state: int, shape: Shape) -> Any:
    words: Array = random_words(key_of(state, impl="philox4x32"), shape, "both")
    return e.multiply(convert(e.right_shift(words, 8), DType.F32), np.float32(2.0**-24))


__dir__ = _names_of(__name__)
