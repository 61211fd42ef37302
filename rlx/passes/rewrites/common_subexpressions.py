"""Common-subexpression elimination by hash-consing: equal nodes are computed once."""

from __future__ import annotations

from collections.abc import Hashable

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.effects import is_impure
from rlx.passes.rewrite import Rewritten, graph_pass, is_leaf, rebuild


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


def _key(node: Node, same_as: dict[Value, Value]) -> Hashable:
    operands = [same_as[operand] for operand in node.operands]
    if node.op.has(Trait.COMMUTATIVE):
        operands.sort(key=lambda value: (value.node.index, value.index))
    types = tuple(result.type for result in node.results)
    return node.op.name, tuple(operands), node.attrs, types, node.lowering
