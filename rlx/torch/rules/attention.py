"""Attention: PyTorch's operators of it, as one op where it has no dropout."""

from __future__ import annotations

import math
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.dtype import DType
from rlx.torch.registry import rule


def _scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: float | None) -> Any:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = rnp.matmul(q, rnp.swapaxes(k, -1, -2)) * factor
    if is_causal:
        queries = rnp.expand_dims(rnp.arange(q.shape[-2]), 1)
        mask = rnp.less_equal(rnp.arange(k.shape[-2]), queries)
    if mask is None:
        return scores
    if mask.value.dtype is DType.BOOL:
        return rnp.where(mask, scores, -math.inf)
    return scores + mask.astype(scores.dtype)


def _repeated(x: Any, like: Any) -> Any:
    """Return keys or values with a head per head of the queries."""
    if x.shape[-3] == like.shape[-3]:
        return x
    return rnp.repeat(x, like.shape[-3] // x.shape[-3], -3)


def _wide(x: Any) -> Any:
    return x.astype("f32") if x.value.dtype.is_low_precision else x


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> Any:
    """Attention over `[..., heads, steps, width]`; rows without a key are 0."""
    q, k, v = _wide(q), _wide(k), _wide(v)
    scores = _scores(q, k, mask, is_causal, scale)
    if mask is None:
        return rnp.matmul(nn.softmax(scores, axis=-1), v)
    top = rnp.max(scores, -1, keepdims=True)
    is_empty = rnp.isneginf(top)
    weights = nn.softmax(rnp.where(is_empty, 0, scores), axis=-1)
    return rnp.matmul(rnp.where(is_empty, 0, weights), v)


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    q: Any, k: Any, v: Any, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Any = None, scale: float | None = None, **_: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The result, and the logarithms of the sums of exponentials by query."""
    _require_kept(dropout)
    out = attention(q, k, v, attn_mask, is_causal, scale)
    scores = _scores(_wide(q), _wide(k), attn_mask, is_causal, scale)
    return out, nn.logsumexp(scores, axis=-1)


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    g: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, dropout: float, is_causal: bool, *,
    attn_mask: Any = None, scale: float | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    del out, logsumexp
    _require_kept(dropout)

    def apply(q: Any, k: Any, v: Any) -> Any:
        return attention(q, k, v, attn_mask, is_causal, scale)

    found: tuple[Any, Any, Any] = rlx.vjp(apply, _wide(q), _wide(k), _wide(v))[1](_wide(g))
    return found


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(
    q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    _require_kept(dropout_p)
    if enable_gqa:
        k, v = _repeated(k, q), _repeated(v, q)
    return attention(q, k, v, attn_mask, is_causal, scale)


@rule("_native_multi_head_attention")
def multi_head_attention(
    query: Any, key: Any, value: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any,
    weight: Any, bias: Any, mask: Any = None, need_weights: bool = True,
    average_weights: bool = True, mask_type: int | None = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Attention with its projections, of one module of PyTorch: `[batch, steps, width]` arrays."""
    parts = zip((query, key, value), rnp.split(qkv_weight, 3), rnp.split(qkv_bias, 3), strict=True)
    q, k, v = (_heads(rnp.matmul(x, rnp.transpose(w)) + b, heads) for x, w, b in parts)
    kept = _kept_mask(mask, mask_type)
    found = rnp.swapaxes(attention(q, k, v, kept), 1, 2)
    joined = rnp.reshape(found, (*query.shape[:2], width))
    result = rnp.matmul(joined, rnp.transpose(weight)) + bias
    if not need_weights:
        return result, rnp.zeros((0,), result.value.dtype)
    weights = nn.softmax(_scores(q, k, kept, False, None), axis=-1)
    return result, rnp.mean(weights, 1) if average_weights else weights


def _heads(x: Any, heads: int) -> Any:
    batch, steps, width = x.shape
    return rnp.swapaxes(rnp.reshape(x, (batch, steps, heads, width // heads)), 1, 2)


def _kept_mask(mask: Any, mask_type: int | None) -> Any:
    """Return which keys are seen; PyTorch's masks name those that are not."""
    if mask is None:
        return None
    seen = rnp.logical_not(mask.astype(DType.BOOL))
    return rnp.expand_dims(seen, (1, 2)) if mask_type == 1 else seen


@rule("_transformer_encoder_layer_fwd")
def encoder_layer(
    x: Any, width: int, heads: int, qkv_weight: Any, qkv_bias: Any, weight: Any, bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, scale1: Any, shift1: Any, scale2: Any,
    shift2: Any, weight1: Any, bias1: Any, weight2: Any, bias2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """A layer of `torch.nn.TransformerEncoder`, which is one operator in inference."""

    def attend(x: Any) -> Any:
        return multi_head_attention(
            x, x, x, width, heads, qkv_weight, qkv_bias, weight, bias, mask, False, True, mask_type
        )[0]

    def feed(x: Any) -> Any:
        inner = rnp.matmul(x, rnp.transpose(weight1)) + bias1
        inner = nn.gelu(inner, approximate=False) if use_gelu else nn.relu(inner)
        return rnp.matmul(inner, rnp.transpose(weight2)) + bias2

    def norm(x: Any, scale: Any, shift: Any) -> Any:
        return nn.layer_norm(x, scale, shift, axis=-1, eps=eps)

    if norm_first:
        x = x + attend(norm(x, scale1, shift1))
        return x + feed(norm(x, scale2, shift2))
    x = norm(x + attend(x), scale1, shift1)
    return norm(x + feed(x), scale2, shift2)


def _require_kept(dropout: float) -> None:
    from rlx.errors import UnsupportedError

    if dropout:
        raise UnsupportedError(
            f"attention drops a share of {dropout} of its weights inside of one operator",
            remedy="apply dropout to what attention returns, or set it to 0",
        )
