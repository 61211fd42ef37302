"""Random numbers: of a key made of the seed, the same at every run."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx import random
from rlx.onnx.operators.shape import integers
from rlx.onnx.registry import operator
from rlx.onnx.types import numpy_dtype


def _key(seed: float | None) -> Any:
    return random.key(0 if seed is None else int(seed) & 0x7FFFFFFF)


@operator("RandomUniform")
def random_uniform(
    *, shape: Any, low: float = 0.0, high: float = 1.0, dtype: int = 1, seed: float | None = None
) -> Any:
    made = random.uniform(_key(seed), integers(shape), minval=low, maxval=high)
    return rnp.astype(made, numpy_dtype(dtype))


@operator("RandomUniformLike")
def random_uniform_like(
    x: Any, *, low: float = 0.0, high: float = 1.0, dtype: int | None = None,
    seed: float | None = None,
) -> Any:  # fmt: skip
    made = random.uniform(_key(seed), tuple(x.shape), minval=low, maxval=high)
    return rnp.astype(made, x.dtype if dtype is None else numpy_dtype(dtype))


@operator("RandomNormal")
def random_normal(
    *, shape: Any, mean: float = 0.0, scale: float = 1.0, dtype: int = 1,
    seed: float | None = None,
) -> Any:  # fmt: skip
    made = random.normal(_key(seed), integers(shape)) * scale + mean
    return rnp.astype(made, numpy_dtype(dtype))


@operator("RandomNormalLike")
def random_normal_like(
    x: Any, *, mean: float = 0.0, scale: float = 1.0, dtype: int | None = None,
    seed: float | None = None,
) -> Any:  # fmt: skip
    made = random.normal(_key(seed), tuple(x.shape)) * scale + mean
    return rnp.astype(made, x.dtype if dtype is None else numpy_dtype(dtype))


@operator("Multinomial")
def multinomial(x: Any, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Classes drawn for every row, with the probabilities whose logarithms are given."""
    drawn = random.categorical(_key(seed), x, axis=-1, shape=(sample_size, x.shape[0]))
    return rnp.astype(rnp.swapaxes(drawn, 0, 1), numpy_dtype(dtype))
