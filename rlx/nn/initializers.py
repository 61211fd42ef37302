"""Initial values of parameters, as NumPy arrays.

`generator` is a NumPy `Generator`, or a seed. Fans are the extents of `in_axis` and `out_axis`
times those of all other axes: the last two axes for `x @ w` and convolutions with channels last;
`in_axis=1, out_axis=0` for convolutions with channels first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.ir.dtype import as_array_dtype
from rlx.ir.shape import normalize_axis
from rlx.public_names import names_of as _names_of

Random: TypeAlias = np.random.Generator | int
Array: TypeAlias = NDArray[Any]


def normal(
    generator: Random, shape: Sequence[int], dtype: Any = "f32", *, stddev: float = 1.0
) -> Array:
    """Normally distributed with mean 0."""
    drawn = np.random.default_rng(generator).standard_normal(shape) * stddev
    return drawn.astype(as_array_dtype(dtype).numpy)


def uniform(
    generator: Random, shape: Sequence[int], dtype: Any = "f32", *, limit: float = 1.0
) -> Array:
    """Uniform in [-limit, limit)."""
    drawn = np.random.default_rng(generator).uniform(-limit, limit, shape)
    return drawn.astype(as_array_dtype(dtype).numpy)


def glorot_uniform(
    generator: Random,
    shape: Sequence[int],
    dtype: Any = "f32",
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Array:
    """Variance `2 / (fan_in + fan_out)`, uniform: for tanh and attention."""
    fan_in, fan_out = fans(shape, in_axis, out_axis)
    return uniform(generator, shape, dtype, limit=math.sqrt(6 / (fan_in + fan_out)))


def glorot_normal(
    generator: Random,
    shape: Sequence[int],
    dtype: Any = "f32",
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Array:
    """Variance `2 / (fan_in + fan_out)`, normal."""
    fan_in, fan_out = fans(shape, in_axis, out_axis)
    return normal(generator, shape, dtype, stddev=math.sqrt(2 / (fan_in + fan_out)))


def he_uniform(
    generator: Random,
    shape: Sequence[int],
    dtype: Any = "f32",
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Array:
    """Variance `2 / fan_in`, uniform: for relu."""
    return uniform(generator, shape, dtype, limit=math.sqrt(6 / fans(shape, in_axis, out_axis)[0]))


def he_normal(
    generator: Random,
    shape: Sequence[int],
    dtype: Any = "f32",
    *,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Array:
    """Variance `2 / fan_in`, normal."""
    return normal(generator, shape, dtype, stddev=math.sqrt(2 / fans(shape, in_axis, out_axis)[0]))


def zeros(shape: Sequence[int], dtype: Any = "f32") -> Array:
    return np.zeros(shape, as_array_dtype(dtype).numpy)


def ones(shape: Sequence[int], dtype: Any = "f32") -> Array:
    return np.ones(shape, as_array_dtype(dtype).numpy)


def fans(shape: Sequence[int], in_axis: int = -2, out_axis: int = -1) -> tuple[int, int]:
    """Return how many inputs and outputs a weight of `shape` connects; at least 1 each."""
    if len(shape) < 2:
        size = max(math.prod(shape), 1)
        return size, size
    in_axis, out_axis = (normalize_axis(axis, len(shape)) for axis in (in_axis, out_axis))
    ends = (in_axis, out_axis)
    field = math.prod(extent for axis, extent in enumerate(shape) if axis not in ends)
    return max(shape[in_axis] * field, 1), max(shape[out_axis] * field, 1)


__dir__ = _names_of(__name__)
