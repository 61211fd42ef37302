"""Attention and rotary embedding as formulas over primitive ops."""

from __future__ import annotations

import functools
import math
import operator
from itertools import starmap
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
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.linalg import matmul
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.reduction import reduce_sum, softmax
from rlx.ir.ops.shape import concat, expand, narrow, pad, reshape, reverse, transpose
from rlx.ir.shape import Extent, Shape, is_at_most, product, upper
from rlx.ir.types import TensorType

_SCORE_BYTES = 16 << 20
"""Above so many bytes of scores the gradient divides the queries into blocks."""

_BLOCK_BYTES = 8 << 20
"""The bytes of a block's scores, where `_MOST_BLOCKS` blocks suffice."""

_MOST_BLOCKS = 32

_BLOCK_ROWS = 16
"""Blocks have a multiple of so many queries, but for the last."""


_KEY_PARTS = 4
"""Parts of the keys, of which a block reads those that its queries see."""


class _Block(NamedTuple):
    """Queries `first` to `stop` with the keys `first_key` to `stop_key`, all that they see."""

    first: int
    stop: Extent
    first_key: int
    stop_key: Extent


class _Heads(NamedTuple):
    """Operands as `[B, H, S, D]`: keys and values repeated for each query head."""

    layout: AttentionLayout
    q: Value
    k: Value
    v: Value
    mask: Value | None
    """Broadcasts to the scores."""


class _Weights(NamedTuple):
    """A block's softmax, and how its scores came from products."""

    weights: Value
    scale: float
    capped: Value | None  # tanh(R / c)
    hidden: Value | None


@in_single_precision
def attention_formula(
    q: Value, k: Value, v: Value, mask: Value | None = None, **attributes: Any
) -> Value:
    """Scores, softcap, mask, softmax, weighted sum: each a primitive op."""
    heads = _heads(q, k, v, mask, **attributes)
    axes = heads.layout
    weights = _weights(heads, _Block(0, axes.queries, 0, axes.keys), **attributes).weights
    return _join_heads(matmul(weights, heads.v), axes, q.shape)


@in_single_precision
def attention_backward_formula(
    q: Value, k: Value, v: Value, dy: Value, mask: Value | None = None, **attributes: Any
) -> tuple[Value, ...]:
    """Recompute the weights, then apply the transposes of the forward steps.

    Where scores are many, one block of queries follows the other, so that no more than a block's
    scores exist at a time, and keys that no query of the block sees are left out.
    """
    heads = _heads(q, k, v, mask, **attributes)
    axes = heads.layout
    d_output = _split_heads(dy, axes, axes.heads)
    d_q: list[Value] = []
    by_mask: list[Value] = []
    d_k, d_v = _SumsOverKeys(axes), _SumsOverKeys(axes)
    for block in _blocks(axes, q.dtype, attributes["mask_kind"], attributes["window"]):
        d_query, d_key, d_value, d_bias = _block_gradients(heads, d_output, block, **attributes)
        d_q.append(d_query)
        d_k.add(d_key, block)
        d_v.add(d_value, block)
        if d_bias is not None:
            by_mask.append(d_bias)
    gradients = (
        _join_heads(_concat(d_q, axis=2), axes, q.shape),
        _join_heads(_sum_groups(d_k.total(), axes), axes, k.shape),
        _join_heads(_sum_groups(d_v.total(), axes), axes, v.shape),
    )
    if mask is None or not by_mask:
        return gradients
    is_stretched = mask_view(mask.shape, axes)[2] == 1
    whole = functools.reduce(operator.add, by_mask) if is_stretched else _concat(by_mask, axis=2)
    return (*gradients, reshape(whole, shape=mask.shape))


