"""Common-subexpression elimination by hash-consing: equal nodes are computed once."""

from __future__ import annotations

from collections.abc import Hashable

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait, may_hold_bodies
from rlx.passes.rewrite import Rewritten, bodies_of, graph_pass, is_leaf, rebuild


@graph_pass
def common_subexpressions(graph: Graph) -> Rewritten:
    """Compute equal pure nodes once; the first occurrence, name and source line stay.

    %1: f32[4] = exp %0
    %2: f32[4] = exp %0      ->      %1: f32[4] = exp %0
    return %1, %2                    return %1, %1
    """
    first: dict[Hashable, Node] = {}
    same_as: dict[Value, Value] = {}
    for node in graph.nodes:
        original = node if _is_unique(node) else first.setdefault(_key(node, same_as), node)
        same_as.update(zip(node.results, original.results, strict=True))
    kept = [node for node in graph.nodes if all(same_as[r] is r for r in node.results)]
    return rebuild(graph, kept, common_subexpressions, same_as)


def _is_unique(node: Node) -> bool:
    return is_leaf(node) or is_impure(node) or not node.results


def is_impure(node: Node) -> bool:
    """True if two equal nodes need not have equal values, in bodies included."""
    if node.op.has(Trait.IMPURE):
        return True
    if not may_hold_bodies(type(node.attrs)):
        return False
    return any(body.once(_holds_impure) for body in bodies_of(node.attrs))


def _holds_impure(body: Graph) -> bool:
    return any(map(is_impure, body.nodes))


def _key(node: Node, same_as: dict[Value, Value]) -> Hashable:
    operands = [same_as[operand] for operand in node.operands]
    if node.op.has(Trait.COMMUTATIVE):
        operands.sort(key=lambda value: (value.node.index, value.index))
    types = tuple(result.type for result in node.results)
    return node.op.name, tuple(operands), node.attrs, types, node.lowering
