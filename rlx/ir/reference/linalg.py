"""Matrix products in NumPy."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference

reference.register(ops.matmul, np.matmul)


@reference(ops.dot_general)
def dot_general(
    a: Array,
    b: Array,
    *,
    lhs_contracting: tuple[int, ...],
    rhs_contracting: tuple[int, ...],
    lhs_batch: tuple[int, ...],
    rhs_batch: tuple[int, ...],
) -> Array:
    """Name the axes as `einsum` does: paired axes share a number."""
    left = list(range(a.ndim))
    right = list(range(a.ndim, a.ndim + b.ndim))
    paired = zip((*lhs_contracting, *lhs_batch), (*rhs_contracting, *rhs_batch), strict=True)
    for own, other in paired:
        right[other] = own
    batch = list(lhs_batch)
    kept = [axis for axis in left if axis not in (*lhs_contracting, *lhs_batch)]
    kept += [axis for axis in right if axis >= a.ndim]
    return np.einsum(a, left, b, right, [*batch, *kept])
