"""Attention and rotary embedding: the examples join the op's own batch axis."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import Extent
from rlx.passes.vmap.batching import Batching, expand_to, fold, reshape_to
from rlx.passes.vmap.registry import BY_FORMULA, Batched, batch

_WITH_BATCH = 3
"""From this rank on a query, or the `x` of `rope`, has a batch axis of its own."""


@batch(ops.attention)
def attention_batch(
    at: Batching, q: Value, k: Value, v: Value, mask: Value | None = None, **attributes: Any
) -> Batched:
    tensors = [_folded(at, x, position) for position, x in enumerate((q, k, v))]
    result = ops.attention(*tensors, *_masks(at, mask, 3), **attributes)
    return reshape_to(result, (at.size, *at.result.shape))


@batch(ops.attention_backward)
def attention_backward_batch(
    at: Batching,
    q: Value,
    k: Value,
    v: Value,
    dy: Value,
    mask: Value | None = None,
    **attributes: Any,
) -> Batched:
    """A bias is repeated for every example, even where all share it: each has a gradient."""
    tensors = [_folded(at, x, position) for position, x in enumerate((q, k, v, dy))]
    if attributes["mask_kind"] != "bias" or mask is None:
        found = ops.attention_backward(*tensors, *_masks(at, mask, 4), **attributes)
        return [_unfolded(at, g, position) for position, g in enumerate(found)]
    bias = _repeated(at, mask if at.batched[4] else at.lift(mask))
    *gradients, d_bias = ops.attention_backward(*tensors, bias, **attributes)
    results = [_unfolded(at, g, position) for position, g in enumerate(gradients)]
    return [*results, _bias_gradient(at, d_bias)]


@batch(ops.rope)
def rope_batch(at: Batching, x: Value, cos: Value, sin: Value, **attributes: Any) -> Batched:
    """Tables that differ from example to example leave it to the formula."""
    if at.batched != (True, False, False):
        return BY_FORMULA
    result = ops.rope(_folded(at, x, 0), cos, sin, **attributes)
    return reshape_to(result, (at.size, *at.result.shape))


def _folded(at: Batching, x: Value, position: int) -> Value:
    """Put the examples into the op's batch axis, or make them one where it has none."""
    whole = x if at.batched[position] else at.lift(x)
    return fold(whole) if at.operands[position].rank >= _WITH_BATCH else whole


def _unfolded(at: Batching, x: Value, position: int) -> Value:
    return reshape_to(x, (at.size, *at.results[position].shape))


def _masks(at: Batching, mask: Value | None, position: int) -> list[Value]:
    if mask is None:
        return []
    if at.batched[position]:
        return [_repeated(at, mask)]
    return [mask if mask.shape[0] == 1 else fold(at.lift(mask))]


def _repeated(at: Batching, mask: Value) -> Value:
    """Fold a batched mask, which holds for the whole batch of its example if it has one row."""
    _, rows, *rest = mask.shape
    whole = mask if rows != 1 else expand_to(mask, (at.size, _own_batch(at), *rest))
    return fold(whole)


def _bias_gradient(at: Batching, d_bias: Value) -> Value:
    """Unfold the gradient, and sum it where `_repeated` had repeated the bias."""
    rows, *rest = at.results[3].shape
    if rows != 1 or _own_batch(at) == 1:
        return _unfolded(at, d_bias, 3)
    apart = reshape_to(d_bias, (at.size, _own_batch(at), *rest))
    return ops.reduce_sum(apart, axes=(1,), keepdims=True)


def _own_batch(at: Batching) -> Extent:
    """Return the extent of the op's batch axis in one example."""
    q = at.operands[0]
    return q.shape[0] if q.rank >= _WITH_BATCH else 1
