"""Operators of transformers of the domain `com.microsoft`."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.ir import ops
from rlx.onnx.operators.required import require_inputs
from rlx.onnx.operators.shape import positions
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import emit

_DOMAIN = "com.microsoft"
_HIDDEN = -10000.0
"""What is added to scores that a mask hides."""


# Normalization


@operator("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    x: Any, scale: Any, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    """Divide by the root of the mean square; its inverse is a result, too."""
    del stash_type
    first = axis % x.ndim
    axes = tuple(range(first, x.ndim))
    inverse = 1 / rnp.sqrt(rnp.mean(rnp.square(x), axes, keepdims=True) + epsilon)
    if first == x.ndim - 1:
        return emit(ops.rms_norm, x, scale, axis=-1, eps=epsilon), inverse
    return rnp.multiply(rnp.multiply(x, inverse), scale), inverse


def _summed(x: Any, skip: Any, bias: Any) -> Any:
    total = rnp.add(x, skip)
    return total if bias is None else rnp.add(total, bias)


@operator("SkipLayerNormalization", domain=_DOMAIN)
def skip_layer_normalization(
    x: Any, skip: Any, gamma: Any, beta: Any = None, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    """Normalize a sum, which is the last result."""
    total = _summed(x, skip, bias)
    beta = np.zeros(gamma.shape, gamma.dtype) if beta is None else beta
    return emit(ops.layer_norm, total, gamma, beta, axis=-1, eps=epsilon), None, None, total


@operator("SkipSimplifiedLayerNormalization", domain=_DOMAIN)
def skip_simplified_layer_normalization(
    x: Any, skip: Any, gamma: Any, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _summed(x, skip, bias)
    return emit(ops.rms_norm, total, gamma, axis=-1, eps=epsilon), None, None, total


def embedded(
    ids: Any, segments: Any, words: Any, places: Any, kinds: Any, gamma: Any, beta: Any,
    mask: Any, position_ids: Any = None, *, epsilon: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the normalized sum of embeddings, the number of unmasked ids, and the sum."""
    where = rnp.arange(ids.shape[1]) if position_ids is None else position_ids
    total = rnp.add(rnp.take(words, ids, axis=0), rnp.take(places, where, axis=0))
    if segments is not None:
        total = rnp.add(total, rnp.take(kinds, segments, axis=0))
    count = rnp.zeros(ids.shape[0], "i32") if mask is None else rnp.sum(mask, 1)
    made = emit(ops.layer_norm, total, gamma, beta, axis=-1, eps=epsilon)
    return made, rnp.astype(count, "i32"), total


@operator("EmbedLayerNormalization", domain=_DOMAIN)
def embed_layer_normalization(
    ids: Any, segments: Any, words: Any, places: Any, kinds: Any, gamma: Any, beta: Any,
    mask: Any = None, position_ids: Any = None, *, epsilon: float = 1e-12,
    mask_index_type: int = 1,
) -> Any:  # fmt: skip
    del mask_index_type
    return embedded(
        ids, segments, words, places, kinds, gamma, beta, mask, position_ids, epsilon=epsilon
    )


# Attention


