"""Constant folding of all-reduces: what is one number on all ranks needs no exchange."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.passes.rewrite import Replacement, Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.scalars import splat


@graph_pass
def fold_collectives(graph: Graph) -> Rewritten:
    """Replace the `all_reduce` of a constant, as the first cotangent of a mean over ranks is.

    %0: f32[] = constant {0.5}
    %1: f32[] = all_reduce %0, %communicator     ->     %1: f32[] = constant {1.0}
    """
    return apply_rewrites(graph, [_sum_of_a_constant])


@rewrite(ops.all_reduce)
def _sum_of_a_constant(node: Node) -> Replacement:
    scalar = splat(node.operands[0])
    if scalar is None or len(node.operands) != 2:
        return None
    graph, type = node.results[0].graph, node.result.type
    count = node.attribute("axis_size") if node.attribute("reduction") == "sum" else 1
    total = graph.constant(scalar * type.dtype.numpy.type(count), type.dtype)
    return ops.expand(total, shape=type.shape) if type.shape else total
