"""Loops and branches: one loop for all examples, masked if the predicate is batched.

A carry is batched if its first value is, or if a trip makes it so. Where the examples
themselves decide how long to loop or where to branch, all of them go every way and each keeps
what it would have computed alone (`masking`).
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.loop_signature import Parts
from rlx.passes.vmap.batching import (
    Batching,
    MaybeBatched,
    align,
    batch_to,
    batch_to_front,
    expand_to,
    lifted,
    reshape_to,
)
from rlx.passes.vmap.masking import borrowed, may_fail
from rlx.passes.vmap.registry import Batched, batch
from rlx.passes.vmap.sweep import Image, batch_body, carry

Flags = tuple[bool, ...]


@batch(ops.scan)
def scan_batch(
    at: Batching,
    *operands: Value,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int,
    reverse: bool,
    checkpoints: int | None,
    residuals: int,
) -> Batched:
    """Rows stay the leading axis of what is scanned and stacked."""
    given = Parts.of(operands, num_carries, num_consts)
    batched = Parts.of(at.batched, num_carries, num_consts)
    carries = _batched_carries(at, body, num_carries)
    rows = [batch_to(x, 1) if own else x for x, own in zip(given.rows, batched.rows, strict=True)]
    flags = (*carries, *batched.consts, *batched.rows)
    stepped, outputs = batch_body(body, flags, at.axis, due=carries)
    results = ops.scan(
        *_lifted(at, given.carries, carries), *given.consts, *rows,
        body=stepped, length=length, num_carries=num_carries, num_consts=num_consts,
        reverse=reverse, checkpoints=checkpoints, residuals=residuals,
    )  # fmt: skip
    stacked = [
        MaybeBatched(batch_to_front(y, 1) if own else y, own)
        for y, own in zip(results[num_carries:], outputs[num_carries:], strict=True)
    ]
    return [*map(MaybeBatched, results[:num_carries], carries), *stacked]


@batch(ops.while_loop)
def while_loop_batch(
    at: Batching,
    *operands: Value,
    condition: Graph,
    body: Graph,
    num_consts: int,
    max_trips: int | None,
) -> Batched:
    count = len(operands) - num_consts
    given = Parts.of(operands, count, num_consts)
    batched = Parts.of(at.batched, count, num_consts)
    carries = _batched_carries(at, body, count)
    flags = (*carries, *batched.consts)
    asked, (differs,) = batch_body(condition, flags, at.axis)
    if differs:
        return _while_any(at, given, batched, condition, body, max_trips)
    stepped, _ = batch_body(body, flags, at.axis, due=carries)
    results = ops.while_loop(
        *_lifted(at, given.carries, carries), *given.consts, condition=asked, body=stepped,
        num_consts=num_consts, max_trips=max_trips,
    )  # fmt: skip
    return list(map(MaybeBatched, results, (*carries, False)))


def _while_any(
    at: Batching,
    given: Parts[Value],
    batched: Parts[bool],
    condition: Graph,
    body: Graph,
    max_trips: int | None,
) -> list[Value]:
    """Loop while any example does; one that has finished repeats its last trip.

    Carried are for each example the values before its last trip and after it, its trips, and
    whether it goes on. The body is never given what no condition has held for: it may have no
    value there, nor a derivative. An example without a trip is masked in the trips of others.
    """
    count, consts, every = len(given.carries), given.consts, (True,) * len(given.carries)
    flags = (*every, *batched.consts)
    asked, _ = batch_body(condition, flags, at.axis, due=(True,))
    stepped, _ = batch_body(body, flags, at.axis, due=every)
    starts = _lifted(at, given.carries, every)
    begins = _goes_on(at.graph.inline(asked, (*starts, *consts))[0])
    valid = borrowed(at, (*starts, *consts), flags, begins)
    trips = expand_to(at.graph.constant(0, DType.I64), (at.size,))
    first = (*valid[:count], *starts, trips, begins)
    results = ops.while_loop(
        *first, *valid[count:], condition=_any_goes_on((*first, *consts), len(first) - 1),
        body=_step_going(asked, stepped, (*first, *consts), count),
        num_consts=len(consts), max_trips=max_trips,
    )  # fmt: skip
    ends = [
        ops.where(align(begins, start.rank - 1), end, start)
        for start, end in zip(starts, results[count : 2 * count], strict=True)
    ]
    return [*ends, results[2 * count]]


def _any_goes_on(like: Sequence[Value], position: int) -> Graph:
    graph = Graph("any_example_goes_on")
    inputs = _declared(graph, like)
    graph.set_outputs([ops.reduce_max(inputs[position], axes=(0,))])
    return graph


def _step_going(asked: Graph, stepped: Graph, like: Sequence[Value], count: int) -> Graph:
    """Return the step of all examples: one goes on with what it gets as long as it may."""
    graph = Graph(stepped.name)
    inputs = _declared(graph, like)
    before, trips, going = inputs[:count], inputs[2 * count], inputs[2 * count + 1]
    consts = inputs[2 * count + 2 :]
    after = graph.inline(stepped, (*before, *consts))
    still = ops.logical_and(going, _goes_on(graph.inline(asked, (*after, *consts))[0]))
    following = [
        ops.where(align(still, old.rank - 1), new, old)
        for old, new in zip(before, after, strict=True)
    ]
    graph.set_outputs([*following, *after, trips + ops.cast(going, to=DType.I64), still])
    return graph


def _goes_on(condition: Value) -> Value:
    """Return for each example whether all elements of its condition are nonzero."""
    holds = ops.cast(condition, to=DType.BOOL)
    return ops.reduce_min(holds, axes=tuple(range(1, holds.rank)))


@batch(ops.switch)
def switch_batch(
    at: Batching, selector: Value, *operands: Value, branches: tuple[Graph, ...]
) -> Batched:
    if at.batched[0]:
        return _select_each(at, selector, operands, branches)
    flags = at.batched[1:]
    depends = [batch_body(branch, flags, at.axis)[1] for branch in branches]
    due = tuple(any(marks) for marks in zip(*depends, strict=True))
    chosen = tuple(batch_body(branch, flags, at.axis, due=due)[0] for branch in branches)
    return list(map(MaybeBatched, ops.switch(selector, *operands, branches=chosen), due))


def _select_each(
    at: Batching, selector: Value, operands: Sequence[Value], branches: tuple[Graph, ...]
) -> list[Value]:
    """Take every branch for all examples, and of each result what its example selects.

    A branch that may fail runs with operands of examples that select it, if there are any.
    """
    number = ops.cast(reshape_to(selector, (at.size,)), to=DType.I64)
    chosen = ops.maximum(ops.minimum(number, len(branches) - 1), 0)
    taken = [
        _taken_safely(at, operands, branch, ops.eq(chosen, index))
        if may_fail(branch)
        else _taken(at, operands, branch)
        for index, branch in enumerate(branches)
    ]
    results = [lifted(value, at.size).value for value in taken[-1]]
    for index, values in reversed(list(enumerate(taken[:-1]))):
        here = ops.eq(chosen, index)
        results = [
            ops.where(align(here, result.rank - 1), lifted(value, at.size).value, result)
            for value, result in zip(values, results, strict=True)
        ]
    return results


def _taken_safely(
    at: Batching, operands: Sequence[Value], branch: Graph, here: Value
) -> list[MaybeBatched]:
    """Take `branch` where `here` marks examples, and give the others any values."""
    flags = at.batched[1:]
    valid = borrowed(at, operands, flags, here)
    run, _ = batch_body(branch, flags, at.axis, due=(True,) * len(branch.outputs))
    skip = Graph("no_example")
    _declared(skip, valid)
    skip.set_outputs(
        expand_to(skip.constant(0, output.dtype), output.shape) for output in run.outputs
    )
    anyone = ops.reduce_max(here, axes=(0,))
    results = ops.switch(anyone, *valid, branches=(skip, run))
    return [MaybeBatched(result, batched=True) for result in results]


def _taken(at: Batching, operands: Sequence[Value], branch: Graph) -> list[MaybeBatched]:
    value_map: Image = {
        leaf: MaybeBatched(value, own)
        for leaf, value, own in zip(branch.inputs, operands, at.batched[1:], strict=True)
    }
    carry(at.graph, branch.nodes, value_map, at.axis)
    return [value_map[output] for output in branch.outputs]


def _batched_carries(at: Batching, body: Graph, count: int) -> Flags:
    """Return which of the `count` carries are batched once a trip changes none of them."""
    carries, before = at.batched[:count], None
    while carries != before:
        before = carries
        _, outputs = batch_body(body, (*carries, *at.batched[count:]), at.axis)
        carries = tuple(a or b for a, b in zip(carries, outputs[:count], strict=True))
    return carries


def _lifted(at: Batching, values: Sequence[Value], due: Sequence[bool]) -> list[Value]:
    return [
        x if own or not must else at.lift(x)
        for x, own, must in zip(values, at.batched, due, strict=False)
    ]


def _declared(graph: Graph, like: Sequence[Value]) -> list[Value]:
    return [graph.input(f"x{i}", x.shape, x.dtype) for i, x in enumerate(like)]
