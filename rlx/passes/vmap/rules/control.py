"""Checkpoints and barriers: the batch axis passes through them."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.types import TensorType
from rlx.passes.vmap.batching import Batching, MaybeBatched
from rlx.passes.vmap.registry import Batched, batch
from rlx.passes.vmap.sweep import batch_body


@batch(ops.checkpoint)
def checkpoint_batch(at: Batching, *operands: Value, body: Graph, kept: int) -> Batched:
    """Batch the body; what it computes from shared operands alone stays shared."""
    batched, outputs = batch_body(body, at.batched, at.axis)
    results = ops.checkpoint(*operands, body=batched, kept=kept)
    return [MaybeBatched(result, own) for result, own in zip(results, outputs, strict=True)]


@batch(ops.barrier)
def barrier_batch(at: Batching, x: Value, *dependencies: Value) -> Batched:
    """A shared value that waits for batched ones is still shared."""
    return MaybeBatched(ops.barrier(x, *dependencies), at.batched[0])


@batch(ops.refuse_derivative)
def refuse_derivative_batch(at: Batching, x: Value, *, because: str) -> Batched:
    return MaybeBatched(ops.refuse_derivative(x, because=because), at.batched[0])


@batch(ops.check)
def check_batch(at: Batching, failed: Value, *values: Value, report: int) -> Batched:
    """Check all examples at once, and report the last one that fails, as JAX does."""
    if at.size == 0:
        return MaybeBatched(at.graph.constant(0, DType.I32), batched=False)
    failing = failed if at.batched[0] else at.lift(failed)
    numbers = at.graph.iota(type=TensorType(DType.I64, (at.size,)))
    last = ops.reduce_max(ops.where(failing, numbers, -1), axes=(0,))
    place = ops.maximum(last, 0)
    payload = [
        ops.gather(value, place, axis=0) if batched else value
        for value, batched in zip(values, at.batched[1:], strict=True)
    ]
    return MaybeBatched(ops.check(ops.ge(last, 0), *payload, report=report), batched=False)
