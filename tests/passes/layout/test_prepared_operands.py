"""What packing asks of a value: whether it is the same at every run."""

from __future__ import annotations

from rlx.ir.graph import Graph, Value
from rlx.passes.layout.prepared import is_prepared


def deep(graph: Graph, x: Value) -> Value:
    """Return a value two thousand nodes after `x`, over two ways at each."""
    for _ in range(1000):
        x = graph.add(graph.exp(x), x)
    return x


def test_a_value_far_behind_params_is_prepared() -> None:
    graph = Graph("deep")
    assert is_prepared(deep(graph, graph.param("w", (4, 4))))


def test_a_value_far_behind_an_input_is_not() -> None:
    graph = Graph("deep")
    assert not is_prepared(deep(graph, graph.input("x", (4, 4))))
