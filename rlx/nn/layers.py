"""Layers as functions of their parameters: attention, embedding, dropout."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx import random
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.numpy.axes import count_from
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, promoted


@function
def one_hot(labels: Any, num_classes: int, dtype: Any = "f64") -> Array:
    """1 at each label's class along a new last axis; zeros for a label out of range."""
    classes = rnp.arange(count_from(num_classes, "num_classes"))
    hits = rnp.equal(rnp.expand_dims(labels, -1), classes)
    return rnp.astype(hits, dtype)


@function
def embedding(table: Any, indices: Any) -> Array:
    """Row `indices[i]` of `table` for every `i`."""
    return rnp.take(table, indices, 0)


@function
def dropout(x: Any, key_or_mask: Any, rate: float) -> Array:
    """Elements of `x` scaled by `1 / (1 - rate)`; a share of `rate` of them is zero instead.

    Which ones a key of `rlx.random` decides, or a mask that holds where they are kept.
    """
    if not 0 <= rate < 1:
        raise ShapeError(
            f"dropout rate is {rate}; it must be in [0, 1)",
            remedy="give the share to drop, as in 0.1",
        )
    x, kept = as_tracer(x), as_tracer(key_or_mask)
    if kept.value.dtype is DType.U32:
        kept = random.bernoulli(kept, 1.0 - rate, x.shape)
    return rnp.where(kept, rnp.multiply(x, 1.0 / (1.0 - rate)), 0)


@function
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
) -> Array:
    """Attention over `[B, S, H, D]` (or `[S, H, D]`) arrays.

    Causal queries and keys are aligned at their ends: the last query sees every key.
    `bias` is added to the scores, `mask` (bool) hides keys; both broadcast to `[B, H, Sq, Sk]`.
    Keys and values may have fewer heads.
    """
    q, k, v = promoted([query, key, value])
    if q.ndim == 3:
        q, k, v = (rnp.expand_dims(x, 0) for x in (q, k, v))
        whole = dot_product_attention(q, k, v, bias, mask, scale=scale, is_causal=is_causal)
        return rnp.squeeze(whole, 0)
    if q.ndim != 4:
        raise ShapeError(
            f"query has shape {q.shape}; it must be [B, S, H, D] or [S, H, D]",
            remedy="reshape it to [batch, steps, heads, head_dim]",
        )
    heads, width = q.shape[2], q.shape[3]
    kind, bias_or_mask = _mask(q, k, bias, mask, is_causal)
    operands = [q, k, v] if bias_or_mask is None else [q, k, v, bias_or_mask]
    return emit(
        ops.attention, *operands, num_heads=heads, head_dim=width, mask_kind=kind,
        score_scale=scale, layout="bshd",
    )  # fmt: skip


def _mask(q: Any, k: Any, bias: Any, mask: Any, is_causal: bool) -> tuple[str, Any]:
    """Return the kind of mask that `ops.attention` takes, and its operand."""
    if bias is None and mask is None:
        return ("causal" if is_causal else "none"), None
    if is_causal:
        causal = _causal(q.shape[1], k.shape[1])
        mask = causal if mask is None else rnp.logical_and(mask, causal)
    if bias is None:
        return "custom", _rank_four(convert(mask, DType.BOOL))
    # The value that hides a score in `ops.attention`.
    hidden = 0 if mask is None else rnp.where(mask, 0.0, -1e9)
    return "bias", _rank_four(convert(rnp.add(bias, hidden), q.value.dtype))


def _causal(queries: Any, keys: Any) -> Any:
    """True where key `j` is not later than query `i`, both aligned at their ends."""
    later = rnp.expand_dims(rnp.arange(queries), -1)
    return rnp.less_equal(rnp.arange(keys), rnp.add(later, max(keys - queries, 0)))


def _rank_four(x: Any) -> Any:
    return rnp.reshape(x, (1,) * (4 - x.ndim) + x.shape)
