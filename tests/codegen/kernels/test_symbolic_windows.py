"""Windows that move in steps over symbolic extents: one program for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.errors import RlxError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim, Shape
from rlx.runtime.compile import compile as compile_graph

N, M = Dim("n", max=40, min=1), Dim("m", max=33)
BINDINGS = ({"n": 2, "m": 4}, {"n": 8, "m": 11}, {"n": 37, "m": 33})


def pooled(name: str, **geometry: Any) -> Callable[[Value], Value]:
    return lambda x: getattr(ops, name)(x, **geometry)


def convolved(**geometry: Any) -> Callable[[Value, Value], Value]:
    return lambda x, w: ops.relu(ops.conv(x, w, **geometry))


CASES: dict[str, tuple[Callable[..., Value], tuple[Shape, ...], tuple[Any, ...]]] = {
    "one-axis": (convolved(stride=(2,), padding=((1, 1),)), ((2, 3, N), (5, 3, 3)),
                 ((N + 1) // 2,)),
    "two-axes": (convolved(stride=(2, 3), padding=((1, 0), (2, 1))), ((1, 3, N, M), (5, 3, 3, 3)),
                 (N // 2, M // 3 + 1)),
    "tiles": (convolved(stride=(1, 2), padding=((1, 1), (1, 1))), ((1, 32, 6, N), (32, 32, 3, 3)),
              (6, (N + 1) // 2)),
    "channels-last": (
        lambda x, w: ops.conv(ops.relu(ops.conv(x, w, padding=((1, 1), (1, 1)))), w,
                              stride=(2, 2), padding=((1, 1), (1, 1))),
        ((1, 32, N, M), (32, 32, 3, 3)), ((N + 1) // 2, (M + 1) // 2)),
    "depthwise": (convolved(stride=(2, 1), padding=((1, 1), (1, 1)), groups=16),
                  ((1, 16, 8, N), (16, 1, 3, 3)), (4, N)),
    "single-taps": (convolved(stride=(2, 2)), ((1, 16, 8, N), (24, 16, 1, 1)), (4, (N + 1) // 2)),
    "max_pool": (pooled("max_pool", kernel_size=(3, 2), stride=(2, 2), padding=(1, 0)),
                 ((2, 3, N, M),), ((N + 1) // 2, M // 2)),
    "ceil_mode": (pooled("max_pool", kernel_size=(3, 2), stride=(2, 3), padding=(1, 1),
                         ceil_mode=True), ((2, 3, N, M),), (N // 2 + 1, M // 3 + 1)),
    "mean_pool": (pooled("mean_pool", kernel_size=(3,), stride=(2,), padding=(1,)), ((2, 3, N),),
                  ((N + 1) // 2,)),
}  # fmt: skip


def graph_of(name: str) -> Graph:
    build, shapes, _ = CASES[name]
    graph = Graph(name.replace("-", "_"))
    leaves = [graph.input("x", shapes[0]), *(graph.param("w", shape) for shape in shapes[1:])]
    graph.set_outputs([build(*leaves)])
    return graph


def arrays(graph: Graph, binding: dict[str, int]) -> dict[str, Any]:
    random = np.random.default_rng(3)
    shapes = {
        str(leaf.node.name): [e if isinstance(e, int) else e.evaluate(binding) for e in leaf.shape]
        for leaf in (*graph.params, *graph.inputs)
    }
    return {
        name: random.normal(scale=0.1, size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_the_extents_of_results_are_quotients(name: str) -> None:
    assert graph_of(name).outputs[0].shape[2:] == CASES[name][2]


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("name", CASES)
def test_one_program_serves_all_extents(name: str, backend: str) -> None:
    graph = graph_of(name)
    params = {k: v for k, v in arrays(graph, BINDINGS[0]).items() if k == "w"}
    run = compile_graph(graph, backend=backend, params=params)
    for binding in BINDINGS:
        feeds = arrays(graph, binding) | params
        (expected,) = evaluate(graph, feeds)
        (found,) = run(feeds["x"])
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)


def test_windows_that_do_not_fit_an_extent_are_refused_at_the_call() -> None:
    graph = Graph("short")
    graph.set_outputs([ops.max_pool(graph.input("x", (M, M)), kernel_size=(4, 4), stride=(2, 2))])
    run = compile_graph(graph, backend="llvm")
    assert run(np.ones((4, 4), np.float32))[0].shape == (1, 1)
    with pytest.raises(RlxError, match="larger than the padded extent 3"):
        run(np.ones((3, 3), np.float32))
