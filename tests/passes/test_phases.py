"""Which nodes run once after params change, and which at every call."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.passes.phases import setup_nodes


def test_decoded_weights_are_not_kept() -> None:
    """Packed weights would take many times their bytes: they are decoded where they are used."""
    graph = Graph("backward")
    x, w = graph.input("x", (3, 4)), graph.param("w", (4, 34), "u8")
    bias = graph.param("bias", (32,))
    decoded = ops.dequantize_blocks(w, scheme="q8_0")
    doubled = bias + bias
    graph.set_outputs([ops.matmul(x, decoded) + doubled])
    found = setup_nodes(graph)
    assert doubled.node in found
    assert decoded.node not in found
