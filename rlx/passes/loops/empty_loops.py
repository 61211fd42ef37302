"""Removal of loops of zero trips: their results are the first values of the carries."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import loop_signature, stacked
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite


@graph_pass
def drop_empty_loops(graph: Graph) -> Rewritten:
    """Replace loops of no steps by their first carries, and by stacks of no rows.

    %c, %y = scan %c0 {length = 0}      ->      %y: f32[0, 4] = expand 0; return %c0, %y
    """
    return apply_rewrites(graph, [_empty_scan, _empty_while])


@rewrite(ops.scan)
def _empty_scan(node: Node) -> tuple[Value, ...] | None:
    if node.attribute("length") > 0:
        return None
    given = loop_signature(node).split(node.operands)
    return (*given.carries, *map(_no_rows, stacked(node, node.results)))


def _no_rows(rows: Value) -> Value:
    nothing = rows.graph.constant(0, rows.dtype)
    return ops.expand(nothing, shape=rows.shape)


@rewrite(ops.while_loop)
def _empty_while(node: Node) -> tuple[Value, ...] | None:
    if node.attribute("max_trips") != 0:
        return None
    trips = node.results[-1]
    given = loop_signature(node).split(node.operands)
    return (*given.carries, trips.graph.constant(0, trips.dtype))
