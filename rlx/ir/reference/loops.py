"""The meaning of loops and branches: Python loops over their bodies."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference.interpreter import evaluate_body
from rlx.ir.reference.registry import Array, reference
from rlx.ir.types import TensorType


@reference.exact(ops.scan)
def scan(
    *operands: Array,
    body: Graph,
    length: int,
    num_carries: int,
    num_consts: int = 0,
    reverse: bool = False,
    checkpoints: int | None = None,
    residuals: int = 0,
) -> tuple[Array, ...]:
    carries = list(operands[:num_carries])
    consts = operands[num_carries : num_carries + num_consts]
    xs = operands[num_carries + num_consts :]
    stacked = [_empty(output.type, length) for output in body.outputs[num_carries:]]
    for step in reversed(range(length)) if reverse else range(length):
        results = evaluate_body(body, [*carries, *consts, *(x[step] for x in xs)])
        carries = results[:num_carries]
        for rows, row in zip(stacked, results[num_carries:], strict=True):
            rows[step] = row
    return (*carries, *stacked)


@reference.exact(ops.while_loop)
def while_loop(
    *operands: Array,
    condition: Graph,
    body: Graph,
    num_consts: int = 0,
    max_trips: int | None = None,
) -> tuple[Array, ...]:
    split = len(operands) - num_consts
    carries, consts = list(operands[:split]), operands[split:]
    trips = 0
    while trips != max_trips and _holds(condition, [*carries, *consts]):
        carries = evaluate_body(body, [*carries, *consts])
        trips += 1
    return (*carries, np.asarray(trips, np.int64))


@reference.exact(ops.switch)
def switch(selector: Array, *operands: Array, branches: tuple[Graph, ...]) -> tuple[Array, ...]:
    chosen = min(max(int(selector.reshape(())), 0), len(branches) - 1)
    return tuple(evaluate_body(branches[chosen], operands))


def _holds(condition: Graph, arrays: list[Array]) -> bool:
    (result,) = evaluate_body(condition, arrays)
    return bool(np.all(result != 0))


def _empty(type: TensorType, length: int) -> Array:
    return np.zeros((length, *type.static_shape), type.dtype.numpy)
