"""Pooling kernels beyond small cases: blocks of windows and of columns, long windows, threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate

CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "several blocks of windows": (
        (2, 9001), {"kernel_size": (3,), "stride": (2,), "padding": (1,)},
    ),
    "several blocks of columns": ((3, 9, 700), {"kernel_size": (4,), "stride": (3,), "inner": 1}),
    "a window longer than a block": (
        (2, 2, 5000), {"kernel_size": (2, 4200), "stride": (1, 300), "padding": (1, 7)},
    ),
}  # fmt: skip


def agrees(graph: Graph, backend: str, feeds: dict[str, Any]) -> None:
    compiled = runtime.compile(graph, backend=backend, threads=1)
    for found, expected in zip(compiled.run(feeds), evaluate(graph, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["c", "llvm"])
@pytest.mark.parametrize("case", CASES)
def test_large_pools_agree_with_the_reference(case: str, backend: str) -> None:
    shape, geometry = CASES[case]
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    graph = Graph("pools")
    value = graph.input("x", shape, "f32")
    largest = graph.max_pool(value, **geometry)
    graph.set_outputs(
        [
            largest,
            graph.sum_pool(value, **geometry),
            graph.max_pool_take(value, value * 2.0, **geometry),
            graph.max_pool_backward(value, largest, **geometry),
        ]
    )
    agrees(graph, backend, {"x": x})


def test_bits_are_the_same_on_two_threads() -> None:
    x = np.random.default_rng(0).standard_normal((4, 8, 64, 64)).astype(np.float32)
    graph = Graph("pools")
    value = graph.input("x", x.shape, "f32")
    geometry: dict[str, Any] = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}
    pooled = graph.sum_pool(value, **geometry)
    graph.set_outputs([pooled, graph.max_pool_backward(value, pooled, **geometry)])
    one, two = (
        runtime.compile(graph, backend="llvm", threads=threads).run({"x": x}) for threads in (1, 2)
    )
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "f16"])
@pytest.mark.parametrize("kind", ["max_pool", "min_pool", "sum_pool", "prod_pool"])
@pytest.mark.parametrize("width", [33])
def test_windows_two_apart_are_folded_in_vectors(kind: str, dtype: str, width: int) -> None:
    """Whole vectors, what is left of a row, padding, and work before and after."""
    g = Graph("pooled")
    x = g.input("x", (2, 3, 9, width), dtype)
    geometry = {"kernel_size": (3, 3), "stride": (2, 2), "padding": ((1, 1), (1, 1))}
    pooled = getattr(g, kind)(-x, **geometry)
    g.set_outputs([pooled + pooled])
    values = np.random.default_rng(4).integers(-2, 3, (2, 3, 9, width)).astype(x.dtype.numpy)
    if x.dtype.is_float and kind != "prod_pool":
        values[0, 1, 4, 5] = values[1, 2, 8, width - 1] = np.nan
        values[1, 0, 3, 7] = np.inf
    for backend in ("llvm", "c"):
        (found,) = runtime.compile(g, backend=backend).run({"x": values})
        np.testing.assert_array_equal(found, evaluate(g, {"x": values})[0])
