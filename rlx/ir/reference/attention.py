"""Attention, its gradient and rotary embedding in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.ops.attention_layout import (
    MASKED_SCORE,
    VISIBLE_FROM,
    AttentionLayout,
    attention_layout,
    mask_view,
)
from rlx.ir.reference.registry import Array, reference, static_shape
from rlx.ir.reference.weights import weight


@dataclass(frozen=True)
class _Attended:
    """One evaluation: operands as [B, H, S, D], scores before the mask, weights after it."""

    layout: AttentionLayout
    q: Array
    k: Array
    v: Array
    scale: Any
    scores: Array
    hidden: Array
    weights: Array


@reference(ops.attention)
def attention(q: Array, k: Array, v: Array, mask: Array | None = None, **attributes: Any) -> Array:
    attended = _attend(q, k, v, mask, **attributes)
    return _merged(attended.weights @ attended.v, attended.layout, q.shape)


@reference(ops.attention_backward)
def attention_backward(
    q: Array, k: Array, v: Array, dy: Array, mask: Array | None = None, **attributes: Any
) -> tuple[Array, ...]:
    attended = _attend(q, k, v, mask, **attributes)
    layout, weights = attended.layout, attended.weights
    d_output = _per_head(dy, layout, layout.heads)
    d_weights = np.einsum("bhid,bhjd->bhij", d_output, attended.v)
    delta = np.sum(weights * d_weights, axis=-1, keepdims=True)
    d_masked = weights * (d_weights - delta)
    d_scores = np.where(attended.hidden, q.dtype.type(0), d_masked)
    softcap = attributes["softcap"]
    if softcap is not None and softcap > 0:
        d_scores = d_scores * (1 - np.square(attended.scores / q.dtype.type(softcap)))
    d_scores = d_scores * attended.scale
    dq = np.einsum("bhij,bhjd->bhid", d_scores, attended.k)
    dk = _group_sum(np.einsum("bhij,bhid->bhjd", d_scores, attended.q), layout)
    dv = _group_sum(np.einsum("bhij,bhid->bhjd", weights, d_output), layout)
    gradients = (
        _merged(dq, layout, q.shape),
        _merged(dk, layout, k.shape),
        _merged(dv, layout, v.shape),
    )
    if attributes["mask_kind"] != "bias" or mask is None:
        return gradients
    view = mask_view(mask.shape, layout)
    stretched = tuple(axis for axis in range(4) if view[axis] == 1)
    return (*gradients, np.sum(d_masked, axis=stretched, keepdims=True).reshape(mask.shape))


def _attend(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    *,
    num_heads: int,
    head_dim: int,
    mask_kind: str,
    window: int | None,
    score_scale: float | None,
    softcap: float | None,
    layout: str,
) -> _Attended:
    axes = attention_layout(
        q.shape, k.shape, v.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )
    query = _per_head(q, axes, axes.heads)
    key = np.repeat(_per_head(k, axes, axes.kv_heads), axes.group, axis=1)
    value = np.repeat(_per_head(v, axes, axes.kv_heads), axes.group, axis=1)
    scale = q.dtype.type(head_dim**-0.5 if score_scale is None else score_scale)
    scores = np.einsum("bhid,bhjd->bhij", query, key) * scale
    if softcap is not None and softcap > 0:
        cap = q.dtype.type(softcap)
        scores = cap * np.tanh(scores / cap)
    hidden = np.zeros(scores.shape[-2:], np.bool_)
    masked = scores
    if mask is not None and mask_kind == "bias":
        masked = scores + mask.reshape(static_shape(mask_view(mask.shape, axes)))
    elif mask is not None:
        hidden = mask.reshape(static_shape(mask_view(mask.shape, axes))) < VISIBLE_FROM
    elif mask_kind != "none":
        hidden = _hidden_by_position(scores.shape[-2], scores.shape[-1], window)
    masked = np.where(hidden, q.dtype.type(MASKED_SCORE), masked)
    weights = weight(masked - np.max(masked, axis=-1, keepdims=True))
    weights /= np.sum(weights, axis=-1, keepdims=True)
    return _Attended(axes, query, key, value, scale, scores, hidden, weights)


def _hidden_by_position(queries: int, keys: int, window: int | None) -> Array:
    position = np.arange(queries)[:, None] + max(0, keys - queries)
    key = np.arange(keys)[None, :]
    hidden = key > position
    return hidden if window is None else hidden | (key < position - window)


def _per_head(x: Array, axes: AttentionLayout, heads: int) -> Array:
    if axes.head_major:
        return x
    sequence = x.shape[1] if x.ndim == 4 else x.shape[-2]
    batch = 1 if x.ndim == 2 else x.shape[0]
    return np.swapaxes(x.reshape(batch, sequence, heads, axes.head_dim), 1, 2)


def _merged(x: Array, axes: AttentionLayout, shape: tuple[int, ...]) -> Array:
    return x if axes.head_major else np.swapaxes(x, 1, 2).reshape(shape)


def _group_sum(x: Array, axes: AttentionLayout) -> Array:
    batch, _, sequence, width = x.shape
    return x.reshape(batch, axes.kv_heads, axes.group, sequence, width).sum(axis=2)


@reference(ops.rope)
def rope(x: Array, cos: Array, sin: Array, *, head_dim: int, n_rot: int | None) -> Array:
    half = (head_dim if n_rot is None else n_rot) // 2
    rows = np.arange(x.shape[-2]) % cos.shape[0]
    c, s = cos[rows, :half], sin[rows, :half]
    result = x.copy()
    for base in range(0, x.shape[-1] - head_dim + 1, head_dim):
        first = x[..., base : base + half]
        second = x[..., base + half : base + 2 * half]
        result[..., base : base + half] = first * c - second * s
        result[..., base + half : base + 2 * half] = second * c + first * s
    return result
