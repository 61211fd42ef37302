"""Bufferization of the bodies of loops and branches: every value gets its place in memory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.literal import Literal
from rlx.ir.loop_signature import is_loop, loop_signature
from rlx.ir.op import Attrs, Trait
from rlx.passes.loops.rebuild_body import BodyBuilder
from rlx.passes.memory.copy_outputs import copy_outputs
from rlx.passes.memory.order_updates import order_updates
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged
from rlx.passes.views import root_of


@graph_pass
def bufferize_loops(graph: Graph) -> Rewritten:
    """Make bodies ready for lowering; the last pass that changes them.

    - Constants become operands: `setup` has them, and a body has no memory that outlives it.
    - The next value of a carry replaces the carry (a donation of the body): it is computed in
      place where its readers allow, else copied there last.
    - What is stacked, or a branch's result, is computed where it belongs: outputs that are
      (views of) inputs, or one value twice, are copied.

        scan %c, %xs {body = (c, x) -> (c + x, c)}      ->      (c, x) -> (x + c in c, copy of c)
    """
    if not any(map(_holds_nodes, graph.nodes)):
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        if _holds_nodes(node):
            _append_bufferized(target, node, value_map)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _holds_nodes(node: Node) -> bool:
    return node.op.has(Trait.CONTROL) and not node.is_one_kernel


def _append_bufferized(target: Graph, node: Node, value_map: dict[Value, Value]) -> None:
    """Append `node` with bufferized bodies, and the constants that they held."""
    bodies = [bufferize_loops(body) for body in _bodies(node)]
    literals = list(dict.fromkeys(literal for body in bodies for literal in _literals(body)))
    at = _end_of_consts(node)
    lifted = [_lifted(body, at, literals) for body in bodies]
    carries = loop_signature(node).num_carries if is_loop(node) else 0
    bufferized = [*lifted[:-1], _owning_carries(lifted[-1], carries)]
    if node.op is ops.switch:
        bufferized = [copy_outputs(_whole_outputs(body)) for body in lifted]
    operands = [value_map[operand] for operand in node.operands]
    before = at + 1 if node.op is ops.switch else at
    with target.attributed(node.source, node.scope):
        operands[before:before] = [target.constant(literal.array) for literal in literals]
    results = target.append(
        node.op,
        operands,
        _with_bodies(node, bufferized, len(literals)),
        name=node.name,
        source=node.source,
        scope=node.scope,
    )
    value_map.update(zip(node.results, results, strict=True))


def _bodies(node: Node) -> list[Graph]:
    if node.op is ops.switch:
        return list(node.attribute("branches"))
    if node.op is ops.while_loop:
        return [_with_one_truth(node.attribute("condition")), node.attribute("body")]
    return [node.attribute("body")]


def _with_bodies(node: Node, bodies: Sequence[Graph], more_consts: int) -> Attrs:
    if node.op is ops.switch:
        return dataclasses.replace(node.attrs, **{"branches": tuple(bodies)})
    changed: dict[str, object] = {"num_consts": node.attribute("num_consts") + more_consts}
    if node.op is ops.while_loop:
        changed["condition"] = bodies[0]
    return dataclasses.replace(node.attrs, **changed, **{"body": bodies[-1]})


def _end_of_consts(node: Node) -> int:
    """Return the number of inputs of a body after which further consts go."""
    return loop_signature(node).first_row if is_loop(node) else len(node.operands) - 1


def _with_one_truth(condition: Graph) -> Graph:
    """Return `condition` with a bool scalar as its output."""
    output = condition.outputs[0]
    if output.dtype is DType.BOOL and output.rank == 0:
        return condition
    target = Graph(condition.name)
    value_map: dict[Value, Value] = {}
    for node in condition.nodes:
        copy_node(target, node, value_map)
    truth = value_map[output]
    if truth.dtype is not DType.BOOL:
        truth = ops.ne(truth, 0)
    if truth.rank:
        numbers = ops.cast(truth, to=DType.I32)
        least = ops.reduce_min(numbers, axes=tuple(range(truth.rank)))
        truth = ops.ne(least, 0)
    target.set_outputs([truth])
    return target


def _literals(body: Graph) -> list[Literal]:
    return [node.attribute("value") for node in body.nodes if node.op is ops.constant]


def _lifted(body: Graph, at: int, literals: Sequence[Literal]) -> Graph:
    """Return `body` with `literals` as inputs after the first `at` ones."""
    built = BodyBuilder(body)
    built.keep(body.inputs[:at])
    lifted = {literal: built.add("constant", literal.type) for literal in literals}
    built.keep(body.inputs[at:])
    for node in body.nodes:
        if node.op is ops.constant:
            built.value_map[node.result] = lifted[node.attribute("value")]
    built.copy()
    return built.finished()


def _whole_outputs(body: Graph, first: int = 0) -> Graph:
    """Copy outputs from the `first` on that are a part of a larger value.

    What is computed where an output belongs has no room there for the rest.
    """
    target = Graph(body.name)
    value_map: dict[Value, Value] = {}
    for node in body.nodes:
        copy_node(target, node, value_map)
    finish(target, body, value_map)
    target.outputs = tuple(
        ops.expand(output, shape=output.shape)
        if position >= first and root_of(output)[0].type.bytes != output.type.bytes
        else output
        for position, output in enumerate(target.outputs)
    )
    return target


def _owning_carries(body: Graph, carries: int) -> Graph:
    """Let every carry be replaced in place."""
    donated = Graph(body.name)
    value_map: dict[Value, Value] = {}
    for node in body.nodes:
        copy_node(donated, node, value_map)
    finish(donated, body, value_map)
    for position in range(carries):
        donated.donate(str(body.inputs[position].node.name), position)
    return copy_outputs(_whole_outputs(order_updates(donated), carries))
