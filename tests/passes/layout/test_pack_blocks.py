"""Packed weights are laid side by side once; what changes is read in place."""

from __future__ import annotations

from rlx.ir.graph import Graph, Value
from rlx.ir.lowering import Schedule
from rlx.ir.printer import format_graph
from rlx.passes.layout.choices import Choice, Why
from rlx.passes.layout.pack_blocks import pack_blocks
from rlx.passes.layout.prepared import is_prepared
from rlx.target import Target, detect_target

TARGET: Target = detect_target()


def packed(rows: int, *, weights_change: bool = False) -> tuple[Graph, list[Choice]]:
    """Return a product after the pass, and what was chosen."""
    g = Graph("product")
    leaf = g.input if weights_change else g.param
    x, w = g.input("x", (rows, 64)), leaf("w", (48, 36), "u8")
    g.set_outputs([g.dequant_matmul(x, w, scheme="q4_0")])
    choices: list[Choice] = []
    rewritten = pack_blocks(TARGET, lambda _node, choice: choices.append(choice)).rewrite(g)
    return rewritten.graph, choices


def test_few_rows_stream_the_blocks_by() -> None:
    graph, (choice,) = packed(2)
    lanes = TARGET.lanes(4)
    assert choice.lowering == Schedule(2, lanes, lanes)
    assert f"u8[36, 48]{{panels(width = {lanes})}} = pack_panels" in format_graph(graph)


def test_many_rows_use_decoded_blocks() -> None:
    _, (choice,) = packed(30)
    assert isinstance(choice.lowering, Schedule)
    assert choice.lowering.left == "in_place"
    assert choice.why is Why.BLOCKS_DECODED


def test_blocks_that_change_are_read_in_place() -> None:
    graph, (choice,) = packed(2, weights_change=True)
    assert choice.why is Why.BLOCKS_IN_PLACE
    assert "pack_panels" not in format_graph(graph)


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
