"""Reductions whose extents do not fit blocks, passes and vectors, for both backends."""

from __future__ import annotations

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.ir import ops
from rlx.ir.graph import Graph

BACKENDS = ("c", "llvm")


def check(backend: str, shape: tuple[int, ...], axis: int, dtype: str = "f32") -> None:
    """Compare sum and maximum over one axis with NumPy; a NaN stays in its own maximum."""
    g = Graph("reduction")
    x = g.input("x", shape, dtype)
    g.set_outputs([ops.reduce_sum(x, axes=(axis,)), ops.reduce_max(x, axes=(axis,))])
    data = np.random.default_rng(5).standard_normal(shape).astype(x.dtype.numpy)
    compiled = runtime.compile(g, backend=backend, threads=1)
    total, largest = compiled.run({"x": data})
    np.testing.assert_allclose(total, data.sum(axis), atol=1e-4)
    np.testing.assert_array_equal(largest, data.max(axis))
    data[(1,) * len(shape)] = np.nan
    _, largest = compiled.run({"x": data})
    np.testing.assert_array_equal(largest, data.max(axis))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(8, 70), (9, 1030), (37, 300), (1031, 5)])
def test_columns_of_any_height_and_width(backend: str, shape: tuple[int, ...]) -> None:
    check(backend, shape, 0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [256, 257, 335, 4096 + 65])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_of_any_length(backend: str, length: int, dtype: str) -> None:
    check(backend, (3, length), 1, dtype)
