"""Programs with loops and branches, and their run through every backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.memory.check import check_plan
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target

Array: TypeAlias = NDArray[Any]
Feeds: TypeAlias = Mapping[str, Any]
Types: TypeAlias = dict[str, tuple[tuple[int, ...], str]]
Formula: TypeAlias = Callable[..., Value | Sequence[Value]]


def graph_of(
    name: str, types: Mapping[str, tuple[tuple[int, ...], str]], formula: Formula
) -> Graph:
    """Return the graph of `formula` over inputs of the given shapes and dtypes."""
    graph = Graph(name)
    results = formula(*(graph.input(n, shape, dtype) for n, (shape, dtype) in types.items()))
    graph.set_outputs([results] if isinstance(results, Value) else results)
    return graph


def everywhere(graph: Graph, feeds: Feeds, *, rtol: float = 1e-12) -> list[Any]:
    """Return the reference's results, after comparing them with LLVM's and C's, run twice."""
    expected = evaluate(graph, feeds)
    check_plan(lower_for(graph, detect_target()).plan)
    for backend in ("llvm", "c"):
        compiled = compile_graph(graph, backend=backend, threads=1)
        for _ in range(2):
            for found, wanted in zip(compiled.run(feeds), expected, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol)
                assert found.dtype == wanted.dtype
    return expected


def f64(*values: Any) -> Array:
    return np.array(values if len(values) > 1 else values[0], np.float64)


def cell(size: int) -> Graph:
    """Return a body with a carry, a matrix and rows: `n = tanh(c @ w + x)`; a row is `n * c`."""

    def step(c: Value, w: Value, x: Value) -> list[Value]:
        hidden = ops.matmul(ops.reshape(c, shape=(1, size)), w)
        following = ops.tanh(ops.reshape(hidden, shape=(size,)) + x)
        return [following, following * c]

    types = {"c": ((size,), "f64"), "w": ((size, size), "f64"), "x": ((size,), "f64")}
    return graph_of("cell", types, step)


def recurrent(
    size: int = 3, length: int = 11, *, checkpoints: int | None = None, reverse: bool = False
) -> Graph:
    """Return the loss of `cell` over `length` rows."""

    def loss(c: Value, w: Value, xs: Value) -> Value:
        last, rows = ops.scan(
            c, w, xs, body=cell(size), length=length, num_carries=1, num_consts=1,
            checkpoints=checkpoints, reverse=reverse,
        )  # fmt: skip
        total = ops.reduce_sum(last * last, axes=(0,))
        squares = ops.reduce_sum(rows * rows, axes=(0, 1))
        return total + squares

    types = {"c": ((size,), "f64"), "w": ((size, size), "f64"), "xs": ((length, size), "f64")}
    return graph_of("recurrent", types, loss)


def recurrent_feeds(size: int = 3, length: int = 11) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    shapes = {"c": (size,), "w": (size, size), "xs": (length, size)}
    return {name: rng.standard_normal(shape) / size**0.5 for name, shape in shapes.items()}


def growing(max_trips: int | None = 20) -> Graph:
    """Return a while loop that runs until its carry reaches 10: `a = a * k + sin(a)`."""
    types = {"a": ((), "f64"), "k": ((), "f64")}
    condition = graph_of("below_ten", types, lambda a, _: ops.lt(a, 10.0))
    body = graph_of("grow", types, lambda a, k: a * k + ops.sin(a))

    def loop(a: Value, k: Value) -> list[Value]:
        return list(
            ops.while_loop(a, k, condition=condition, body=body, num_consts=1, max_trips=max_trips)
        )

    return graph_of("growing", types, loop)
