"""Derivatives of branches and of conditional loops.

Only the branch taken is differentiated, so that a NaN of the other never reaches a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.algebra import or_zeros
from rlx.passes.autodiff.derived import Derivatives, Sparse, place, present
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.autodiff.registry import Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.rules.loops import moving_carries
from rlx.passes.autodiff.sweep import carries, jvp_in_graph, vjp_in_graph
from rlx.passes.autodiff.through import pull_through
from rlx.passes.loop_steps import Step, name_of


@jvp(ops.switch)
def switch_jvp(
    at: Pushforward, selector: Value, *operands: Value, branches: tuple[Graph, ...]
) -> Derivatives:
    tangents = at.tangents[1:]
    flowing = tuple(carries(result) for result in at.results)
    if not any(flowing):
        return None
    pushed = tuple(_pushed(branch, tangents, flowing) for branch in branches)
    moved = ops.switch(selector, *operands, *present(tangents), branches=pushed)
    return place(moved, flowing)


@vjp(ops.switch)
def switch_vjp(
    at: Pullback, selector: Value, *operands: Value, branches: tuple[Graph, ...]
) -> Derivatives:
    wanted = at.wanted[1:]
    pulled = tuple(_pulled(branch, at.cotangents, wanted) for branch in branches)
    moved = ops.switch(selector, *operands, *present(at.cotangents), branches=pulled)
    return (None, *place(moved, wanted))


def _pushed(branch: Graph, tangents: Sparse, flowing: tuple[bool, ...]) -> Graph:
    """Return the branch as a function of operands and tangents to tangents."""
    graph = Graph(f"{branch.name}_jvp")
    values = _mirror(graph, branch)
    moving = [
        None if t is None else graph.input(f"t_{name_of(v)}", t.shape, t.dtype)
        for v, t in zip(branch.inputs, tangents, strict=True)
    ]
    results = graph.inline(branch, values)
    moved = jvp_in_graph(graph, results, values, moving)
    pairs = zip(results, moved, flowing, strict=True)
    graph.set_outputs(or_zeros(graph, t, result.type) for result, t, flows in pairs if flows)
    return graph


def _pulled(branch: Graph, cotangents: Sparse, wanted: Sequence[bool]) -> Graph:
    """Return the branch as a function of operands and cotangents to cotangents."""
    graph = Graph(f"{branch.name}_vjp")
    values = _mirror(graph, branch)
    seeds = [
        None if d is None else graph.input(f"d_{i}", d.shape, d.dtype)
        for i, d in enumerate(cotangents)
    ]
    chosen = [value for value, wants in zip(values, wanted, strict=True) if wants]
    pulled = vjp_in_graph(graph, graph.inline(branch, values), chosen, seeds)
    graph.set_outputs(or_zeros(graph, d, v.type) for v, d in zip(chosen, pulled, strict=True))
    return graph


@jvp(ops.while_loop)
def while_jvp(
    at: Pushforward,
    *operands: Value,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> Derivatives:
    """Carry values and tangents; the condition sees the values alone."""
    split = len(operands) - num_consts
    tangents = list(at.tangents)
    for carry in moving_carries(body, [t is not None for t in tangents], split):
        tangents[carry] = or_zeros(at.graph, tangents[carry], operands[carry].type)
    pushed, checked = Graph(f"{body.name}_jvp"), Graph(condition.name)
    values, moving = _duals(pushed, body, tangents, split)
    results = pushed.inline(body, values)
    moved = jvp_in_graph(pushed, results, values, moving)
    mask = tuple(t is not None for t in tangents[:split])
    kept = [
        or_zeros(pushed, t, r.type) for r, t, has in zip(results, moved, mask, strict=True) if has
    ]
    pushed.set_outputs([*results, *kept])
    checked.set_outputs(checked.inline(condition, _duals(checked, condition, tangents, split)[0]))
    loop = ops.while_loop(
        *operands[:split],
        *present(tangents[:split]),
        *operands[split:],
        *present(tangents[split:]),
        condition=checked,
        body=pushed,
        num_consts=num_consts + len(present(tangents[split:])),
        max_trips=max_trips,
    )
    return place(loop[split:-1], mask)


@vjp(ops.while_loop)
def while_vjp(
    at: Pullback,
    *operands: Value,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> Derivatives:
    """Pull back through a scan of `max_trips` steps that does nothing after the last trip."""
    if max_trips is None:
        raise NoDerivativeError(
            f"while_loop: body {body.name!r} runs an unbounded number of times, and reverse mode "
            "stores every trip",
            remedy="give max_trips, use forward mode, or state the derivative by custom_call",
        )
    return pull_through(
        at,
        operands,
        lambda values, fixed: _counted(values, fixed[0], body, num_consts, max_trips),
        (at.results[-1],),
    )


def _counted(
    values: Sequence[Value], trips: Value, body: Graph, num_consts: int, steps: int
) -> tuple[Value, ...]:
    """Return the carries after `trips` of `steps` runs of `body`."""
    split = len(values) - num_consts
    idle = Graph("idle")
    idle.set_outputs(_mirror(idle, body)[:split])
    step = Step(body.name)
    carried = [step.carry(v, name_of(n)) for v, n in zip(values[:split], body.inputs, strict=False)]
    consts = [
        step.const(v, name_of(n)) for v, n in zip(values[split:], body.inputs[split:], strict=True)
    ]
    last = step.const(trips, "trips")
    index = step.row(trips.graph.constant(np.arange(steps, dtype=np.int64)), "trip")
    following = ops.switch(ops.lt(index, last), *carried, *consts, branches=(idle, body))
    return step.scan(following, [], length=steps)[0]


def _duals(
    graph: Graph, body: Graph, tangents: Sequence[Value | None], split: int
) -> tuple[list[Value], list[Value | None]]:
    """Declare the inputs of `body` and the tangents: of carries, then of consts."""
    values: list[Value] = []
    moving: list[Value | None] = []
    for part in (slice(0, split), slice(split, None)):
        values += [graph.input(name_of(v), v.shape, v.dtype) for v in body.inputs[part]]
        moving += [
            None if t is None else graph.input(f"t_{name_of(v)}", t.shape, t.dtype)
            for v, t in zip(body.inputs[part], tangents[part], strict=True)
        ]
    return values, moving


def _mirror(graph: Graph, body: Graph) -> list[Value]:
    return [graph.input(name_of(v), v.shape, v.dtype) for v in body.inputs]
