"""Attention: PyTorch's operators of it, as one op where it has no dropout."""

from __future__ import annotations

import math
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.torch.registry import rule
from rlx.tracing.apply import emit


def _scores(q: Any, k: Any, mask: Any, is_causal: bool, scale: float | None) -> Any:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = rnp.matmul(q, rnp.swapaxes(k, -1, -2)) * factor
    if is_causal:
        mask = _triangle(q, k)
    if mask is None:
        return scores
    if mask.value.dtype is DType.BOOL:
        return rnp.where(mask, scores, -math.inf)
    return scores + mask.astype(scores.dtype)


def _repeated(x: Any, like: Any) -> Any:
    """Return keys or values with a head per head of the queries."""
    if x.ndim < 3 or x.shape[-3] == like.shape[-3]:
        return x
    return rnp.repeat(x, like.shape[-3] // x.shape[-3], -3)


def _wide(x: Any) -> Any:
    return x.astype("f32") if x.value.dtype.is_low_precision else x


def attention(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> Any:
    """Attention over `[..., heads, steps, width]`; rows without a key are 0.

    A mask hides keys where it is false, or is added to the scores. It is one op where its shapes
    are those of an op: four axes, values as wide as keys, and as many queries as keys if causal.
    """
    q, k, v = _wide(q), _wide(k), _wide(v)
    if is_causal and mask is None and not _is_square(q, k):
        mask, is_causal = _triangle(q, k), False
    empty = None
    if mask is not None:
        mask, empty = _with_keys(mask, q.dtype)
    found = _in_one(q, k, v, mask, is_causal, scale)
    if found is None:
        k, v = _repeated(k, q), _repeated(v, q)
        scores = _scores(q, k, mask, is_causal, scale)
        found = rnp.matmul(nn.softmax(scores, axis=-1), v)
    return found if empty is None else rnp.where(empty, 0, found)


def _is_square(q: Any, k: Any) -> bool:
    return bool(q.shape[-2] == k.shape[-2])


def _triangle(q: Any, k: Any) -> Any:
    """Key j is seen by query i if j <= i, from the first of each on."""
    queries = rnp.expand_dims(rnp.arange(q.shape[-2]), 1)
    return rnp.less_equal(rnp.arange(k.shape[-2]), queries)


def _with_keys(mask: Any, dtype: Any) -> tuple[Any, Any]:
    """Return a mask that hides no row entirely, and which rows it did: their results are 0."""
    if mask.value.dtype is DType.BOOL:
        empty = rnp.logical_not(rnp.any(mask, -1, keepdims=True))
        return rnp.logical_or(mask, empty), empty
    empty = rnp.all(rnp.isneginf(mask), -1, keepdims=True)
    return rnp.where(empty, 0, mask).astype(dtype), empty


def _in_one(q: Any, k: Any, v: Any, mask: Any, is_causal: bool, scale: float | None) -> Any:
    """Return attention as one op; None where the shapes are not those of one."""
    if not (q.ndim == k.ndim == v.ndim == 4 and k.shape == v.shape and q.shape[0] == k.shape[0]):
        return None
    sizes = (q.shape[1], q.shape[3], k.shape[1], k.shape[3])
    if not all(isinstance(n, int) and n > 0 for n in sizes) or 0 in (q.shape[2], k.shape[2]):
        return None
    heads, width = sizes[:2]
    if k.shape[3] != width or heads % k.shape[1] or not q.value.dtype.is_float:
        return None
    kind, operands = "causal" if is_causal else "none", [q, k, v]
    if mask is not None:
        rank = mask.ndim
        if is_causal or rank > 4 or rank < 1:
            return None
        mask = rnp.reshape(mask, (1,) * (4 - rank) + tuple(mask.shape))
        kind = "custom" if mask.value.dtype is DType.BOOL else "bias"
        operands.append(mask)
    return emit(
        ops.attention, *operands, num_heads=heads, head_dim=width, mask_kind=kind,
        score_scale=scale, layout="bhsd",
    )  # fmt: skip


@rule("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    q: Any, k: Any, v: Any, dropout: float = 0.0, is_causal: bool = False, *,
    attn_mask: Any = None, scale: float | None = None, **_: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The result, and the logarithms of the sums of exponentials by query."""
    _require_kept(dropout)
    out = attention(q, k, v, attn_mask, is_causal, scale)
    scores = _scores(_wide(q), _repeated(_wide(k), q), attn_mask, is_causal, scale)
    return out, nn.logsumexp(scores, axis=-1)


@rule("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    g: Any, q: Any, k: Any, v: Any, out: Any, logsumexp: Any, *given: Any, **named: Any
) -> tuple[Any, Any, Any]:
    del out, logsumexp
    found: tuple[Any, Any, Any] = attention_backward(g, q, k, v, *given, **named)
    return found


@rule("rlx.attention_backward")
def attention_backward(
    g: Any, q: Any, k: Any, v: Any, dropout: float, is_causal: bool, *, attn_mask: Any = None,
    scale: float | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
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
    del enable_gqa  # fewer heads of keys than of queries say so
    _require_kept(dropout_p)
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
    if dropout:
        raise UnsupportedError(
            f"attention drops a share of {dropout} of its weights inside of one operator",
            remedy="apply dropout to what attention returns, or set it to 0",
        )
