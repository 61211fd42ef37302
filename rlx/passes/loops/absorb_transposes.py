"""Transpose absorption: transposes around small loops move into their bodies, where they are free.

A loop in registers reads a matrix from anywhere in any order. So it takes the matrix as it is,
and not a transposed copy; and steps store their matrices as they are for a later loop that
reads them transposed, as the reverse sweep of a product does.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import loop_signature, rebuild_loop, stacked
from rlx.passes.loops.fuse_loop_bodies import shape_in_registers
from rlx.passes.loops.loop_steps import name_of
from rlx.passes.loops.rebuild_body import BodyBuilder
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged
from rlx.passes.rewrites.decompose import expand_pointwise

Moves = dict[int, Value]
"""Position of an input of a body -> a transpose of which it becomes the operand."""


@graph_pass
def absorb_transposes(graph: Graph) -> Rewritten:
    """Let small scans read what transposes read, and store what they would transpose.

    %t = transpose %w;  scan %c, %t {(c, t) -> c @ t}
                                  ->      scan %c, %w {(c, w) -> c @ transpose(w)}
    """
    if not any(node.op is ops.scan for node in graph.nodes):
        return unchanged(graph)
    readers = graph.users()
    outputs = set(graph.outputs)
    stored = {
        result: move
        for node in graph.nodes
        if node.op is ops.scan
        for result, move in _stored_moves(node).items()
        if result not in outputs and all(_reads_rows(each, result) for each in readers[result])
    }
    pulled = {node: _pulled(node, stored) for node in graph.nodes if node.op is ops.scan}
    if not stored and not any(pulled.values()):
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op is ops.scan:
            _rebuild(target, node, value_map, pulled[node], stored)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _is_small(node: Node) -> bool:
    body = expand_pointwise(node.attribute("body"))
    return shape_in_registers(body, loop_signature(node).num_carries) is not None


def _stored_moves(node: Node) -> dict[Value, Value]:
    """Return the stacked results of a scan whose rows are transposes."""
    rows = stacked(node, node.attribute("body").outputs)
    pairs = zip(stacked(node, node.results), rows, strict=True)
    return {result: output for result, output in pairs if output.op is ops.transpose}


def _reads_rows(node: Node, value: Value) -> bool:
    """True if `node` is a small scan that reads `value` by rows alone."""
    if node.op is not ops.scan or not _is_small(node):
        return False
    given = loop_signature(node).split(node.operands)
    return value not in (*given.carries, *given.consts)


def _pulled(node: Node, stored: Mapping[Value, Value]) -> Moves:
    moves = {i: stored[operand] for i, operand in enumerate(node.operands) if operand in stored}
    consts = ((i, node.operands[i]) for i in loop_signature(node).positions.consts)
    transposes = {i: operand for i, operand in consts if operand.op is ops.transpose}
    return moves | (transposes if transposes and _is_small(node) else {})


def _rebuild(
    target: Graph,
    node: Node,
    value_map: dict[Value, Value],
    moves: Moves,
    stored: Mapping[Value, Value],
) -> None:
    unmoved = {i for i, result in enumerate(node.results) if result in stored}
    if not moves and not unmoved:
        copy_node(target, node, value_map)
        return
    body = _body(node.attribute("body"), moves, unmoved)
    operands = [
        value_map[moves[i].node.operands[0] if i in moves and operand not in stored else operand]
        for i, operand in enumerate(node.operands)
    ]
    results = rebuild_loop(target, node, loop_signature(node).split(operands), body)
    value_map.update(zip(node.results, results, strict=True))


def _body(body: Graph, moves: Moves, unmoved: set[int]) -> Graph:
    """Return `body` that transposes the inputs in `moves`, and not the outputs in `unmoved`."""
    built = BodyBuilder(body)
    for position, value in enumerate(body.inputs):
        if position not in moves:
            built.keep([value])
            continue
        source = moves[position].node.operands[0]
        leaves = (*body.inputs, *built.graph.inputs)
        others = {name_of(leaf) for leaf in leaves if leaf is not value}
        name = _name(value, source, others)
        entered = built.graph.input(name, source.shape, source.dtype)
        perm = moves[position].node.attribute("perm")
        built.value_map[value] = ops.transpose(entered, perm=perm)
    built.copy()
    outputs = enumerate(body.outputs)
    return built.finished([o.node.operands[0] if i in unmoved else o for i, o in outputs])


def _name(value: Value, source: Value, taken: set[str]) -> str:
    """Return what `value` is called once it is what it was a transpose of."""
    word = source.node.name or name_of(value)
    name = f"saved_{word}" if name_of(value).startswith("saved_") and source.node.name else word
    return name_of(value) if name in taken or not name.isidentifier() else name
