"""Loops and branches that do not fit in registers: thunks around the thunks of their bodies.

The carries of a loop live in its results: the first ones are copied there once, and the body
replaces them in place (`passes.bufferize_loops` ensures that it can). Consts and rows of `xs`
are read, and rows of `ys` written, in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rlx.codegen.lower.node import lower_node
from rlx.codegen.lower.registry import Placement, lowering
from rlx.codegen.schedule import (
    Advance,
    AnyThunk,
    BranchThunk,
    BufferRef,
    LoopThunk,
    Thunk,
)
from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.loop_signature import loop_signature
from rlx.ir.op import make_attrs
from rlx.ir.shape import product
from rlx.passes.memory.bodies import outside_values, places
from rlx.passes.memory.plan import MemoryPlan


@lowering(ops.scan)
def scan_lowering(node: Node, place: Placement) -> list[AnyThunk]:
    (plan,) = place.plan.bodies[node]
    signature, length = loop_signature(node), node.attribute("length")
    fixed = signature.first_row
    whole = [place.ref(value) for value in places(node)]
    inputs, stacked = whole[: len(node.operands)], whole[len(node.operands) :]
    rows = [_row(ref, place.depth, length) for ref in (*inputs[fixed:], *stacked)]
    inner = _inside(place, node, plan, [*inputs[:fixed], *rows], loops=1)
    loop = LoopThunk(
        node=node,
        phase=place.phase,
        body=_thunks(inner),
        steps=length,
        depth=place.depth,
        reverse=node.attribute("reverse"),
        number=place.numbers.get(node),
    )
    return [*_first_carries(node, place, signature.num_carries), loop]


@lowering(ops.while_loop)
def while_lowering(node: Node, place: Placement) -> list[AnyThunk]:
    condition, body = place.plan.bodies[node]
    whole = [place.ref(value) for value in places(node)]
    checked = _inside(place, node, condition, whole, loops=1)
    graph, count = place.plan.graph, node.results[-1]
    is_counted = count in graph.outputs or bool(graph.once(Graph.users)[count])
    loop = LoopThunk(
        node=node,
        phase=place.phase,
        body=_thunks(_inside(place, node, body, whole, loops=1)),
        steps=node.attribute("max_trips"),
        depth=place.depth,
        condition=_thunks(checked),
        predicate=checked.ref(condition.graph.outputs[0]),
        trips=place.ref(count) if is_counted else None,
        number=place.numbers.get(node),
    )
    return [*_first_carries(node, place, loop_signature(node).num_carries), loop]


@lowering(ops.switch)
def switch_lowering(node: Node, place: Placement) -> list[AnyThunk]:
    plans = place.plan.bodies[node]
    branches = []
    for plan in plans:
        whole = [place.ref(value) for value in places(node)]
        branches.append(_thunks(_inside(place, node, plan, whole, loops=0)))
    selector = place.ref(node.operands[0])
    number = place.numbers.get(node)
    return [BranchThunk(node, place.phase, selector, tuple(branches), number)]


def _inside(
    place: Placement, node: Node, plan: MemoryPlan, refs: Sequence[BufferRef], *, loops: int
) -> Placement:
    """Return the placement of a body whose captured values are at `refs`."""
    located = _located(node, plan, refs)
    return Placement(plan, place.phase, place.depth + loops, located, place.numbers)


def _located(node: Node, plan: MemoryPlan, refs: Sequence[BufferRef]) -> Mapping[int, BufferRef]:
    body = plan.graph
    _require_settled(node, body)
    values = outside_values(node, body)
    return {
        plan.slots[value].offset: replace(ref, type=value.type)
        for value, ref in zip(values, refs, strict=True)
    }


def _require_settled(node: Node, body: Graph) -> None:
    if any(inner.op is ops.constant for inner in body.nodes):
        raise InternalError(
            f"body {body.name!r} of {node.op.name} holds constants",
            remedy="run the pass bufferize-loops before lowering",
        )


def _thunks(place: Placement) -> tuple[AnyThunk, ...]:
    return tuple(thunk for node in place.plan.graph.nodes for thunk in lower_node(node, place))


def _row(whole: BufferRef, depth: int, steps: int) -> BufferRef:
    """Return the row of `whole` at the step of the loop at `depth`."""
    type = whole.type.with_shape(whole.type.shape[1:])
    stride = product(type.stored_shape) * type.dtype.size
    return BufferRef(whole.offset, type, (*whole.advances, Advance(depth, stride, steps)))


def _first_carries(node: Node, place: Placement, carries: int) -> list[Thunk]:
    """Copy the initial carries into the loop's results, except those that are in place."""
    pairs = zip(node.operands[:carries], node.results[:carries], strict=True)
    in_place = place.plan.in_place.get(node, ())
    return [
        _copy(node, place, operand, result)
        for position, (operand, result) in enumerate(pairs)
        if (position, position) not in in_place
    ]


def _copy(node: Node, place: Placement, source: Value, target: Value) -> Thunk:
    return Thunk(
        kind=ops.expand.name,
        attrs=make_attrs(ops.expand, {"shape": target.shape}),
        operands=(place.ref(source),),
        results=(place.ref(target),),
        phase=place.phase,
        node=node,
        number=place.numbers.get(node),
    )
