"""Ops that hold a sub-program, and ops that say when: the batch axis passes through them."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
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
