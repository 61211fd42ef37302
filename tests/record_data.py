"""Makers of operand data for records: `maker(rng, shape, dtype) -> array`."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from rlx.ir.dtype import DType
from tests.records import Maker

Array = NDArray[Any]
Generator = np.random.Generator


def normal(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Standard normal; integers in [-9, 9] (unsigned: [0, 9]); coin flips for bool."""
    if dtype is DType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_int:
        low = -9 if dtype.is_signed_int else 0
        return rng.integers(low, 10, shape).astype(dtype.numpy)
    if dtype.is_complex:
        parts = rng.standard_normal((*shape, 2)).astype(dtype.part.numpy)
        numbers: Array = parts.view(dtype.numpy)[..., 0]
        return numbers
    drawn: Array = rng.standard_normal(shape)
    return drawn.astype(dtype.numpy)


def uniform(low: float, high: float) -> Maker:
    """Return a maker of numbers between `low` and `high` (complex: modulus and any angle)."""

    def make(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
        drawn = rng.uniform(low, high, shape)
        if dtype.is_complex:
            turned: Array = drawn * np.exp(1j * rng.uniform(-3, 3, shape))
            return turned.astype(dtype.numpy)
        rounded: Array = np.rint(drawn) if dtype.is_int else drawn
        return rounded.astype(dtype.numpy)

    return make


positive = uniform(0.5, 3.0)


def away_from_zero(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Magnitudes in [0.5, 3] of either sign where the dtype has one."""
    magnitude = positive(rng, shape, dtype)
    if not (dtype.is_float or dtype.is_signed_int):
        return magnitude
    return np.where(rng.integers(0, 2, shape) == 1, magnitude, -magnitude).astype(dtype.numpy)


def separate(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """A permutation of distinct numbers, 0.1 apart: no ties and no kinks within 0.04."""
    count = int(np.prod(shape))
    ordered = (rng.permutation(count) - count // 2) * (1.0 if dtype.is_int else 0.1) + 0.05
    return ordered.reshape(shape).astype(dtype.numpy)


def ties(rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Numbers in {0, 1, 2}: many equal ones."""
    return rng.integers(0, 3, shape).astype(dtype.numpy)


def indices(extent: int) -> Maker:
    """Return a maker of indices in [0, extent)."""
    return lambda rng, shape, dtype: rng.integers(0, extent, shape).astype(dtype.numpy)


def exactly(values: Any) -> Maker:
    """Return a maker of fixed values."""
    return lambda _rng, shape, dtype: np.array(values, dtype=dtype.numpy).reshape(shape)


EDGES = 24


def edges(_rng: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """The special values of the dtype, repeated to fill `shape`: use an axis of `EDGES`."""
    return np.resize(_special_values(dtype), shape)


def _special_values(dtype: DType) -> Array:
    if dtype is DType.BOOL:
        return np.array([False, True])
    if dtype.is_complex:
        parts = [0, 1, -1, 0.5, -2]
        return np.array([complex(a, b) for a in parts for b in parts][1:], dtype.numpy)
    if dtype.is_int:
        info = np.iinfo(dtype.numpy)
        near = [0, 1, 2, 3, 7, info.min, info.min + 1, info.max, info.max - 1, info.max // 2]
        signed = [-1, -2, -3, -7] if dtype.is_signed_int else []
        return np.resize(np.array(near + signed, dtype.numpy), EDGES)
    limits: Any = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call] # has no stubs
    halves = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5]
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-4, 10.0, -10.0, 100.0, -100.0]
    extreme = [limits.max, limits.min, limits.smallest_normal, limits.smallest_subnormal]
    return np.array([*special, *halves, *map(float, extreme), 0.1, 3.0], dtype.numpy)
