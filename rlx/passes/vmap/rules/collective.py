"""Collectives under `vmap`: over the mapped axis, array ops; over another, batched collectives.

Where the mapped axis is the collective's own, the members are the examples: a sum over them is
a reduction of the batch axis, and a result that all of them share has no such axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import OpDef
from rlx.ir.types import TensorType
from rlx.passes.vmap.batching import (
    Batching,
    MaybeBatched,
    batch_to,
    batch_to_front,
    expand_to,
    reshape_to,
)
from rlx.passes.vmap.registry import Batched, batch, unrolled

_FOLDS = {"sum": ops.reduce_sum, "max": ops.reduce_max, "min": ops.reduce_min}


def _exchanging(definition: OpDef) -> Callable[[Callable[..., Batched]], Callable[..., Batched]]:
    """Register what becomes of an op over the mapped axis; over another one it is kept."""

    def decorate(over_batch: Callable[..., Batched]) -> Callable[..., Batched]:
        def rule(at: Batching, x: Value, *communicator: Value, **attributes: Any) -> Batched:
            lifted = x if at.batched[0] else at.lift(x)
            if _is_over_batch(at, communicator, **attributes):
                return over_batch(at, lifted, **attributes)
            after = min(1, lifted.rank - 1)  # the exchanged axis stays the leading one
            moved = definition(batch_to(lifted, after), *communicator, **attributes)
            result: Value = batch_to_front(moved, after)
            return result

        batch.register(definition, rule)
        return over_batch

    return decorate


def _is_over_batch(
    at: Batching,
    communicator: tuple[Value, ...],
    *,
    axis_name: str,
    axis_size: int,
    **attributes: Any,
) -> bool:
    """True if the mapped axis is the collective's own; ShapeError if it has another size."""
    if communicator or axis_name != at.axis_name:
        return False
    if at.size != axis_size:
        raise ShapeError(
            f"axis {axis_name!r} has {axis_size} members, and vmap maps {at.size} examples over it",
            remedy=f"map {axis_size} examples, or build the graph for {at.size} members",
        )
    return True


@_exchanging(ops.all_reduce)
def all_reduce_batch(at: Batching, x: Value, *, reduction: str, **axis: Any) -> Batched:
    return MaybeBatched(_FOLDS[reduction](x, axes=(0,)), batched=False)


@_exchanging(ops.all_gather)
def all_gather_batch(at: Batching, x: Value, **axis: Any) -> Batched:
    return MaybeBatched(reshape_to(x, at.result.shape), batched=False)


@_exchanging(ops.reduce_scatter)
def reduce_scatter_batch(at: Batching, x: Value, **axis: Any) -> Batched:
    return reshape_to(ops.reduce_sum(x, axes=(0,)), (at.size, *at.result.shape))


@_exchanging(ops.all_to_all)
def all_to_all_batch(at: Batching, x: Value, **axis: Any) -> Batched:
    share = at.result.shape[0] // axis["axis_size"]
    parts = reshape_to(x, (at.size, at.size, share, *at.result.shape[1:]))
    swapped = batch_to(parts, 1)
    return reshape_to(swapped, (at.size, *at.result.shape))


@_exchanging(ops.collective_broadcast)
def collective_broadcast_batch(at: Batching, x: Value, *, root: int, **axis: Any) -> Batched:
    chosen = ops.narrow(x, axis=0, start=root, length=1)
    return MaybeBatched(reshape_to(chosen, at.result.shape), batched=False)


@_exchanging(ops.collective_permute)
def collective_permute_batch(
    at: Batching, x: Value, *, pairs: tuple[tuple[int, int], ...], **axis: Any
) -> Batched:
    """Join runs of consecutive sources, and zeros where no member sends."""
    source_of = {target: source for source, target in pairs}
    runs: list[list[int | None]] = []
    for target in range(axis["axis_size"]):
        source = source_of.get(target)
        if runs and _follows(runs[-1][-1], source):
            runs[-1].append(source)
        else:
            runs.append([source])
    parts = [_run(x, run) for run in runs]
    result: Value = parts[0] if len(parts) == 1 else ops.concat(*parts, axis=0)
    return result


def _follows(last: int | None, source: int | None) -> bool:
    return source is None if last is None else source == last + 1


def _run(x: Value, run: list[int | None]) -> Value:
    first = run[0]
    if first is None:
        return expand_to(x.graph.constant(0, x.dtype), (len(run), *x.shape[1:]))
    return ops.narrow(x, axis=0, start=first, length=len(run))


unrolled(ops.all_reduce_start, ops.all_reduce_done, because="made by a pass, after all batching")


@batch(ops.axis_index)
def axis_index_batch(at: Batching, *communicator: Value, **axis: Any) -> Batched:
    if _is_over_batch(at, communicator, **axis):
        return at.graph.iota(type=TensorType(DType.I32, (at.size,)))
    return MaybeBatched(at.graph.axis_index(*communicator, **axis), batched=False)
