"""Calls with custom derivatives: expansion before, and cleanup after one differentiation.

    %y = custom_call %x {forward = ...}    ->    %f = (the nodes of forward)
                                                 %y = custom_derivative %f, %x

Where a derivative is taken, the results of a call are those of its rule: `begin` spells them out
and leaves a mark, by which the rule is found; `finish` takes the marks away. What is then left is
differentiated as it is, if it is differentiated again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.rewrite import Rewritten, copy_node, unchanged
from rlx.passes.rewrite import finish as finish_graph

Mode = Literal["vjp_body", "jvp_body"]


def begin(graph: Graph, inputs: Iterable[Value], mode: Mode) -> Rewritten:
    """Spell out the calls that depend on `inputs` and state a rule for `mode`."""
    if not any(node.op.name == "custom_call" for node in graph.nodes):
        return unchanged(graph)
    moving = set(inputs)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        moves = any(operand in moving for operand in node.operands)
        if moves:
            moving.update(node.results)
        if moves and node.op.name == "custom_call" and _states(node, mode):
            _spell_out(target, node, value_map, mode)
        else:
            copy_node(target, node, value_map)
    finish_graph(target, graph, value_map)
    return Rewritten(target, value_map)


def finish(graph: Graph) -> Graph:
    """Return `graph` without the marks of `begin`."""
    if not any(node.op.name == "custom_derivative" for node in graph.nodes):
        return graph
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        if node.op.name == "custom_derivative":
            value_map.update(zip(node.results, (value_map[o] for o in node.operands), strict=False))
        else:
            copy_node(target, node, value_map)
    finish_graph(target, graph, value_map)
    return target


def _states(node: Node, mode: Mode) -> bool:
    return node.attribute("forward") is not None and node.attribute(mode) is not None


def _for_examples(node: Node, name: str) -> Graph:
    """Return a body of a call that is of one example, for all of them."""
    from rlx.passes.vmap.whole import for_examples  # few programs batch calls

    axes = node.attribute("examples"), node.attribute("example_axes")
    body: Graph = node.attribute(name)
    return for_examples(body, *axes) if axes[0] else body


def _spell_out(target: Graph, node: Node, value_map: dict[Value, Value], mode: Mode) -> None:
    operands = [value_map[operand] for operand in node.operands]
    with target.attributed(node.source, node.scope):
        results = target.inline(_for_examples(node, "forward"), operands)
        rule = _for_examples(node, mode)
        marked = ops.custom_derivative(*results, *operands, num_results=len(results), rule=rule)
    value_map.update(zip(node.results, marked, strict=True))
