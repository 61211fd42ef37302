"""Loop-invariant code motion: nodes of a body that depend on consts alone move out of it."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import Parts, is_loop, loop_signature, rebuild_loop
from rlx.ir.op import KINDS, Trait
from rlx.passes.effects import is_impure
from rlx.passes.loops.rebuild_body import BodyBuilder
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged


@graph_pass
def loop_invariant_code_motion(graph: Graph) -> Rewritten:
    """Compute what depends on consts alone once, before the loop, and pass it in as a const.

    scan %c, %w {(c, w) -> (c @ tanh(w))}      ->      %t = tanh %w
                                                       scan %c, %t {(c, t) -> (c @ t)}

    Nothing that can fail moves: a loop may make no trips.
    """
    if not any(map(_has_a_body, graph.nodes)):
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    moved = False
    for node in graph.nodes:
        if _has_a_body(node):
            moved |= _hoist(target, node, value_map)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map) if moved else unchanged(graph)


def _has_a_body(node: Node) -> bool:
    return is_loop(node) and not node.is_one_kernel


def _hoist(target: Graph, node: Node, value_map: dict[Value, Value]) -> bool:
    original: Graph = node.attribute("body")
    body = loop_invariant_code_motion(original)
    signature = loop_signature(node)
    given = signature.split([value_map[operand] for operand in node.operands])
    consts = signature.split(body.inputs).consts
    moving = _moving(body, set(consts))
    crossing = _crossing(body, moving)
    outer = dict(zip(consts, given.consts, strict=True))
    with target.attributed(node.source, node.scope):
        for inner in body.nodes:
            if inner in moving:
                copy_node(target, inner, outer)
    if not crossing and body is original:
        copy_node(target, node, value_map)
        return False
    at = signature.first_row
    condition = None
    if node.op is ops.while_loop:
        condition = _without(node.attribute("condition"), set(), crossing, at)
    operands = Parts(given.carries, (*given.consts, *(outer[v] for v in crossing)), given.rows)
    stepped = _without(body, moving, crossing, at)
    results = rebuild_loop(target, node, operands, stepped, condition=condition)
    value_map.update(zip(node.results, results, strict=True))
    return True


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
    is_part = node.op.has(Trait.MOVEMENT) and node.op.has(Trait.SUBSET)
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
    """Return `body` where `crossing` are inputs after the first `at` ones."""
    built = BodyBuilder(body)
    built.keep(body.inputs[:at])
    for value in crossing:
        entered = built.add(value.op.name, value.type)
        if value.graph is body:
            built.value_map[value] = entered
    built.keep(body.inputs[at:])
    built.copy(lambda node: node not in moving or node.op is ops.constant)
    return built.finished()
