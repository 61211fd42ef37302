"""Ops that move elements: the batch axis is left as it is."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import Extent, Shape
from rlx.passes.vmap.batching import Batching, align, expand_to, reshape_to
from rlx.passes.vmap.registry import Batched, batch, shift_axes

shift_axes(ops.narrow, ops.concat, ops.reverse)


@batch(ops.reshape)
def reshape_batch(at: Batching, x: Value, *, shape: Shape) -> Batched:
    return reshape_to(x, (at.size, *at.result.shape))


@batch(ops.expand)
def expand_batch(at: Batching, x: Value, *, shape: Shape) -> Batched:
    return expand_to(align(x, at.result.rank), (at.size, *at.result.shape))


@batch(ops.transpose)
def transpose_batch(at: Batching, x: Value, *, perm: tuple[int, ...]) -> Batched:
    return ops.transpose(x, perm=(0, *(axis + 1 for axis in perm)))


@batch(ops.pad)
def pad_batch(
    at: Batching,
    x: Value,
    *,
    low: tuple[Extent, ...],
    high: tuple[Extent, ...],
    value: float,
    structural: bool,
) -> Batched:
    return ops.pad(x, low=(0, *low), high=(0, *high), value=value, structural=structural)


@batch(ops.slice)
def slice_batch(
    at: Batching,
    x: Value,
    *,
    start: tuple[int, ...],
    stop: tuple[Extent, ...],
    step: tuple[int, ...],
) -> Batched:
    return ops.slice(x, start=(0, *start), stop=(at.size, *stop), step=(1, *step))
