"""Attention with sinks (gpt-oss): each softmax has one more score per head, without a value."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.ops.attention_layout import MASKED_SCORE
from rlx.ir.ops.linalg import swapped
from rlx.ir.shape import Extent
from rlx.ir.types import TensorType


def with_sinks(
    q: Value, k: Value, v: Value, sinks: Value, *, heads: int, window: int | None, scale: float
) -> Value:
    """Return causal attention of q, k and v `[rows, heads * width]` with a further score per head.

    The queries are those of the last keys; each sees `window` keys before its own, or all. Scores
    are computed for all heads of queries that share keys at once, and stored.
    """
    width = int(q.shape[1]) // heads
    queries, keys = q.shape[0], k.shape[0]
    shared = int(k.shape[1]) // width
    group = heads // shared
    q = ops.reshape(q, shape=(queries, shared, group, width))
    q = ops.reshape(ops.transpose(q, perm=(1, 2, 0, 3)), shape=(shared, group * queries, width))
    k, v = (
        ops.transpose(ops.reshape(x, shape=(keys, shared, width)), perm=(1, 0, 2)) for x in (k, v)
    )
    scores = ops.reshape(ops.matmul(q, swapped(k)) * scale, shape=(shared, group, queries, keys))
    hidden = _hidden(q, queries, keys, window)
    scores = scores if hidden is None else ops.where(hidden, MASKED_SCORE, scores)
    sink = ops.expand(
        ops.reshape(sinks, shape=(shared, group, 1, 1)), shape=(shared, group, queries, 1)
    )
    shares = ops.softmax(ops.concat(scores, sink, axis=3), axis=3)
    shares = ops.narrow(shares, axis=3, start=0, length=keys)
    found = ops.matmul(ops.reshape(shares, shape=(shared, group * queries, keys)), v)
    found = ops.reshape(found, shape=(shared, group, queries, width))
    result: Value = ops.reshape(
        ops.transpose(found, perm=(2, 0, 1, 3)), shape=(queries, heads * width)
    )
    return result


def _hidden(q: Value, queries: Extent, keys: Extent, window: int | None) -> Value | None:
    """Return which keys a query does not see, by positions counted from the last."""

    def from_last(axis: int, shape: tuple[Extent, ...]) -> Value:
        at: Value = q.graph.iota(type=TensorType(DType.I64, shape), axis=axis)
        result: Value = ops.reverse(at, axes=(axis,))
        return result

    earlier = from_last(3, (1, 1, 1, keys))
    if queries == 1:  # without a constant: those of programs over one arena are the same
        return None if window is None else earlier > window
    earlier = earlier - from_last(2, (1, 1, queries, 1))
    later: Value = earlier < 0
    return later if window is None else ops.logical_or(later, earlier > window)