def split_heads(x: Any, heads: int) -> Any:
    """Return `[batch, heads, length, width]` of `[batch, length, heads * width]`."""
    apart = rnp.reshape(x, (x.shape[0], x.shape[1], heads, x.shape[2] // heads))
    return rnp.transpose(apart, (0, 2, 1, 3))


def _joined(x: Any) -> Any:
    """Return `[batch, length, heads * width]` of `[batch, heads, length, width]`."""
    rows = rnp.transpose(x, (0, 2, 1, 3))
    return rnp.reshape(rows, (rows.shape[0], rows.shape[1], rows.shape[2] * rows.shape[3]))


def _hidden_keys(mask: Any, batch: Any, queries: Any, keys: Any, hidden: float) -> Any:
    """Return what a mask adds to the scores, `[batch, 1, queries or 1, keys]`.

    A mask has one element for each key, or for each pair of query and key, or the lengths of the
    sequences, and where they start.
    """
    if mask.ndim == 1:
        place = rnp.arange(keys)
        seen = rnp.less(place, rnp.expand_dims(mask[:batch], 1))
        if mask.shape[0] == 2 * batch:
            seen = rnp.logical_and(seen, rnp.greater_equal(place, rnp.expand_dims(mask[batch:], 1)))
        elif mask.shape[0] != batch:
            raise UnsupportedError(
                f"a mask of {mask.shape[0]} lengths for {batch} sequences",
                remedy="give one length for each, or a mask of keys",
            )
    else:
        seen = rnp.not_equal(mask, 0)
    if mask.ndim == 4:
        return rnp.where(seen[:, :, keys - queries : keys, :keys], 0.0, hidden)
    axes = (1,) if mask.ndim == 3 else (1, 2)
    return rnp.where(rnp.expand_dims(seen, axes), 0.0, hidden)


def _causal(queries: Any, keys: Any) -> Any:
    """True where a key is not later than the query; both end together."""
    later = rnp.expand_dims(rnp.arange(queries), -1) + (keys - queries)
    return rnp.less_equal(rnp.arange(keys), later)


def attended(
    q: Any, k: Any, v: Any, *, mask: Any = None, bias: Any = None, past: Any = None,
    scale: float | None = None, is_causal: bool = False, hidden: float = _HIDDEN,
) -> tuple[Any, Any]:  # fmt: skip
    """Return attention over heads `[batch, heads, length, width]`, joined, and keys and values.

    `past` are earlier keys and values in one array, `[2, batch, heads, length, width]`.
    """
    if past is not None:
        k, v = (rnp.concatenate([past[at], x], 2) for at, x in ((0, k), (1, v)))
    queries, keys = q.shape[2], k.shape[2]
    added = [] if bias is None else [bias]
    if mask is not None:
        added.append(_hidden_keys(mask, q.shape[0], queries, keys, hidden))
    if is_causal:
        lowest = float(np.finfo(np.float32).min)
        added.append(rnp.where(_causal(queries, keys), 0.0, lowest))
    return _joined(_weighed(q, k, v, added, scale)), rnp.stack([k, v])


def _weighed(q: Any, k: Any, v: Any, added: list[Any], scale: float | None) -> Any:
    """Return the values weighed by the softmax of scores to which arrays are added."""
    total: Any = None
    for each in added:
        total = each if total is None else rnp.add(total, each)
    if total is not None:
        total = rnp.reshape(total, (*(1,) * (4 - total.ndim), *total.shape))
    query, key, value = (rnp.transpose(x, (0, 2, 1, 3)) for x in (q, k, v))
    found = nn.dot_product_attention(query, key, value, total, scale=scale or None)
    return rnp.transpose(found, (0, 2, 1, 3))


@operator("Attention", domain=_DOMAIN)
def attention(
    x: Any, weights: Any, bias: Any = None, mask: Any = None, past: Any = None,
    attention_bias: Any = None, past_length: Any = None, *, num_heads: int,
    unidirectional: int = 0, qkv_hidden_sizes: Any = None, mask_filter_value: float = _HIDDEN,
    scale: float | None = None, do_rotary: int = 0, rotary_embedding_dim: int = 0,
    past_present_share_buffer: int = 0,
) -> Any:  # fmt: skip
    """Project `x` to queries, keys and values by one matrix; results are joined heads and past."""
    del rotary_embedding_dim
    _refuse("Attention", do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer,
            past_sequence_length=past_length is not None)  # fmt: skip
    projected = rnp.matmul(x, weights)
    projected = projected if bias is None else rnp.add(projected, bias)
    width = weights.shape[1]
    sizes = tuple(qkv_hidden_sizes or (width // 3,) * 3)
    cuts = [sizes[0], sizes[0] + sizes[1]]
    q, k, v = (split_heads(part, num_heads) for part in rnp.split(projected, cuts, -1))
    return attended(
        q, k, v, mask=mask, bias=attention_bias, past=past, scale=scale,
        is_causal=bool(unidirectional), hidden=mask_filter_value,
    )  # fmt: skip


def _refuse(op: str, **attributes: Any) -> None:
    """Raise an UnsupportedError that names what is given and not computed here."""
    given = [name for name, value in attributes.items() if value]
    if given:
        raise UnsupportedError(
            f"{op} with {', '.join(given)} is not computed here",
            remedy="export the model without sharing buffers of past and present",
        )


@operator("MultiHeadAttention", domain=_DOMAIN)
def multi_head_attention(
    query: Any, key: Any = None, value: Any = None, bias: Any = None, mask: Any = None,
    attention_bias: Any = None, past_key: Any = None, past_value: Any = None,
    past_length: Any = None, cache_indirection: Any = None, *, num_heads: int,
    unidirectional: int = 0, mask_filter_value: float = _HIDDEN, scale: float | None = None,
) -> Any:  # fmt: skip
    """Attention of projected queries, keys and values; they may be packed in one array."""
    _refuse("MultiHeadAttention", past_sequence_length=past_length is not None,
            cache_indirection=cache_indirection is not None)  # fmt: skip
    q, k, v = _three(query, key, value, bias, num_heads)
    if past_key is not None:
        k, v = rnp.concatenate([past_key, k], 2), rnp.concatenate([past_value, v], 2)
    found, _ = attended(
        q, k, v, mask=mask, bias=attention_bias, scale=scale, is_causal=bool(unidirectional),
        hidden=mask_filter_value,
    )  # fmt: skip
    return found, k, v


def _three(query: Any, key: Any, value: Any, bias: Any, heads: int) -> tuple[Any, Any, Any]:
    """Return queries, keys and values as `[batch, heads, length, width]`, with their biases."""
    if query.ndim != 5:
        require_inputs("MultiHeadAttention", key=key, value=value)
    if query.ndim == 5:  # [batch, length, heads, 3, width]
        parts = [query[:, :, :, at] for at in range(3)]
    elif key.ndim == 4:  # as a cache has them
        q = _apart(query, heads)
        q = q if bias is None else q + rnp.reshape(bias[: query.shape[2]], (heads, q.shape[3]))
        return rnp.transpose(q, (0, 2, 1, 3)), key, value
    else:
        parts = [_apart(each, heads) for each in (query, key, value)]
    start = 0
    for at, part in enumerate(parts):
        if bias is not None:
            size = heads * part.shape[3]
            own = rnp.reshape(bias[start : start + size], (heads, part.shape[3]))
            parts[at], start = rnp.add(part, own), start + size
    q, k, v = (rnp.transpose(part, (0, 2, 1, 3)) for part in parts)
    return q, k, v


def _apart(x: Any, heads: int) -> Any:
    return rnp.reshape(x, (x.shape[0], x.shape[1], heads, x.shape[2] // heads))


# Rotary embeddings and grouped queries


def _rotated(x: Any, cos: Any, sin: Any, interleaved: int) -> Any:
    """Turn pairs of `x [batch, heads, length, width]` by angles `[batch, 1, length, half]`."""
    width = 2 * cos.shape[-1]
    turned, rest = x[..., :width], x[..., width:]
    if interleaved:
        left, right = turned[..., 0::2], turned[..., 1::2]
    else:
        left, right = turned[..., : width // 2], turned[..., width // 2 :]
    real, imaginary = left * cos - right * sin, right * cos + left * sin
    if interleaved:
        pairs = rnp.stack([real, imaginary], -1)
        made = rnp.reshape(pairs, (*real.shape[:-1], width))
    else:
        made = rnp.concatenate([real, imaginary], -1)
    return made if x.shape[-1] == width else rnp.concatenate([made, rest], -1)


def _angles(cache: Any, places: Any) -> Any:
    return rnp.expand_dims(rnp.take(cache, places, axis=0), 1)


@operator("RotaryEmbedding", domain=_DOMAIN)
def rotary_embedding(
    x: Any, position_ids: Any, cos: Any, sin: Any, *, interleaved: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0, is_packed_batching: int = 0, scale: float = 1.0,
) -> Any:  # fmt: skip
    """Turn pairs of elements by angles of their positions: ids, or the first one."""
    _refuse("RotaryEmbedding", is_packed_batching=is_packed_batching)
    heads, width = x, 2 * cos.shape[1]
    if x.ndim == 3:
        count = num_heads if rotary_embedding_dim else x.shape[2] // width
        heads = split_heads(x, count)
    places = position_ids
    if places.ndim == 1:
        places = rnp.expand_dims(rnp.add(places, rnp.arange(heads.shape[2], dtype="i64")), 0)
    y = _rotated(heads, _angles(cos, places), _angles(sin, places), interleaved)
    y = y if scale == 1.0 else rnp.multiply(y, np.asarray(scale, x.dtype))
    return _joined(y) if x.ndim == 3 else y


@operator("GroupQueryAttention", domain=_DOMAIN)
def group_query_attention(
    query: Any, key: Any = None, value: Any = None, past_key: Any = None, past_value: Any = None,
    lengths: Any = None, total: Static = None, cos: Any = None, sin: Any = None,
    position_ids: Any = None, attention_bias: Any = None, head_sink: Any = None, *,
    num_heads: int, kv_num_heads: int, scale: float | None = None, do_rotary: int = 0,
    rotary_interleaved: int = 0, local_window_size: int = -1, softcap: float = 0.0,
    smooth_softmax: int = 0, causal: int = 1, qk_output: int = 0, kv_cache_bit_width: int = 0,
    k_quant_type: str = "NONE", v_quant_type: str = "NONE", sliding_window_cache: int = 0,
    qk_norm_epsilon: float = 1e-6,
) -> Any:  # fmt: skip
    """Attention of queries to keys that several heads share, after those of the cache.

    `lengths` has the last place of each sequence once the new keys are appended.
    """
    del qk_norm_epsilon
    _refuse("GroupQueryAttention", qk_output=qk_output, kv_cache_bit_width=kv_cache_bit_width,
            k_quant_type=k_quant_type != "NONE", v_quant_type=v_quant_type != "NONE",
            sliding_window_cache=sliding_window_cache)  # fmt: skip
    require_inputs("GroupQueryAttention", seqlens_k=lengths, total_sequence_length=total)
    if do_rotary:
        require_inputs("GroupQueryAttention", cos_cache=cos, sin_cache=sin)
    if key is None:
        size = query.shape[2] // (num_heads + 2 * kv_num_heads)
        cuts = [num_heads * size, (num_heads + kv_num_heads) * size]
        query, key, value = rnp.split(query, cuts, -1)
    q = split_heads(query, num_heads)
    k, v = (split_heads(x, kv_num_heads) for x in (key, value))
    new, whole = q.shape[2], int(total)
    ends = rnp.reshape(rnp.astype(lengths, "i64"), (-1, 1)) + 1
    starts = np.zeros((1, 1), np.int64) if new == whole else rnp.subtract(ends, new)
    places = rnp.add(starts, positions(new))  # [batch, new]
    if do_rotary:
        ids = places if position_ids is None else position_ids
        turn = _angles(cos, ids), _angles(sin, ids), rotary_interleaved
        q, k = _rotated(q, *turn), _rotated(k, *turn)
    if past_key is not None and past_key.shape[2]:
        k, v = (_appended(past, x, starts, whole) for past, x in ((past_key, k), (past_value, v)))
    place = positions(k.shape[2])
    latest = rnp.expand_dims(places, (1, 3))
    seen = rnp.less(place, rnp.expand_dims(ends, (1, 3)))
    if causal:
        seen = rnp.logical_and(seen, rnp.less_equal(place, latest))
    if local_window_size > 0:
        seen = rnp.logical_and(seen, rnp.greater(place, latest - local_window_size))
    groups = num_heads // kv_num_heads
    wide_k, wide_v = (rnp.repeat(x, groups, 1) for x in (k, v)) if groups > 1 else (k, v)
    sink = np.zeros(num_heads, np.float32) if smooth_softmax and head_sink is None else head_sink
    scores = rnp.matmul(q, rnp.swapaxes(wide_k, 2, 3)) * (scale or q.shape[3] ** -0.5)
    scores = softcap * rnp.tanh(scores / softcap) if softcap else scores
    scores = scores if attention_bias is None else scores + attention_bias
    weights = _shares(rnp.where(seen, scores, -rnp.inf), sink)
    return _joined(rnp.matmul(weights, wide_v)), k, v


def _appended(past: Any, new: Any, starts: Any, whole: int) -> Any:
    """Return keys or values of the cache, new ones from `starts [batch, 1]` on, and then zeros."""
    length = max(whole, past.shape[2])
    place = positions(length)
    grown = rnp.pad(past, ((0, 0), (0, 0), (0, length - past.shape[2]), (0, 0)))
    at = rnp.subtract(place, starts)  # [batch, length]
    index = rnp.expand_dims(rnp.clip(at, 0, new.shape[2] - 1), (1, 3))
    batch, heads, width = new.shape[0], new.shape[1], new.shape[3]
    spread = rnp.broadcast_to(index, (batch, heads, length, width))
    moved = rnp.take_along_axis(new, spread, 2)
    old, inside = (rnp.expand_dims(rnp.less(at, end), (1, 3)) for end in (0, new.shape[2]))
    return rnp.where(old, grown, rnp.where(inside, moved, 0))


def _shares(scores: Any, sink: Any) -> Any:
    """Return the softmax of scores, one more of which is that of a `sink` of each head."""
    if sink is None:
        return nn.softmax(scores, -1)
    extra = rnp.reshape(sink, (1, -1, 1, 1))
    most = rnp.maximum(rnp.max(scores, -1, keepdims=True), extra)
    shifted = rnp.exp(scores - most)
    return shifted / (rnp.sum(shifted, -1, keepdims=True) + rnp.exp(extra - most))
