"""Derivatives of attention and rotary embedding; forward mode and second order by formula."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.autodiff.registry import BY_FORMULA, Derivatives, Pullback, vjp


@vjp(ops.attention)
def attention_vjp(at: Pullback, *operands: Value, **attributes: Any) -> Derivatives:
    """One op that recomputes the weights: the formula's would be stored for the backward pass."""
    q, k, v, *mask = operands
    gradients: Derivatives = ops.attention_backward(q, k, v, at.cotangent, *mask, **attributes)
    return gradients


@vjp(ops.rope)
def rope_vjp(at: Pullback, x: Value, cos: Value, sin: Value, **attributes: Any) -> Derivatives:
    """A rotation's transpose turns back; tables that are trained themselves are rare."""
    if at.wanted[1] or at.wanted[2]:
        return BY_FORMULA
    return ops.rope(at.cotangent, cos, -sin, **attributes)
