"""Fake quantization and pairs of quantize and dequantize that change nothing, removed.

Rounding twice to one grid is rounding once. What is between may move elements, or choose among
them, but not compute new ones.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef
from rlx.passes.rewrite import Rewritten, apply_rewrites, copy_node, finish, graph_pass, rewrite
from rlx.passes.rewrites.dead_code import dead_code
from rlx.quantization.requirements import require_graph

_KEEPS_ALL: frozenset[OpDef] = frozenset({ops.reshape, ops.transpose, ops.expand})
"""The magnitudes of the result are those of the operand."""
_KEEPS_SOME: frozenset[OpDef] = _KEEPS_ALL | {ops.narrow, ops.slice, ops.max_pool, ops.relu}
"""Each element of the result is one of the operand, or 0."""
_KEEPS_CHANNELS: frozenset[OpDef] = frozenset({ops.max_pool, ops.relu})
"""So it is, and channels stay where they are."""
_PASSING = ("identity", "clipped_identity")
"""Straight-through estimators that two in a row do not change."""


@graph_pass
def quant_propagate(graph: Graph) -> Rewritten:
    """Remove fake quantization of what is rounded to the same grid already.

    %1 = fake_quantize %x, %s
    %2 = relu %1
    %3 = fake_quantize %2, %s    ->    %2
    """
    return apply_rewrites(graph, (_rounded_before,))


@rewrite(ops.fake_quantize)
def _rounded_before(node: Node) -> Value | None:
    source = node.operands[0]
    state = node.operands[1:]
    if node.attribute("straight_through") not in _PASSING:
        return None
    taken, value = _between(node, fixed=bool(state)), source
    while value.op in taken and len(value.node.operands) == 1:
        value = value.node.operands[0]
    first = value.node
    same = value.op is ops.fake_quantize and first.attrs == node.attrs
    return source if same and first.operands[1:] == state else None


def _between(node: Node, *, fixed: bool) -> frozenset[OpDef]:
    """Return what may be between two equal roundings."""
    if node.attribute("axis") is None:
        return _KEEPS_SOME if fixed else _KEEPS_ALL
    return _KEEPS_CHANNELS if fixed else frozenset()


@graph_pass
def cancel_pairs(graph: Graph) -> Rewritten:
    """Remove `quantize` of what `dequantize` made of equal codes, and compute on the codes between.

    %1 = dequantize %q
    %2 = relu %1          ->    %2 = maximum %q, zero_point
    %3 = quantize %2
    """
    return apply_rewrites(graph, (_back, _moved, _relu)).then(dead_code)


@rewrite(ops.quantize)
def _back(node: Node) -> Value | None:
    made = node.operands[0]
    if made.op is not ops.dequantize or made.node.attrs.as_dict() != node.attrs.as_dict():
        return None
    return made.node.operands[0]


@rewrite(ops.reshape, ops.transpose, ops.narrow, ops.slice, ops.max_pool)
def _moved(node: Node) -> Value | None:
    made = node.operands[0]
    if made.op is not ops.dequantize or made.node.attribute("axis") is not None:
        return None
    (codes,) = made.node.operands
    (moved,) = codes.graph.append(node.op, (codes,), node.attrs, scope=node.scope)
    return ops.dequantize(moved, **made.node.attrs.as_dict())


@rewrite(ops.relu)
def _relu(node: Node) -> Value | None:
    made = node.operands[0]
    if made.op is not ops.dequantize or made.node.attribute("axis") is not None:
        return None
    (codes,) = made.node.operands
    zero = (made.node.attribute("zero_points") or (0,))[0]
    if not -128 <= zero <= 127:
        return None
    floor = codes.graph.constant(zero, codes.dtype)
    return ops.dequantize(ops.maximum(codes, floor), **made.node.attrs.as_dict())


def freeze_fake_quant(graph: Graph) -> Graph:
    """Return `graph` for inference: moving averages stay what they are.

    %y, %new = fake_quantize_ema %x, %state    ->    %y = fake_quantize %x, %state
    """
    require_graph("freeze_fake_quant", graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        if node.op is not ops.fake_quantize_ema:
            copy_node(target, node, value_map)
            continue
        x, state = (value_map[operand] for operand in node.operands)
        kept = {name: value for name, value in node.attrs.as_dict().items() if name != "decay"}
        with target.attributed(node.source, node.scope):
            value_map[node.results[0]] = ops.fake_quantize(x, state, **kept)
        value_map[node.results[1]] = state
    finish(target, graph, value_map)
    return target
