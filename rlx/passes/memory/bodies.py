"""Memory effects of loops and branches: what their bodies read and write outside of them.

The inputs of a body are its node's operands, the carries of a loop are in the node's results,
and the rows that a scan stacks are written in place. Such values have no bytes in the body's
block: the plan gives them offsets from `OUTSIDE` up, which lowering replaces by where they
really are.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import loop_signature, stacked

OUTSIDE = 1 << 48
"""Offsets from here on denote memory outside of the body's block."""


def outside_values(node: Node, body: Graph) -> tuple[Value, ...]:
    """Return the values of `body`, one of the bodies of `node`, that are outside of it."""
    if node.op is ops.scan:
        return (*body.inputs, *stacked(node, body.outputs))
    if node.op is ops.while_loop:
        return body.inputs
    if node.op is ops.switch:
        return (*body.inputs, *body.outputs)
    return ()


def places(node: Node) -> tuple[Value, ...]:
    """Return the values around `node` that each of a body's `outside_values` is, or is a row of."""
    results = node.results
    if node.op is ops.switch:
        return (*node.operands[1:], *results)
    given = loop_signature(node).split(node.operands)
    lasts = results[: len(given.carries)]
    return (*lasts, *given.consts, *given.rows, *stacked(node, results))
