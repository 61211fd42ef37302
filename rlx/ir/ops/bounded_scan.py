"""Scans over a number of steps that is symbolic: run to its bound, with the steps beyond skipped.

A program is compiled once for all extents within their bounds, and the memory of a loop is
planned for its bound anyway. A skipped step is the branch of a switch that returns the carries, so
it costs the test alone, and derivatives are those of the steps that are run.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.elementwise import cast
from rlx.ir.ops.loops import scan, switch
from rlx.ir.ops.shape import expand, narrow, pad, reshape
from rlx.ir.shape import Extent, ends, upper
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
    is_left = _padded(_counted_down(rows[0].graph, length), bound) > 0
    results = scan(
        *carries, *consts, is_left, *(_padded(row, bound) for row in rows),
        body=_skipping(body, len(carries), len(consts)), length=bound,
        num_consts=len(consts), **attributes,
    )  # fmt: skip
    last, ys = results[: len(carries)], results[len(carries) :]
    return (*last, *(narrow(y, axis=0, start=0, length=extent) for y in ys))


def scan_chunks(
    carry: Value, consts: Sequence[Value], rows: Sequence[Value], *, body: Graph, size: int
) -> tuple[Value, Value]:
    """Append a scan over `size` rows at a time; rows `[steps, ...]` are filled up with zeros.

    The body takes the carry, the consts, an i64 `[size]` that counts the rows down, and a chunk
    of each of `rows`; it returns the next carry and a chunk of results. Zeros must leave the
    carry as it is.
    """
    steps = rows[0].shape[0]
    chunks = -(-upper(steps) // size)
    whole = chunks * size
    down = _counted_down(rows[0].graph, steps)
    parts = [
        reshape(_padded(row, whole), shape=(chunks, size, *row.shape[1:])) for row in (down, *rows)
    ]
    last, ys = scan_to_extent((carry,), consts, parts, body=body, length=-(-steps // size))
    joined = reshape(ys, shape=(whole, *ys.shape[2:]))
    return last, narrow(joined, axis=0, start=0, length=steps)


def _counted_down(graph: Graph, length: Extent) -> Value:
    """Return how many steps are left at each step.

    Where their number is symbolic these are no constants, which would be kept from run to run. One
    that may be negative is no extent: steps up to the bound are numbered then.
    """
    steps = length if isinstance(length, int) or ends(length)[0] >= 0 else max(length.upper, 0)
    numbers: Value = graph.iota(type=TensorType(DType.I64, (steps,)))
    count = length if isinstance(length, int) else graph.extent(value=length)
    left: Value = count - numbers
    return left


def _padded(row: Value, bound: int) -> Value:
    rest = (0,) * (row.rank - 1)
    missing = bound - row.shape[0]
    if missing == 0:
        return row
    padded: Value = pad(row, low=(0, *rest), high=(missing, *rest))
    return padded


def _skipping(body: Graph, carries: int, consts: int) -> Graph:
    """Return a step that keeps the carries where it is beyond the last one.

    Results are then made of that fact, which is 0: a constant would be kept from run to run.
    """
    step, run, skip = (Graph(f"{body.name}{end}") for end in ("_to_bound", "_run", "_skipped"))
    count, name = carries + consts, _free(body, "is_left")
    given = [_input(step, leaf) for leaf in body.inputs[:count]]
    is_left = step.input(name, (), DType.BOOL)
    given += [_input(step, leaf) for leaf in body.inputs[count:]]
    run.input(name, (), DType.BOOL)
    run.set_outputs(run.inline(body, [_input(run, leaf) for leaf in body.inputs]))
    no = skip.input(name, (), DType.BOOL)
    kept = [_input(skip, leaf) for leaf in body.inputs][:carries]
    zeros = [expand(cast(no, to=y.dtype), shape=y.shape) for y in body.outputs[carries:]]
    skip.set_outputs([*kept, *zeros])
    step.set_outputs(switch(is_left, is_left, *given, branches=(skip, run)))
    return step


def _input(graph: Graph, leaf: Value) -> Value:
    return graph.input(str(leaf.node.name), leaf.shape, leaf.dtype)


def _free(body: Graph, name: str) -> str:
    """Return `name`, or one like it that no input of `body` has."""
    taken = {leaf.node.name for leaf in body.inputs}
    while name in taken:
        name += "_"
    return name
