"""Running sums and the softmax family; reductions proper follow from their trait."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import shift_axes

shift_axes(
    ops.cumsum, ops.cumprod, ops.cummax, ops.cummin, ops.softmax, ops.log_softmax, ops.logsumexp
)
