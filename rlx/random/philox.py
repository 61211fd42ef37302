"""The numbers of section 12 of the specification: a node's draws of a seed and the node's key.

    uniform(42, 1, (3,))        the same at every call, whatever else is drawn

Uniform numbers have 24 random bits; normal ones are by Box and Muller, one of two words.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.ir.dtype import DType
from rlx.numpy import elementwise as e
from rlx.random.keys import Shape, random_words, shape_of_draw
from rlx.random.keys import key as key_of
from rlx.tracing.apply import convert, function
from rlx.tracing.tracer import Tracer

_GOLDEN = 0x9E3779B97F4A7C15


def mixed(seed: int, key: int) -> int:
    """Return the 64 bits with which the generator of node `key` starts."""
    return (seed + key * _GOLDEN) % (1 << 64)


@function
def uniform(seed: int, key: int, shape: Any = (), low: float = 0.0, high: float = 1.0) -> Any:
    """Uniform in [low, high), as f32."""
    drawn = _unit(mixed(seed, key), shape_of_draw(shape))
    width = np.float32(high) - np.float32(low)
    return e.add(np.float32(low), e.multiply(drawn, width))


@function
def normal(seed: int, key: int, shape: Any = (), mean: float = 0.0, scale: float = 1.0) -> Any:
    """Normally distributed, as f32."""
    extents = shape_of_draw(shape)
    pairs: Any = _unit(mixed(seed, key), (math.prod(extents) * 2,)).reshape((*extents, 2))
    radius = e.sqrt(e.multiply(-2.0, e.log(e.maximum(pairs[..., 0], np.float32(2.0**-126)))))
    angle = e.multiply(np.float32(2 * math.pi), pairs[..., 1])
    turned = e.multiply(radius, e.cos(angle))
    return e.add(np.float32(mean), e.multiply(np.float32(scale), turned))


def _unit(state: int, shape: Shape) -> Any:
    words: Tracer = random_words(key_of(state, impl="philox4x32"), shape, "both")
    return e.multiply(convert(e.right_shift(words, 8), DType.F32), np.float32(2.0**-24))
