"""Initial values of parameters, as NumPy arrays.

`generator` is a NumPy `Generator`, or a seed. Fans are the extents of the last two axes times
those before them, as for `x @ w` and convolutions with channels last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.ir.dtype import as_dtype

Random: TypeAlias = np.random.Generator | int
Array: TypeAlias = NDArray[Any]


def normal(
    generator: Random, shape: Sequence[int], dtype: Any = "f32", *, stddev: float = 1.0
) -> Array:
    """Normally distributed with mean 0."""
    drawn = np.random.default_rng(generator).standard_normal(shape) * stddev
    return drawn.astype(as_dtype(dtype).numpy)


def uniform(
    generator: Random, shape: Sequence[int], dtype: Any = "f32", *, limit: float = 1.0
) -> Array:
    """Uniform in [-limit, limit)."""
    drawn = np.random.default_rng(generator).uniform(-limit, limit, shape)
    return drawn.astype(as_dtype(dtype).numpy)


def glorot_uniform(generator: Random, shape: Sequence[int], dtype: Any = "f32") -> Array:
    """Variance `2 / (fan_in + fan_out)`, uniform: for tanh and attention."""
    fan_in, fan_out = fans(shape)
    return uniform(generator, shape, dtype, limit=math.sqrt(6 / (fan_in + fan_out)))


def glorot_normal(generator: Random, shape: Sequence[int], dtype: Any = "f32") -> Array:
    """Variance `2 / (fan_in + fan_out)`, normal."""
    fan_in, fan_out = fans(shape)
    return normal(generator, shape, dtype, stddev=math.sqrt(2 / (fan_in + fan_out)))


def he_uniform(generator: Random, shape: Sequence[int], dtype: Any = "f32") -> Array:
    """Variance `2 / fan_in`, uniform: for relu."""
    return uniform(generator, shape, dtype, limit=math.sqrt(6 / fans(shape)[0]))


def he_normal(generator: Random, shape: Sequence[int], dtype: Any = "f32") -> Array:
    """Variance `2 / fan_in`, normal."""
    return normal(generator, shape, dtype, stddev=math.sqrt(2 / fans(shape)[0]))


def zeros(shape: Sequence[int], dtype: Any = "f32") -> Array:
    return np.zeros(shape, as_dtype(dtype).numpy)


def ones(shape: Sequence[int], dtype: Any = "f32") -> Array:
    return np.ones(shape, as_dtype(dtype).numpy)


def fans(shape: Sequence[int]) -> tuple[int, int]:
    """Return how many inputs and outputs a weight of `shape` connects; at least 1 each."""
    if len(shape) < 2:
        size = max(math.prod(shape), 1)
        return size, size
    field = math.prod(shape[:-2])
    return max(shape[-2] * field, 1), max(shape[-1] * field, 1)
