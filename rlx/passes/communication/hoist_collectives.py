"""Early scheduling of all-reduces: each comes right after its operand, to overlap with work."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged


@graph_pass
def hoist_collectives(graph: Graph) -> Rewritten:
    """Move each `all_reduce` up to where its operand has been computed.

    %3: f32[n] = matmul %1, %2            %3: f32[n] = matmul %1, %2
    %4: f32[m] = matmul %2, %2     ->     %4: f32[n] = all_reduce %3
    %5: f32[n] = all_reduce %3            %5: f32[m] = matmul %2, %2

    A training step sums its gradients when all of them are there; those of the last layer are
    there first.
    """
    nodes = _hoisted(graph)
    if nodes == graph.nodes:
        return unchanged(graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in nodes:
        copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _hoisted(graph: Graph) -> list[Node]:
    sums = [node for node in graph.nodes if node.op is ops.all_reduce]
    followers: dict[Node, list[Node]] = {}
    for node in sums:
        last = max((operand.node for operand in node.operands), key=lambda n: n.index)
        followers.setdefault(last, []).append(node)
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.op is not ops.all_reduce:
            _append(node, followers, nodes)
    return nodes


def _append(node: Node, followers: dict[Node, list[Node]], nodes: list[Node]) -> None:
    """Append a node and the sums that wait for it alone."""
    waiting = [node]
    while waiting:
        ready = waiting.pop()
        nodes.append(ready)
        waiting.extend(reversed(followers.get(ready, ())))