class _SumsOverKeys:
    """Gradients by keys or values, added up block by block where ranges of keys are equal."""

    def __init__(self, axes: AttentionLayout) -> None:
        self._keys = axes.keys
        self._sums: dict[tuple[int, Extent], Value] = {}

    def add(self, part: Value, block: _Block) -> None:
        """Add what a block contributes at its keys."""
        keys = (block.first_key, block.stop_key)
        self._sums[keys] = self._sums[keys] + part if keys in self._sums else part

    def total(self) -> Value:
        """Return the sum of the blocks' gradients at all keys."""
        return functools.reduce(operator.add, starmap(self._widened, self._sums.items()))

    def _widened(self, keys: tuple[int, Extent], part: Value) -> Value:
        first, stop = keys
        if (first, stop) == (0, self._keys):
            return part
        return pad(part, low=(0, 0, first, 0), high=(0, 0, self._keys - stop, 0))


def _block_gradients(
    heads: _Heads, d_output: Value, block: _Block, **attributes: Any
) -> tuple[Value, Value, Value, Value | None]:
    """Return the gradients by a block's queries, its keys and values, and its bias if any."""
    queries, keys = block[:2], block[2:]
    found = _weights(heads, block, **attributes)
    dy, weights = _part(d_output, *queries), found.weights
    d_weights = matmul(dy, _swap_last(_part(heads.v, *keys)))
    delta = reduce_sum(weights * d_weights, axes=(-1,), keepdims=True)
    d_masked = weights * (d_weights - delta)
    d_scores = d_masked if found.hidden is None else where(found.hidden, 0.0, d_masked)
    if found.capped is not None:
        d_scores = d_scores * (1.0 - found.capped * found.capped)
    d_scores = d_scores * found.scale
    by_mask = None
    if heads.mask is not None and found.hidden is None:
        by_mask = _sum_stretched(d_masked, heads.mask.shape)
    return (
        matmul(d_scores, _part(heads.k, *keys)),
        matmul(_swap_last(d_scores), _part(heads.q, *queries)),
        matmul(_swap_last(weights), dy),
        by_mask,
    )


