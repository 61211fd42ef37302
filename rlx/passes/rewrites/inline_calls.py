"""Inlining of calls with custom derivatives, after all differentiation.

The rules of such calls, and the rules of the calls in these, may be a hundred times what runs:
they go before anything walks over them.
"""

from __future__ import annotations

from rlx.ir.graph import Graph, Value
from rlx.passes.rewrite import (
    Rewritten,
    bodies_of,
    copy_node,
    finish,
    graph_pass,
    map_bodies,
    unchanged,
)


@graph_pass
def inline_calls(graph: Graph) -> Rewritten:
    """Put the body of a call in its place, and drop its rules.

    %1: f32[] = custom_call %0 {body = ..., jvp_body = ...}      ->      %1: f32[] = exp %0
    """
    return _inlined(graph, {}) if graph.once(_has_calls) else unchanged(graph)


def _has_calls(graph: Graph) -> bool:
    """True if there is a call; the rules of calls are not looked at."""
    return any(
        node.op.name == "custom_call" or any(b.once(_has_calls) for b in bodies_of(node.attrs))
        for node in graph.nodes
    )


def _inlined(graph: Graph, known: dict[int, Graph]) -> Rewritten:
    """Return `graph` without calls; `known` holds what became of bodies, by identity."""

    def inner(body: Graph) -> Graph:
        if id(body) not in known:
            known[id(body)] = _inlined(body, known).graph if body.once(_has_calls) else body
        return known[id(body)]

    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        if node.op.name == "custom_call":
            operands = [value_map[operand] for operand in node.operands]
            with target.attributed(node.source, node.scope):
                results = target.inline(inner(node.attribute("body")), operands)
            value_map.update(zip(node.results, results, strict=True))
        else:
            attrs = node.attrs if node.is_one_kernel else map_bodies(node.attrs, inner)
            copy_node(target, node, value_map, attrs=attrs)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)
