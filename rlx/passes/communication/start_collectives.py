"""Asynchronous all-reduces: begun when the operand is there, awaited before the first reader."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.types import TensorType
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged

WORTH_BYTES = 1 << 12
"""From here on a sum is begun and awaited: that takes 2 us longer than a sum at once.

As long takes a sum of this size between processes of one machine; over a network it takes longer.
"""


@graph_pass
def start_collectives(graph: Graph) -> Rewritten:
    """Split a large `all_reduce` in two where other work does not need it.

        %2: f32[n] = all_reduce %1        %2, %3 = all_reduce_start %1
        %3: f32[m] = matmul %a, %b   ->   %4: f32[m] = matmul %a, %b
        %4: f32[n] = mul %2, 0.5          %5: f32[n] = all_reduce_done %2, %3, %1

    It begins at once. What depends on it moves after what does not; the ranks run the same
    graph, so that they begin and wait in the same order.
    """
    moved = _ordered(graph)
    place = {node: number for number, node in enumerate(moved)}
    split = {node for node in moved if _is_large_sum(node) and _has_work(graph, node, place)}
    if not split:
        return unchanged(graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    waiting: dict[Value, tuple[Node, tuple[Value, ...]]] = {}
    for node in moved:
        for operand in node.operands:
            if operand in waiting:
                value_map[operand] = _wait(target, *waiting.pop(operand))
        if node in split:
            waiting[node.result] = (node, _start(target, node, value_map))
        else:
            copy_node(target, node, value_map)
    for result, (node, started) in waiting.items():
        value_map[result] = _wait(target, node, started)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _start(target: Graph, node: Node, value_map: dict[Value, Value]) -> tuple[Value, ...]:
    x, communicator = (value_map[operand] for operand in node.operands)
    attributes = {name: node.attribute(name) for name in ("axis_name", "axis_size")}
    with target.attributed(node.source, node.scope):
        total, request = ops.all_reduce_start(x, communicator, **attributes)
    return total, request, x


def _wait(target: Graph, node: Node, started: tuple[Value, ...]) -> Value:
    with target.attributed(node.source, node.scope):
        return ops.all_reduce_done(*started)


def _is_large_sum(node: Node) -> bool:
    if node.op is not ops.all_reduce or len(node.operands) != 2:
        return False
    return _is_large(node.operands[0].type) and node.attribute("reduction") == "sum"


def _is_large(type: TensorType) -> bool:
    elements = type.elements
    return isinstance(elements, int) and elements * type.dtype.size >= WORTH_BYTES


def _ordered(graph: Graph) -> list[Node]:
    """Move what depends on a large sum after what does not, and the second sum's readers last.

    So the second is under way while the readers of the first are computed.
    """
    number: dict[Node, int] = {}
    latest: dict[Node, int] = {}
    """The number of the last large sum that a node depends on, from 1; 0 for none."""
    for node in graph.nodes:
        needed = (number.get(operand.node, latest[operand.node]) for operand in node.operands)
        latest[node] = max(needed, default=0)
        if _is_large_sum(node):
            number[node] = len(number) + 1
    return sorted(graph.nodes, key=lambda node: latest[node])


def _has_work(graph: Graph, node: Node, place: dict[Node, int]) -> bool:
    """True if something of size is computed between a sum and its first reader.

    What only nodes after that reader need, element by element, is computed with them.
    """
    readers = [place[n] for n in graph.nodes if node.result in n.operands]
    end = min(readers, default=len(place))
    between = [n for n, number in place.items() if place[node] < number < end]
    kept = {*graph.outputs, *(operand for n in between for operand in n.operands)}
    return any(
        _is_work(n) and not (n.op.has(Trait.ELEMENTWISE) and kept.isdisjoint(n.results))
        for n in between
    )


def _is_work(node: Node) -> bool:
    """True for what takes longer than to begin a sum and to await it, as far as is known."""
    if node.op.has(Trait.LEAF) or node.op.has(Trait.VIEW):
        return False
    types = [value.type for value in (*node.operands, *node.results)]
    return node.op.holds_bodies or any(_is_large(t) or not t.is_static for t in types)
