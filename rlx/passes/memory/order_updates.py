"""Scheduling of donated outputs after the last read of the buffer that they overwrite."""

from __future__ import annotations

from rlx.ir.graph import Graph, Node
from rlx.passes.memory.liveness import updates_of
from rlx.passes.ordering import sorted_by_need
from rlx.passes.rewrite import Rewritten, graph_pass, rebuild, unchanged
from rlx.passes.views import root_of, view_of


@graph_pass
def order_updates(graph: Graph) -> Rewritten:
    """Move what replaces a leaf after the last reader of the leaf, unless that depends on it.

    So it is for each of several updates in turn, and the readers of what the one before made.

    In a backward pass the gradient of a weight comes before that of the layer's input, which
    reads the weight; without this the new weight would need a copy.

        %3: f32[4] = sub %w, %g         %3: f32[4] = mul %w, %dy
        %4: f32[4] = mul %w, %dy   ->   %4: f32[4] = sub %w, %g
    """
    updates = updates_of(graph)
    if not updates:
        return unchanged(graph)
    needed = {node: {operand.node for operand in node.operands} for node in graph.nodes}
    later = _direct_readers(graph)
    readers = _readers_by_root(graph)
    for update, overwritten in updates:
        for reader in readers.get(overwritten.node, []):
            if reader.index > update.index and not _reaches(update, reader, later):
                needed[update].add(reader)
                later[reader].append(update)
    return rebuild(graph, sorted_by_need(graph.nodes, needed))


def _direct_readers(graph: Graph) -> dict[Node, list[Node]]:
    found: dict[Node, list[Node]] = {node: [] for node in graph.nodes}
    for node in graph.nodes:
        for operand in dict.fromkeys(operand.node for operand in node.operands):
            found[operand].append(node)
    return found


def _readers_by_root(graph: Graph) -> dict[Node, list[Node]]:
    """Return for each root the nodes that read its memory, directly or through views."""
    found: dict[Node, list[Node]] = {}
    for node in graph.nodes:
        if view_of(node) is None:
            for root in dict.fromkeys(root_of(operand)[0].node for operand in node.operands):
                found.setdefault(root, []).append(node)
    return found


def _reaches(start: Node, goal: Node, later: dict[Node, list[Node]]) -> bool:
    """True if `goal` must come after `start`."""
    seen = {start}
    waiting = [start]
    while waiting:
        for node in later[waiting.pop()]:
            if node is goal:
                return True
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return False
