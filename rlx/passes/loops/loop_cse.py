"""Loop CSE: scans that do the same work over the same operands are merged.

Derivatives bring them: in addition to the program's scan there is one that stores residuals,
or also pushes tangents.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import is_loop, loop_signature, rebuild_loop, stacked
from rlx.ir.op import Trait, may_hold_bodies
from rlx.passes.effects import is_impure
from rlx.passes.rewrite import (
    GraphPass,
    Rewritten,
    ancestors,
    copy_node,
    finish,
    graph_pass,
    rebuild,
)
from rlx.passes.rewrites.common_subexpressions import common_subexpressions


@graph_pass
def loop_cse(graph: Graph) -> Rewritten:
    """Replace a loop by one that computes all of its results.

        %c, %y = scan %c0, %xs {(c, x) -> (f(c, x), c * x)}
        %d, %z = scan %c0, %xs {(c, x) -> (f(c, x), sin(c))}
                    ->      %c, %z, %y = scan %c0, %xs {(c, x) -> (f(c, x), sin(c), c * x)}

    Run it after `common_subexpressions`, so that equal operands are one value.
    """
    done = rebuild(graph, graph.nodes, loop_cse)
    while (pair := _find_pair(done.graph)) is not None:
        done = done.then(GraphPass("merged", partial(_merged, pair=pair)))
    return done


@dataclass(frozen=True, slots=True)
class _Pair:
    """`part` computes nothing that `whole`, run with `body`, does not; where its results are."""

    part: Node
    whole: Node
    body: Graph
    positions: list[int]
    moved: list[int]
    """Where the results of `whole` are: residuals stay the last ones."""


def _find_pair(graph: Graph) -> _Pair | None:
    loops = [n for n in graph.nodes if is_loop(n) and not is_impure(n)]
    if len(loops) < 2:
        return None
    updates = {loop: _updates(loop) for loop in loops}
    having: dict[Hashable, list[Node]] = {}
    for loop in loops:
        for update in updates[loop]:
            having.setdefault(update, []).append(loop)
    for part in loops:
        first = next(iter(updates[part]), None)
        for whole in loops if first is None else having[first]:
            if whole is part or not updates[part] <= updates[whole]:
                continue
            if _run_alike(part, whole) and _are_independent(part, whole):
                pair = _covered(part, whole)
                if pair is not None:
                    return pair
    return None


def _updates(loop: Node) -> frozenset[Hashable]:
    """Return for each carry its operand and a hash of how the body computes its next value.

    Carries that are equal in two loops have equal hashes: a pair whose hashes differ is not tried.
    Inner loops may be merged, too, and count by their op alone.
    """
    body, signature = loop.attribute("body"), loop_signature(loop)
    carries = set(signature.positions.carries)
    known: dict[Value, int] = {
        value: hash((position in carries, loop.operands[position]))
        for position, value in enumerate(body.inputs)
    }
    for node in body.nodes:
        if may_hold_bodies(type(node.attrs)):
            known.update((result, hash(node.op.name)) for result in node.results)
        elif node.operands or node.result not in known:
            operands = [known[operand] for operand in node.operands]
            if node.op.has(Trait.COMMUTATIVE):
                operands.sort()
            own = hash((node.op.name, tuple(operands), node.attrs, node.lowering))
            known.update((result, hash((own, result.index))) for result in node.results)
    starts = (loop.operands[position] for position in signature.positions.carries)
    return frozenset(zip(starts, (known[each] for each in body.outputs), strict=False))


def _run_alike(part: Node, whole: Node) -> bool:
    if part.op is not whole.op:
        return False
    few, many = loop_signature(part), loop_signature(whole)
    if few.num_carries > many.num_carries or few.num_residuals > many.num_residuals:
        return False
    names = ("length", "reverse") if part.op is ops.scan else ("max_trips",)
    return all(part.attribute(name) == whole.attribute(name) for name in names)


def _are_independent(a: Node, b: Node) -> bool:
    first, second = (a, b) if a.index < b.index else (b, a)
    return not any(value.node is first for value in ancestors(second.operands))


def _covered(part: Node, whole: Node) -> _Pair | None:
    """Return the pair if `whole` has the operands and carries of `part`."""
    binding = _bind(part, whole)
    if binding is None:
        return None
    joint, part_outputs = _joint(part, whole, binding)
    count, signature = loop_signature(part).num_carries, loop_signature(whole)
    whole_carries = joint.outputs[: signature.num_carries]
    for position in range(count):
        if part_outputs[position] is not whole_carries[binding[position]]:
            return None
    if part.op is ops.while_loop:
        if not _same_condition(part, whole, binding):
            return None
        last = len(whole.results) - 1
        return _Pair(part, whole, joint, [*binding[:count], last], list(range(last + 1)))
    rows = list(stacked(whole, joint.outputs))
    residuals = len(rows) - signature.num_residuals
    more = [row for row in dict.fromkeys(part_outputs[count:]) if row not in rows]
    together = [*rows[:residuals], *more, *rows[residuals:]]
    first = signature.num_carries
    moved = [*range(first), *(first + together.index(row) for row in rows)]
    positions = [first + together.index(row) for row in part_outputs[count:]]
    joint.set_outputs([*whole_carries, *together])
    return _Pair(part, whole, joint, [*binding[:count], *positions], moved)


def _bind(part: Node, whole: Node) -> list[int] | None:
    """Return for each operand of `part` the operand of `whole` that is the same."""
    binding: list[int] = []
    wanted = loop_signature(part).split(part.operands)
    offered = loop_signature(whole).positions
    carries = list(offered.carries)
    for operand in wanted.carries:  # each carry replaces one
        found = [i for i in carries if whole.operands[i] is operand]
        if not found:
            return None
        carries.remove(found[0])
        binding.append(found[0])
    shared = [(o, offered.consts) for o in wanted.consts] + [(o, offered.rows) for o in wanted.rows]
    for operand, positions in shared:
        found = [i for i in positions if whole.operands[i] is operand]
        if not found:
            return None
        binding.append(found[0])
    return binding


def _joint(part: Node, whole: Node, binding: list[int]) -> tuple[Graph, list[Value]]:
    """Return `whole`'s body with `part`'s in it, and where the outputs of the latter are."""
    body: Graph = whole.attribute("body")
    joint = Graph(body.name)
    inputs = [joint.input(str(v.node.name), v.shape, v.dtype) for v in body.inputs]
    own = joint.inline(body, inputs)
    theirs = joint.inline(part.attribute("body"), [inputs[i] for i in binding])
    joint.set_outputs([*own, *theirs])
    merged = _with_equal_parts_merged(joint)
    outputs = list(merged.outputs[len(own) :])
    merged.set_outputs(merged.outputs[: len(own)])
    return merged, outputs


def _with_equal_parts_merged(graph: Graph) -> Graph:
    """Merge equal nodes and then loops, which lets more nodes be equal, until nothing changes."""
    merged = common_subexpressions(graph)
    while (again := loop_cse(merged)) is not merged:
        merged = common_subexpressions(again)
    return merged


def _same_condition(part: Node, whole: Node, binding: list[int]) -> bool:
    condition: Graph = whole.attribute("condition")
    joint = Graph(condition.name)
    inputs = [joint.input(str(v.node.name), v.shape, v.dtype) for v in condition.inputs]
    own = joint.inline(condition, inputs)
    theirs = joint.inline(part.attribute("condition"), [inputs[i] for i in binding])
    joint.set_outputs([*own, *theirs])
    first, second = common_subexpressions(joint).outputs
    return first is second


def _merged(graph: Graph, pair: _Pair) -> Rewritten:
    """Put the merged loop in place of the first of the two, after its operands."""
    first = min(pair.part.index, pair.whole.index)
    needed = {value.node for value in ancestors(pair.whole.operands)}
    early = [n for n in graph.nodes if n.index < first or n in needed]
    late = [n for n in graph.nodes if n not in set(early) and n not in (pair.part, pair.whole)]
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in early:
        copy_node(target, node, value_map)
    whole = pair.whole
    operands = loop_signature(whole).split([value_map[operand] for operand in whole.operands])
    results = rebuild_loop(target, whole, operands, pair.body, like=pair.part)
    value_map.update(zip(whole.results, (results[i] for i in pair.moved), strict=True))
    chosen = (results[i] for i in pair.positions)
    value_map.update(zip(pair.part.results, chosen, strict=True))
    for node in late:
        copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)
