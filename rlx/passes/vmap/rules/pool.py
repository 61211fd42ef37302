"""Pooling: all axes in front of the spatial ones are alike."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import leading

leading(ops.max_pool, ops.min_pool, ops.sum_pool, ops.mean_pool, ops.prod_pool)
leading(ops.max_pool_take, ops.max_pool_backward)
