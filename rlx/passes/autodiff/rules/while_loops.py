"""Derivatives of conditional loops: forward in the loop itself, in reverse by blocks of steps.

Reverse mode needs a bound. It runs blocks of about `sqrt(max_trips)` steps and skips those after
the last trip; a step is a branch that is not taken after it, so that nothing is computed, nor
differentiated, that the loop did not compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.passes.algebra import or_zeros
from rlx.passes.autodiff.derived import Derivatives, place, present
from rlx.passes.autodiff.errors import NoDerivativeError
from rlx.passes.autodiff.registry import Pullback, Pushforward, jvp, vjp
from rlx.passes.autodiff.rules.loops import moving_carries
from rlx.passes.autodiff.sweep import jvp_in_graph
from rlx.passes.autodiff.through import pull_through
from rlx.passes.loops.loop_steps import LoopStep, fresh_input, mirror, name_of

_FEW_TRIPS = 128
"""So many steps are not worth skipping by the block."""


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
    """Pull back through blocks of steps, of which those after the last trip are skipped.

    The carries that enter a block are stored; the steps of a block are run again.
    """
    if max_trips is None:
        raise NoDerivativeError(
            f"while_loop: body {body.name!r} runs an unbounded number of times, and reverse mode "
            "stores every trip",
            source=at.results[0].node.source,
            remedy="give max_trips, use forward mode, or state the derivative (rlx.custom_vjp)",
        )
    return pull_through(
        at,
        operands,
        lambda values, fixed: _counted(values, fixed[0], body, num_consts, max_trips),
        (at.results[-1],),
    )


def _counted(
    values: Sequence[Value], trips: Value, body: Graph, num_consts: int, most: int
) -> tuple[Value, ...]:
    """Return the carries after `trips` runs of `body`, which are `most` at most."""
    split = len(values) - num_consts
    if most <= _FEW_TRIPS:
        return _until(trips, trips.graph.constant(0, DType.I64), values, body, split, most)
    steps = math.isqrt(most - 1) + 1
    blocks = (_idle(body, split, counted=True), *_blocks(body, split, steps))
    step = LoopStep(body.name)
    carried, consts = _declared(step, values, body, split)
    total = step.const(trips, "trips")
    count = -(-most // steps)
    start = step.row(trips.graph.constant(steps * np.arange(count, dtype=np.int64)), "trip")
    begun, whole = ops.lt(start, total), ops.le(start + steps, total)
    kind = ops.cast(begun, to=DType.I32) + ops.cast(whole, to=DType.I32)
    following = ops.switch(kind, *carried, *consts, total, start, branches=blocks)
    return step.scan(following, [], length=count)[0]


def _blocks(body: Graph, split: int, steps: int) -> tuple[Graph, Graph]:
    """Return `steps` runs of `body`, those before trip number `trips` only, and all of them."""
    some, every = Graph(f"{body.name}_last"), Graph(f"{body.name}_block")
    values, (trips, start) = mirror(some, body), _declare_trips(some)
    some.set_outputs(_until(trips, start, values, body, split, steps))
    values = mirror(every, body)
    _declare_trips(every)
    step = LoopStep(body.name)
    carried, consts = _declared(step, values, body, split)
    following = step.graph.inline(body, (*carried, *consts))
    every.set_outputs(step.scan(following, [], length=steps)[0])
    return some, every


def _until(
    trips: Value, start: Value, values: Sequence[Value], body: Graph, split: int, steps: int
) -> tuple[Value, ...]:
    """Run `body` for trips `start`, `start + 1`, ..., but not from number `trips` on."""
    step = LoopStep(body.name)
    carried, consts = _declared(step, values, body, split)
    last = step.const(trips, "trips")
    numbers = trips.graph.constant(np.arange(steps, dtype=np.int64))
    index = step.row(numbers + start, "trip")
    branches = (_idle(body, split, counted=False), body)
    following = ops.switch(ops.lt(index, last), *carried, *consts, branches=branches)
    return step.scan(following, [], length=steps)[0]


def _idle(body: Graph, split: int, *, counted: bool) -> Graph:
    """Return what takes the inputs of `body`, or of a block if `counted`, and keeps the carries."""
    idle = Graph("idle")
    carries = mirror(idle, body)[:split]
    if counted:
        _declare_trips(idle)
    idle.set_outputs(carries)
    return idle


def _declare_trips(graph: Graph) -> tuple[Value, Value]:
    return graph.input("trips", (), DType.I64), graph.input("start", (), DType.I64)


def _declared(
    step: LoopStep, values: Sequence[Value], body: Graph, split: int
) -> tuple[list[Value], list[Value]]:
    """Declare carries and consts of `step` like those of `body`."""
    named = list(zip(values, map(name_of, body.inputs), strict=True))
    carried = [step.carry(*each) for each in named[:split]]
    return carried, [step.const(*each) for each in named[split:]]


def _duals(
    graph: Graph, body: Graph, tangents: Sequence[Value | None], split: int
) -> tuple[list[Value], list[Value | None]]:
    """Declare the inputs of `body` and the tangents: of carries, then of consts."""
    values: list[Value] = []
    moving: list[Value | None] = []
    for part in (slice(0, split), slice(split, None)):
        values += [fresh_input(graph, name_of(v), v.type) for v in body.inputs[part]]
        moving += [
            None if t is None else fresh_input(graph, f"t_{name_of(v)}", t.type)
            for v, t in zip(body.inputs[part], tangents[part], strict=True)
        ]
    return values, moving
