"""Matrix products: a shared matrix is never repeated."""

from __future__ import annotations

from typing import TypeAlias

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.vmap.batching import Batching, batch_to_front
from rlx.passes.vmap.registry import Batched, batch, broadcasting

Axes: TypeAlias = tuple[int, ...]

broadcasting(ops.matmul, 2, 2)


@batch(ops.dot_general)
def dot_general_batch(
    at: Batching,
    a: Value,
    b: Value,
    *,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
    lhs_batch: Axes,
    rhs_batch: Axes,
) -> Batched:
    """A batch axis of both operands is one more batch axis; of one operand, a free axis."""
    left, right = at.batched
    both = (0,) if left and right else ()
    result = ops.dot_general(
        a,
        b,
        lhs_contracting=_moved(lhs_contracting, left),
        rhs_contracting=_moved(rhs_contracting, right),
        lhs_batch=both + _moved(lhs_batch, left),
        rhs_batch=both + _moved(rhs_batch, right),
    )
    if both:
        return result
    lhs_rank = at.operands[0].rank
    return batch_to_front(result, len(lhs_batch) if left else lhs_rank - len(lhs_contracting))


def _moved(axes: Axes, batched: bool) -> Axes:
    return tuple(axis + 1 for axis in axes) if batched else axes
