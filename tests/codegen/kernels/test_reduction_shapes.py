"""Reductions whose extents do not fit blocks, passes and vectors, for both backends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.codegen.loops.nodes import Prefetch
from rlx.codegen.loops.visit import walk
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.runtime.executable import Executable
from rlx.runtime.lower import lower_for
from rlx.target import detect_target

BACKENDS = ("c", "llvm")


def check(backend: str, shape: tuple[int, ...], axis: int, dtype: str = "f32") -> None:
    """Compare sum and maximum over one axis with NumPy, each alone and both in one pass.

    A NaN stays in its own maximum.
    """
    g = Graph("reduction")
    x, y, both = (g.input(name, shape, dtype) for name in ("x", "y", "both"))
    sums = [ops.reduce_sum(x, axes=(axis,)), ops.reduce_sum(both, axes=(axis,))]
    g.set_outputs([*sums, ops.reduce_max(y, axes=(axis,)), ops.reduce_max(both, axes=(axis,))])
    data = np.random.default_rng(5).standard_normal(shape).astype(x.dtype.numpy)
    compiled = runtime.compile(g, backend=backend, threads=1)
    assert isinstance(compiled, Executable)
    assert len(compiled.schedule.thunks) == 3
    *totals, alone, together = compiled.run({"x": data, "y": data, "both": data})
    for total in totals:
        np.testing.assert_allclose(total, data.sum(axis), atol=1e-4)
    for largest in (alone, together):
        np.testing.assert_array_equal(largest, data.max(axis))
    data[(1,) * len(shape)] = np.nan
    *_, alone, together = compiled.run({"x": data, "y": data, "both": data})
    for largest in (alone, together):
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


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_extrema_of_eight_lines_at_once_are_written_out_once_each(dtype: str) -> None:
    g = Graph("extremum")
    g.set_outputs([ops.reduce_min(g.input("x", (33, 5), dtype), axes=(0,))])
    compiled = runtime.compile(g, backend="c", threads=1)
    assert isinstance(compiled, Executable)
    assert compiled.c_source.count(" ? ") == 8 + 1  # eight in the pass, one for the line left over


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [4, 2000])
def test_softmax_prefetches_the_next_row_of_what_exceeds_the_cache(backend: str, rows: int) -> None:
    g = Graph("softmax")
    g.set_outputs([g.softmax(g.input("x", (rows, 1030)), axis=-1)])
    target = replace(detect_target(), l2=1 << 20, has_vectors=True)
    program = lower_for(g, target)
    (kernel,) = [k for k in program.kernels.values() if "softmax" in k.name]
    assert any(isinstance(s, Prefetch) for s in walk(kernel.body)) == (rows == 2000)
    x = np.random.default_rng(6).standard_normal((rows, 1030)).astype(np.float32)
    weights = np.exp(x - x.max(1, keepdims=True))
    (found,) = runtime.compile(g, backend=backend, threads=1).run({"x": x})
    np.testing.assert_allclose(found, weights / weights.sum(1, keepdims=True), rtol=3e-6)