def _blocks(
    axes: AttentionLayout, dtype: DType, mask_kind: str, window: int | None
) -> list[_Block]:
    """Divide the queries so that the scores of a block take about `_BLOCK_BYTES`."""
    queries, keys = axes.queries, axes.keys
    scores = upper(product(axes.scores)) * dtype.size
    if not isinstance(queries, int) or not isinstance(keys, int) or scores <= _SCORE_BYTES:
        return [_Block(0, queries, 0, keys)]
    size = -(-queries // min(_MOST_BLOCKS, -(-scores // _BLOCK_BYTES)))
    size = -(-size // _BLOCK_ROWS) * _BLOCK_ROWS
    return [
        _Block(first, stop, *_seen_keys(first, stop, axes, mask_kind, window))
        for first in range(0, queries, size)
        for stop in (min(first + size, queries),)
    ]


def _seen_keys(
    first: int, stop: int, axes: AttentionLayout, mask_kind: str, window: int | None
) -> tuple[int, int]:
    """Return a range of keys with all that a query from `first` to `stop` sees.

    It consists of whole parts, so that many blocks have equal ranges, whose gradients add up in
    place. More queries than keys may hide every key of one, which then gets the mean of all values.
    """
    queries, keys = axes.queries, axes.keys
    assert isinstance(queries, int)
    assert isinstance(keys, int)
    if mask_kind not in ("causal", "sliding_window") or queries > keys:
        return 0, keys
    before = window if mask_kind == "sliding_window" and window is not None else keys
    part = -(-keys // _KEY_PARTS)
    first_key = max(0, first + keys - queries - before) // part * part
    return first_key, min(keys, -(-(stop + keys - queries) // part) * part)


def _heads(
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    *,
    num_heads: int,
    head_dim: int,
    layout: str,
    **_: Any,
) -> _Heads:
    axes = attention_layout(
        q.shape, k.shape, v.shape, num_heads=num_heads, head_dim=head_dim, layout=layout
    )
    return _Heads(
        axes,
        _split_heads(q, axes, axes.heads),
        _repeat_heads(_split_heads(k, axes, axes.kv_heads), axes),
        _repeat_heads(_split_heads(v, axes, axes.kv_heads), axes),
        None if mask is None else reshape(mask, shape=mask_view(mask.shape, axes)),
    )


def _weights(
    heads: _Heads,
    block: _Block,
    *,
    mask_kind: str,
    window: int | None,
    score_scale: float | None,
    softcap: float | None,
    **_: Any,
) -> _Weights:
    """Return the softmax of a block's scores, `[B, H, queries, keys]`."""
    scale = heads.layout.head_dim**-0.5 if score_scale is None else score_scale
    query, key = _part(heads.q, *block[:2]), _part(heads.k, *block[2:])
    scores = matmul(query, _swap_last(key)) * scale
    capped = None
    if softcap is not None and softcap > 0:
        capped = tanh(scores / softcap)
        scores = capped * softcap
    mask = None if heads.mask is None else _part_of_mask(heads.mask, block)
    hidden = None
    if mask_kind == "custom" and mask is not None:
        hidden = (mask if mask.dtype.is_float else cast(mask, to=DType.F32)) < VISIBLE_FROM
    elif mask_kind in ("causal", "sliding_window"):
        hidden = _hidden(heads, block, window if mask_kind == "sliding_window" else None)
    if hidden is not None:
        scores = where(hidden, MASKED_SCORE, scores)
    elif mask is not None:
        scores = scores + mask
    return _Weights(softmax(scores, axis=-1), scale, capped, hidden)


def _hidden(heads: _Heads, block: _Block, window: int | None) -> Value:
    """Compare positions counted from the front and from the back.

    Query i sits at p = i + max(0, Sk - Sq), the larger of i and, counted from the back, of
    the key as far from the last key as i is from the last query. So `j > p` means `j > i`
    and `j` is nearer to the back than `i`: no extent is needed as a number, which matters
    where it is symbolic.
    """
    axes = heads.layout
    i, i_back = _positions(heads.q, (axes.queries, 1), 0, *block[:2])
    j, j_back = _positions(heads.q, (1, axes.keys), 1, *block[2:])
    hidden = logical_and(j > i, j_back < i_back)
    if window is None:
        return hidden
    outside = logical_or(j < i - window, j_back > i_back + window)
    return logical_or(hidden, outside)


def _positions(
    like: Value, shape: Shape, axis: int, first: int, stop: Extent
) -> tuple[Value, Value]:
    """Return the numbers of a part of the positions along `axis`, from the front and the back."""
    front = like.graph.iota(type=TensorType(DType.I64, shape), axis=axis)
    back = reverse(front, axes=(axis,))
    return _part(front, first, stop, axis), _part(back, first, stop, axis)


def _part(x: Value, first: int, stop: Extent, axis: int = 2) -> Value:
    """Return positions `first` to `stop` along an axis."""
    if (first, stop) == (0, x.shape[axis]):
        return x
    return narrow(x, axis=axis, start=first, length=stop - first)


def _part_of_mask(mask: Value, block: _Block) -> Value:
    """Return the part of a mask that broadcasts to the block's scores."""
    for axis, (first, stop) in ((2, block[:2]), (3, block[2:])):
        if mask.shape[axis] != 1:
            mask = _part(mask, first, stop, axis)
    return mask


def _concat(parts: list[Value], axis: int) -> Value:
    return parts[0] if len(parts) == 1 else concat(*parts, axis=axis)


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


def _sum_stretched(x: Value, shape: Shape) -> Value:
    """Sum over the axes along which an operand of `shape` was broadcast."""
    stretched = tuple(axis for axis in range(x.rank) if shape[axis] == 1 and x.shape[axis] != 1)
    return reduce_sum(x, axes=stretched, keepdims=True) if stretched else x


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
    elif not is_at_most(positions, rows):  # one of them is symbolic
        numbers = table.graph.iota(type=TensorType(DType.I64, (positions,)), axis=0)
        count = table.graph.extent(value=rows)
        table = gather(table, numbers - numbers / count * count)
    trimmed = narrow(table, axis=0, start=0, length=positions)
    return reshape(narrow(trimmed, axis=1, start=0, length=half), shape=shape)
