"""A sum with the residual stream, and its normalization over the last axis."""

from __future__ import annotations

from rlx.blocks.block import Block, require_hidden, require_shape
from rlx.ir.graph import Value

_ANY_RANK = (1, 2, 3, 4)


def residual_layer_norm(
    x: Value,
    residual: Value,
    gamma: Value,
    beta: Value,
    bias: Value | None = None,
    *,
    eps: float,
    name: str | None = None,
) -> Value:
    """`layer_norm(x + bias + residual)`; gamma, beta and bias are `[H]`."""
    with Block(x.graph, "residual_layer_norm", name):
        total = _total(x, residual, bias)
        return x.graph.layer_norm(total, gamma, beta, axis=-1, eps=eps)


def residual_rms_norm(
    x: Value,
    residual: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
    *,
    eps: float,
    name: str | None = None,
) -> Value:
    """`rms_norm(x + bias + residual)`; gamma, beta and bias are `[H]`."""
    with Block(x.graph, "residual_rms_norm", name):
        total = _total(x, residual, bias)
        return x.graph.rms_norm(total, gamma, beta, axis=-1, eps=eps)


def _total(x: Value, residual: Value, bias: Value | None) -> Value:
    hidden = require_hidden("x", x, _ANY_RANK)
    require_shape("residual", residual, x.shape)
    if bias is not None:
        require_shape("bias", bias, (hidden,))
        x = x + bias
    return x + residual
