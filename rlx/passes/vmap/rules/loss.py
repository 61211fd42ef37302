"""Losses: classes are on the last axis, and any axes before it are examples."""

from __future__ import annotations

from rlx.ir import ops
from rlx.passes.vmap.registry import leading

leading(ops.softmax_cross_entropy_with_logits, ops.softmax_cross_entropy_backward)
