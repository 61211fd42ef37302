"""Attention and rotary embedding as formulas over primitive ops."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.ops.attention_layout import (
    MASKED_SCORE,
    VISIBLE_FROM,
    AttentionLayout,
    attention_layout,
    mask_view,
)
from rlx.ir.ops.elementwise import (
    cast,
    logical_and,
    logical_or,
    tanh,
    where,
)
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.reduction import reduce_sum, softmax
from rlx.ir.ops.shape import concat, expand, narrow, reshape, reverse, transpose
from rlx.ir.shape import Extent, Shape
from rlx.ir.types import TensorType


class _Weights(NamedTuple):
    """What forward and backward share: operands per head, and how the weights came about."""

    layout: AttentionLayout
    q: Value
    k: Value
    v: Value
    scale: float
    capped: Value | None  # tanh(R / c)
    hidden: Value | None
    weights: Value


@in_single_precision
def attention_formula(
    q: Value, k: Value, v: Value, mask: Value | None = None, **attributes: Any
) -> Value:
    """Scores, softcap, mask, softmax, weighted sum: each a primitive op."""
    parts = _attention_weights(q, k, v, mask, **attributes)
    return _join_heads(matmul(parts.weights, parts.v), parts.layout, q.shape)


@in_single_precision
def attention_backward_formula(
    q: Value, k: Value, v: Value, dy: Value, mask: Value | None = None, **attributes: Any
) -> tuple[Value, ...]:
    """Recompute the weights, then apply the transposes of the forward steps."""
    parts = _attention_weights(q, k, v, mask, **attributes)
    axes = parts.layout
    d_output = _split_heads(dy, axes, axes.heads)
    d_weights = matmul(d_output, _swap_last(parts.v))
    delta = reduce_sum(parts.weights * d_weights, axes=(-1,), keepdims=True)
    d_masked = parts.weights * (d_weights - delta)
    d_scores = d_masked if parts.hidden is None else where(parts.hidden, 0.0, d_masked)
    if parts.capped is not None:
        d_scores = d_scores * (1.0 - parts.capped * parts.capped)
    d_scores = d_scores * parts.scale
    gradients = (
        _join_heads(matmul(d_scores, parts.k), axes, q.shape),
        _join_heads(_sum_groups(matmul(_swap_last(d_scores), parts.q), axes), axes, k.shape),
        _join_heads(_sum_groups(matmul(_swap_last(parts.weights), d_output), axes), axes, v.shape),
    )
    if mask is None or parts.hidden is not None:
        return gradients
    return (*gradients, _sum_to(d_masked, mask_view(mask.shape, axes), mask.shape))


def _attention_weights(
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    *,
    num_heads: int,
    head_dim: int,
    mask_kind: str,
    window: int | None,
    score_scale: float | None,
    softcap: float | None,
    layout: str,
) -> _Weights:
    axes = attention_layout(
        q.shape, k.shape, v.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )
    scale = axes.head_dim**-0.5 if score_scale is None else score_scale
    query = _split_heads(q, axes, axes.heads)
    key = _repeat_heads(_split_heads(k, axes, axes.kv_heads), axes)
    value = _repeat_heads(_split_heads(v, axes, axes.kv_heads), axes)
    scores = matmul(query, _swap_last(key)) * scale
    capped = None
    if softcap is not None and softcap > 0:
        capped = tanh(scores / softcap)
        scores = capped * softcap
    view = None if mask is None else reshape(mask, shape=mask_view(mask.shape, axes))
    hidden = _hidden(q, view, axes, mask_kind, window)
    if hidden is not None:
        scores = where(hidden, MASKED_SCORE, scores)
    elif view is not None:
        scores = scores + view
    weights = softmax(scores, axis=-1)
    return _Weights(axes, query, key, value, scale, capped, hidden, weights)


def _hidden(
    q: Value, view: Value | None, axes: AttentionLayout, mask_kind: str, window: int | None
) -> Value | None:
    """Return where a query must not see a key, or None where it sees all."""
    if mask_kind == "custom" and view is not None:
        mask = view if view.dtype.is_float else cast(view, to=DType.F32)
        return mask < VISIBLE_FROM
    if mask_kind in ("causal", "sliding_window"):
        return _hidden_by_position(q, axes, window if mask_kind == "sliding_window" else None)
    return None


def _hidden_by_position(q: Value, axes: AttentionLayout, window: int | None) -> Value:
    """Compare positions counted from the front and from the back.

    Query i sits at p = i + max(0, Sk - Sq), the larger of i and, counted from the back, of
    the key as far from the last key as i is from the last query. So `j > p` means `j > i`
    and `j` is nearer to the back than `i`: no extent is needed as a number, which matters
    where it is symbolic.
    """
    i = _positions(q, (axes.queries, 1), axis=0)
    j = _positions(q, (1, axes.keys), axis=1)
    i_back, j_back = reverse(i, axes=(0,)), reverse(j, axes=(1,))
    hidden = logical_and(j > i, j_back < i_back)
    if window is None:
        return hidden
    outside = logical_or(j < i - window, j_back > i_back + window)
    return logical_or(hidden, outside)


def _positions(like: Value, shape: Shape, axis: int) -> Value:
    return like.graph.iota(type=TensorType(DType.I64, shape), axis=axis)


def _split_heads(x: Value, axes: AttentionLayout, heads: int) -> Value:
    """Return `x` as [B, heads, S, D]."""
    if axes.head_major:
        return x
    sequence = x.shape[-2] if x.rank < 4 else x.shape[1]
    apart = reshape(x, shape=(axes.batch, sequence, heads, axes.head_dim))
    return transpose(apart, perm=(0, 2, 1, 3))


def _join_heads(x: Value, axes: AttentionLayout, shape: Shape) -> Value:
    """Return [B, heads, S, D] in the layout of `shape`."""
    return x if axes.head_major else reshape(transpose(x, perm=(0, 2, 1, 3)), shape=shape)


def _repeat_heads(x: Value, axes: AttentionLayout) -> Value:
    if axes.group == 1:
        return x
    batch, heads, sequence, width = x.shape
    apart = reshape(x, shape=(batch, heads, 1, sequence, width))
    repeated = expand(apart, shape=(batch, heads, axes.group, sequence, width))
    return reshape(repeated, shape=(batch, axes.heads, sequence, width))


def _sum_groups(x: Value, axes: AttentionLayout) -> Value:
    if axes.group == 1:
        return x
    batch, _, sequence, width = x.shape
    apart = reshape(x, shape=(batch, axes.kv_heads, axes.group, sequence, width))
    return reduce_sum(apart, axes=(2,))


def _sum_to(x: Value, view: Shape, shape: Shape) -> Value:
    stretched = tuple(axis for axis in range(x.rank) if view[axis] == 1 and x.shape[axis] != 1)
    summed = reduce_sum(x, axes=stretched, keepdims=True) if stretched else x
    return reshape(summed, shape=shape)


def _swap_last(x: Value) -> Value:
    return transpose(x, perm=(0, 1, 3, 2))


@in_single_precision
def rope_formula(x: Value, cos: Value, sin: Value, *, head_dim: int, n_rot: int | None) -> Value:
    """Rotate the halves of each head's first `n_rot` elements against each other."""
    half = (head_dim if n_rot is None else n_rot) // 2
    width = (x.shape[-1] // head_dim) * head_dim if isinstance(x.shape[-1], int) else x.shape[-1]
    heads = x
    if x.rank < 4:
        whole = narrow(x, axis=-1, start=0, length=width)
        heads = reshape(whole, shape=(*x.shape[:-1], width // head_dim, head_dim))
    table_shape = (x.shape[-2], half) if x.rank == 4 else (x.shape[-2], 1, half)
    c = _table(cos, x.shape[-2], half, table_shape)
    s = _table(sin, x.shape[-2], half, table_shape)
    first = narrow(heads, axis=-1, start=0, length=half)
    second = narrow(heads, axis=-1, start=half, length=half)
    tail = narrow(heads, axis=-1, start=2 * half, length=head_dim - 2 * half)
    rotated = concat(first * c - second * s, second * c + first * s, tail, axis=-1)
    if x.rank == 4:
        return rotated
    rest = narrow(x, axis=-1, start=width, length=x.shape[-1] - width)
    return concat(reshape(rotated, shape=(*x.shape[:-1], width)), rest, axis=-1)


def _table(table: Value, positions: Extent, half: int, shape: Shape) -> Value:
    """Return rows 0..positions of a table that starts over at its end."""
    rows = table.shape[0]
    if isinstance(rows, int) and isinstance(positions, int) and rows < positions:
        table = concat(*[table] * math.ceil(positions / rows), axis=0)
    trimmed = narrow(table, axis=0, start=0, length=positions)
    return reshape(narrow(trimmed, axis=1, start=0, length=half), shape=shape)
