"""Work that is the same at every step moves out of its loop."""

from __future__ import annotations

import dataclasses

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import KINDS, Trait
from rlx.passes.loops.loop_dead_code import carry_count
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged
from rlx.passes.rewrites.common_subexpressions import is_impure


@graph_pass
def loop_invariant_code_motion(graph: Graph) -> Rewritten:
    """Compute what depends on consts alone once, before the loop, and pass it in as a const.

    scan %c, %w {(c, w) -> (c @ tanh(w))}      ->      %t = tanh %w
                                                       scan %c, %t {(c, t) -> (c @ t)}

    Nothing that can fail moves: a loop may make no trips.
    """
    if not any(map(_is_loop, graph.nodes)):
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    moved = False
    for node in graph.nodes:
        if _is_loop(node):
            moved |= _hoist(target, node, value_map)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map) if moved else unchanged(graph)


def _is_loop(node: Node) -> bool:
    return node.op in (ops.scan, ops.while_loop) and not node.is_one_kernel


def _hoist(target: Graph, node: Node, value_map: dict[Value, Value]) -> bool:
    original: Graph = node.attribute("body")
    body = loop_invariant_code_motion(original)
    count = carry_count(node)
    end = count + int(node.attribute("num_consts"))
    consts = body.inputs[count:end]
    moving = _moving(body, set(consts))
    crossing = _crossing(body, moving)
    outer = dict(zip(consts, (value_map[o] for o in node.operands[count:end]), strict=True))
    with target.attributed(node.source, node.scope):
        for inner in body.nodes:
            if inner in moving:
                copy_node(target, inner, outer)
    operands = [value_map[operand] for operand in node.operands]
    operands[end:end] = [outer[value] for value in crossing]
    changed: dict[str, object] = {
        "body": _without(body, moving, crossing, end),
        "num_consts": end - count + len(crossing),
    }
    if node.op is ops.while_loop:
        changed["condition"] = _without(node.attribute("condition"), set(), crossing, end)
    attrs = (
        dataclasses.replace(node.attrs, **changed)
        if crossing or body is not original
        else node.attrs
    )
    results = target.append(
        node.op, operands, attrs, name=node.name, source=node.source, scope=node.scope
    )
    value_map.update(zip(node.results, results, strict=True))
    return bool(crossing) or body is not original


def _moving(body: Graph, consts: set[Value]) -> set[Node]:
    """Return what leaves: invariant nodes worth moving, and what they are computed from."""
    invariant = set(consts)
    candidates: list[Node] = []
    for node in body.nodes:
        fixed = node.op is not ops.input and all(o in invariant for o in node.operands)
        if fixed and (node.op is ops.constant or _is_safe(node)):
            invariant.update(node.results)
            candidates.append(node)
    moving: set[Node] = set()
    for node in reversed(candidates):
        wanted = not _stays(node) and bool(node.operands)
        if wanted or any(_reads(mover, node) for mover in moving):
            moving.add(node)
    return moving


def _reads(reader: Node, node: Node) -> bool:
    return any(operand.node is node for operand in reader.operands)


def _stays(node: Node) -> bool:
    """True for what costs nothing inside, and would cost memory outside."""
    is_part = node.op.has(Trait.MOVEMENT) and node.op.has(Trait.PART)
    made = any(map(node.op.has, (Trait.LEAF, Trait.GENERATED, Trait.VIEW)))
    return is_part or made or node.op in (ops.expand, ops.cast)


def _is_safe(node: Node) -> bool:
    """True for what neither fails, nor has bodies, nor differs from call to call."""
    known = not node.op.traits.isdisjoint(KINDS) and not node.op.holds_bodies
    return known and not node.op.has(Trait.MAY_FAULT) and not is_impure(node)


def _crossing(body: Graph, moving: set[Node]) -> list[Value]:
    """Return the results of moving nodes that staying ones, or outputs, read."""
    read = {o for node in body.nodes if node not in moving for o in node.operands}
    read |= set(body.outputs)
    results = (result for node in body.nodes if node in moving for result in node.results)
    return [r for r in results if r in read and r.op is not ops.constant]


def _without(body: Graph, moving: set[Node], crossing: list[Value], at: int) -> Graph:
    """Return `body` where `crossing` are inputs behind the first `at` ones."""
    target = Graph(body.name)
    value_map: dict[Value, Value] = {}
    for value in body.inputs[:at]:
        target.copy_node(value.node, value_map)
    names = {value.node.name for value in body.inputs}
    for value in crossing:
        name = _free_name(f"{value.op.name}", names)
        entered = target.input_of(name, value.type)
        if value.graph is body:
            value_map[value] = entered
    for value in body.inputs[at:]:
        target.copy_node(value.node, value_map)
    for node in body.nodes:
        stays = node not in moving or node.op is ops.constant
        if node.op is not ops.input and stays:
            copy_node(target, node, value_map)
    finish(target, body, value_map)
    return target


def _free_name(wanted: str, names: set[str | None]) -> str:
    name, suffix = wanted, 0
    while name in names:
        suffix += 1
        name = f"{wanted}_{suffix}"
    names.add(name)
    return name
