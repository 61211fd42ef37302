"""What the bodies of loops and branches read and write outside of their own memory.

The inputs of a body are its node's operands, the carries of a loop lie in the node's results,
and the rows that a scan stacks are written in place. Such values have no bytes in the body's
block: the plan gives them offsets from `OUTSIDE` up, which lowering replaces by where they
really lie.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value

OUTSIDE = 1 << 48
"""Offsets from here on stand for memory outside of the body's block."""


def outside_values(node: Node, body: Graph) -> tuple[Value, ...]:
    """Return the values of `body`, one of the bodies of `node`, that lie outside of it."""
    if node.op is ops.scan:
        return (*body.inputs, *body.outputs[node.attribute("num_carries") :])
    if node.op is ops.while_loop:
        return body.inputs
    if node.op is ops.switch:
        return (*body.inputs, *body.outputs)
    return ()


def places(node: Node, body: Graph) -> tuple[Value, ...]:
    """Return for each of `outside_values` the value of the graph around that it is (a row) of."""
    results = node.results
    if node.op is ops.switch:
        return (*node.operands[1:], *results)
    carries = len(body.inputs) - _others(node, body)
    return (*results[:carries], *node.operands[carries:], *_stacked(node, carries))


def _others(node: Node, body: Graph) -> int:
    """Return how many inputs of a loop's body are no carries."""
    if node.op is ops.scan:
        return len(body.inputs) - int(node.attribute("num_carries"))
    return int(node.attribute("num_consts"))


def _stacked(node: Node, carries: int) -> tuple[Value, ...]:
    return node.results[carries:] if node.op is ops.scan else ()
