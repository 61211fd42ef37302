"""The schedule as text shows how each kernel computes: the records of nodes and of anchors."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.runtime.lower import lower_for
from rlx.target import named_target


def test_a_call_shows_the_record_of_its_node_or_anchor() -> None:
    body = Graph("step")
    body.set_outputs([body.tanh(body.input("c", (3,)))])
    graph = Graph("shown")
    x, w = graph.input("x", (8, 384)), graph.param("w", (384, 64))
    (last,) = graph.scan(graph.input("c", (3,)), body=body, length=4, num_carries=1)
    graph.set_outputs([graph.relu(graph.matmul(x, w)), last])
    text = str(lower_for(graph, named_target("x86-64-v3")).schedule)
    lines = {line.split("(")[0].strip(): line for line in text.splitlines() if "->" in line}
    assert "f32[384, 64]{panels(width = " in lines["pack_panels"]
    assert "; schedule(rows = " in lines["fused"]
    assert lines["scan"].endswith("; one_kernel()")
