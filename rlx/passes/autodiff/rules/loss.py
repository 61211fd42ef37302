"""Derivatives of losses."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.autodiff.registry import Derivatives, Pullback, vjp


@vjp(ops.softmax_cross_entropy_with_logits)
def softmax_cross_entropy_vjp(at: Pullback, logits: Value, labels: Value) -> Derivatives:
    """One fused op, which checks the labels; the formula would build one-hot rows."""
    if not at.wanted[0]:
        return None
    return ops.softmax_cross_entropy_backward(logits, labels, at.cotangent)
