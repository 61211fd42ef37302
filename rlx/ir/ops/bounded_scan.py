"""Scans over a number of steps that is symbolic: run to its bound, with the steps beyond skipped.

A program is compiled once for all extents within their bounds, and the memory of a loop is
planned for its bound anyway. A skipped step is the branch of a switch that returns the carries, so
it costs the test alone, and derivatives are those of the steps that are run.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.elementwise import lt
from rlx.ir.ops.loops import scan, switch
from rlx.ir.ops.shape import expand, narrow, pad
from rlx.ir.shape import Extent
from rlx.ir.types import TensorType


def scan_to_extent(
    carries: Sequence[Value],
    consts: Sequence[Value],
    rows: Sequence[Value],
    *,
    body: Graph,
    length: Extent,
    reverse: bool = False,
    checkpoints: int | None = None,
) -> tuple[Value, ...]:
    """Append a scan over `length` steps; rows may have the extent of its bound already.

    Outputs of steps have the extent of the rows.
    """
    attributes = {"num_carries": len(carries), "reverse": reverse, "checkpoints": checkpoints}
    if isinstance(length, int):
        operands = (*carries, *consts, *rows)
        results = scan(*operands, body=body, length=length, num_consts=len(consts), **attributes)
        return tuple(results)
    bound, (extent, *_) = max(length.upper, 0), rows[0].shape
    consts = (*consts, rows[0].graph.extent(value=length))
    numbers = rows[0].graph.iota(type=TensorType(DType.I64, (bound,)))
    results = scan(
        *carries, *consts, numbers, *(_padded(row, bound) for row in rows),
        body=_skipping(body, len(carries), len(consts) - 1), length=bound,
        num_consts=len(consts), **attributes,
    )  # fmt: skip
    last, ys = results[: len(carries)], results[len(carries) :]
    return (*last, *(narrow(y, axis=0, start=0, length=extent) for y in ys))


def _padded(row: Value, bound: int) -> Value:
    rest = (0,) * (row.rank - 1)
    missing = bound - row.shape[0]
    if missing == 0:
        return row
    padded: Value = pad(row, low=(0, *rest), high=(missing, *rest))
    return padded


def _skipping(body: Graph, carries: int, consts: int) -> Graph:
    """Return a step that keeps the carries where its number is not below its last const."""
    step, skip = Graph(f"{body.name}_to_bound"), Graph(f"{body.name}_skipped")
    count = carries + consts
    given = [_input(step, leaf) for leaf in body.inputs[:count]]
    steps, number = (step.input(_free(body, name), (), DType.I64) for name in ("steps", "number"))
    given += [_input(step, leaf) for leaf in body.inputs[count:]]
    kept = [_input(skip, leaf) for leaf in body.inputs][:carries]
    zeros = [expand(skip.constant(0, y.dtype), shape=y.shape) for y in body.outputs[carries:]]
    skip.set_outputs([*kept, *zeros])
    step.set_outputs(switch(lt(number, steps), *given, branches=(skip, body)))
    return step


def _input(graph: Graph, leaf: Value) -> Value:
    return graph.input(str(leaf.node.name), leaf.shape, leaf.dtype)


def _free(body: Graph, name: str) -> str:
    """Return `name`, or one like it that no input of `body` has."""
    taken = {leaf.node.name for leaf in body.inputs}
    while name in taken:
        name += "_"
    return name
