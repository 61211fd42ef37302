"""Nodes whose values differ from run to run, and programs without side effects."""

from __future__ import annotations

from rlx.errors import GraphError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Attrs, Trait
from rlx.passes.rewrite import ancestors, bodies_of, copy_node, finish, has_effect, map_bodies


def is_impure(node: Node) -> bool:
    """True if two equal nodes need not have equal values, in bodies included."""
    bodies = bodies_of(node.attrs)
    return node.op.has(Trait.IMPURE) or any(body.once(_holds_impure) for body in bodies)


def _holds_impure(body: Graph) -> bool:
    return any(map(is_impure, body.nodes))


def without_effects(graph: Graph) -> Graph:
    """Return `graph` without calls for their effect; GraphError where the result of one is read."""
    if not any(map(has_effect, graph.nodes)):
        return graph
    quiet = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    needed = ancestors(graph.outputs)
    for node in graph.nodes:
        if node.op.has(Trait.EFFECT):
            _require_unread(node, needed)
            value_map[node.results[-1]] = quiet.constant(0, DType.I32)
        elif all(operand in value_map for operand in node.operands):
            copy_node(quiet, node, value_map, attrs=quiet_attributes(node))
    finish(quiet, graph, value_map)
    return quiet


def quiet_attributes(node: Node) -> Attrs:
    """Return the attributes of `node`, its bodies without effects."""
    return map_bodies(node.attrs, without_effects) if has_effect(node) else node.attrs


def _require_unread(node: Node, needed: set[Value]) -> None:
    if any(result in needed for result in node.results[:-1]):
        raise GraphError(
            f"the derivative recomputes nodes that read the result of {node.attribute('target')}, "
            "an effect that a run must have once",
            source=node.source,
            remedy="stop_gradient what depends on it, or use pure_callback",
        )
