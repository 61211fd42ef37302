"""Reductions that share a pass compute what each computes alone, for both backends."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
import rlx.runtime.compile as runtime
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.fusion.split_reductions import LARGE
from rlx.runtime.executable import Executable

BACKENDS = ("c", "llvm")


def siblings(x: Value, axes: tuple[int, ...]) -> list[Value]:
    """Return folds of one value that share a pass, with a result of two of them."""
    total, squares = ops.reduce_sum(x, axes=axes), ops.reduce_sum(x * x, axes=axes)
    if x.dtype.is_complex:
        return [total * squares, total, squares]
    return [total + squares, total, ops.reduce_max(x, axes=axes), ops.reduce_min(x, axes=axes)]


def check(graph: Graph, backend: str, data: np.ndarray, *, threads: int = 1, rtol: float) -> None:
    compiled = runtime.compile(graph, backend=backend, threads=threads)
    found, expected = compiled.run({"x": data}), evaluate(graph, {"x": data})
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16", "i32", "u8", "c64"])
def test_every_dtype_along_rows_columns_and_both(backend: str, dtype: str) -> None:
    graph = Graph("dtypes")
    x = graph.input("x", (5, 9), dtype)
    graph.set_outputs([y for axes in ((1,), (0,), (0, 1)) for y in siblings(x, axes)])
    data = np.random.default_rng(2).integers(0, 4, (5, 9)).astype(x.dtype.numpy)
    check(graph, backend, data, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (7, 1), (3, 4101), (1030, 3)])
def test_empty_single_and_odd_extents(backend: str, shape: tuple[int, int]) -> None:
    graph = Graph("extents")
    x = graph.input("x", shape)
    graph.set_outputs([y for axes in ((1,), (0,)) for y in siblings(x, axes)])
    data = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    check(graph, backend, data, rtol=2e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("length", [20, 300])
def test_special_values_reach_the_results_that_alone_have_them(
    backend: str, special: float, length: int
) -> None:
    graph = Graph("special")
    x = graph.input("x", (3, length))
    graph.set_outputs([y for axes in ((1,), (0,)) for y in siblings(x, axes)])
    data = np.random.default_rng(4).standard_normal((3, length)).astype(np.float32)
    data[1, 7] = special
    check(graph, backend, data, rtol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(LARGE + 64,), (64, LARGE // 64), (600, 257)])
def test_large_ones_are_split_with_the_same_bits_on_two_threads(
    backend: str, shape: tuple[int, ...]
) -> None:
    graph = Graph("large")
    x = graph.input("x", shape, "f64")
    graph.set_outputs(siblings(x, tuple(range(len(shape)))))
    data = np.random.default_rng(5).standard_normal(shape)
    check(graph, backend, data, rtol=1e-9)
    one, two = (runtime.compile(graph, backend=backend, threads=n) for n in (1, 2))
    assert isinstance(one, Executable)
    assert len(one.schedule.thunks) == 2
    for a, b in zip(one.run({"x": data}), two.run({"x": data}), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_symbolic_extents(backend: str) -> None:
    n = rlx.Dim("n", max=40)
    graph = Graph("symbolic")
    x = graph.input("x", (n, 6))
    graph.set_outputs([y for axes in ((1,), (0,), (0, 1)) for y in siblings(x, axes)])
    for rows in (1, 17, 40):
        data = np.random.default_rng(6).standard_normal((rows, 6)).astype(np.float32)
        check(graph, backend, data, rtol=1e-4)
