"""Sharing of kernels: fused bodies that differ in constants alone take these as operands.

    %3 = fused %0, %1 {body = matmul, mul 0.5}           %c = constant [0.5]
    %4 = fused %3, %2 {body = matmul, mul 0.7}     ->    %3 = fused %0, %1, %c {body = matmul, mul}
                                                         %d = constant [0.7]
                                                         %4 = fused %3, %2, %d {body = matmul, mul}

A network has the same layer many times, each with an activation of its own numbers. Kernels of
products are long, and equal bodies are compiled once. A number that is read costs what a literal
does: vectors take either from memory. Short kernels without an anchor keep their literals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import make_attrs
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged


@graph_pass
def share_bodies(graph: Graph) -> Rewritten:
    """Make one body of all that differ only in numbers after an anchor."""
    alike: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if node.op is ops.fused and ops.anchors_of(node.attribute("body")):
            alike.setdefault(_shape_of(node), []).append(node)
    moved = {node: places for nodes in alike.values()
             if (places := _differing(nodes)) for node in nodes}  # fmt: skip
    if not moved:
        return unchanged(graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        if node in moved:
            _append_with_operands(target, node, moved[node], value_map)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _is_number(node: Node) -> bool:
    """True for a constant of one float."""
    return node.op is ops.constant and node.result.dtype.is_float and node.result.type.elements == 1


def _shape_of(node: Node) -> Any:
    """Return what equal kernels have in common: types, ops, attributes, all but the numbers."""
    body: Graph = node.attribute("body")
    nodes = tuple(
        (
            inner.op.name,
            None if _is_number(inner) else inner.attrs,
            inner.lowering,
            tuple((operand.node.index, operand.index) for operand in inner.operands),
            tuple(result.type for result in inner.results),
        )
        for inner in body.nodes
    )
    return nodes, tuple((output.node.index, output.index) for output in body.outputs)


def _differing(nodes: Sequence[Node]) -> list[int]:
    """Return the positions in the bodies at which the numbers are not the same in all."""
    bodies = [node.attribute("body").nodes for node in nodes]
    return [
        position
        for position, inner in enumerate(bodies[0])
        if _is_number(inner) and len({body[position].attrs for body in bodies}) > 1
    ]


def _append_with_operands(
    target: Graph, node: Node, places: Sequence[int], value_map: dict[Value, Value]
) -> None:
    """Append `node` with the numbers at `places` of its body as further operands."""
    body: Graph = node.attribute("body")
    numbers = [body.nodes[place] for place in places]
    changed, inside = Graph(body.name), dict[Value, Value]()
    inputs = [inner for inner in body.nodes if inner.op is ops.input]
    for inner in inputs:
        copy_node(changed, inner, inside)
    for count, number in enumerate(numbers, 1):
        inside[number.result] = changed.input_of(f"number_{count}", number.result.type)
    for inner in body.nodes:
        if inner not in inputs and inner not in numbers:
            copy_node(changed, inner, inside)
    changed.outputs = tuple(inside[output] for output in body.outputs)
    given = [target.append(ops.constant, (), number.attrs, source=number.source)[0]
             for number in numbers]  # fmt: skip
    results = target.append(
        ops.fused,
        (*(value_map[operand] for operand in node.operands), *given),
        make_attrs(ops.fused, {"body": changed}),
        name=node.name,
        source=node.source,
        scope=node.scope,
    )
    value_map.update(zip(node.results, results, strict=True))
