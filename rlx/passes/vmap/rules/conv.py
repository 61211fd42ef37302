"""Convolution: images of all examples are images; weights of all examples are channels."""

from __future__ import annotations

from typing import Any

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.shape import divide
from rlx.passes.vmap.batching import Batching, expand_to, fold, reshape_to
from rlx.passes.vmap.registry import Batched, batch


@batch(ops.conv)
def conv_batch(at: Batching, x: Value, w: Value, *, groups: int, **attributes: Any) -> Batched:
    match at.batched:
        case (True, False):
            result = ops.conv(fold(x), w, groups=groups, **attributes)
            return reshape_to(result, (at.size, *at.result.shape))
        case (False, True):
            return _more_outputs(at, x, w, groups, attributes)
        case _:
            return _more_groups(at, x, w, groups, attributes)


def _more_outputs(
    at: Batching, x: Value, w: Value, groups: int, attributes: dict[str, Any]
) -> Value:
    """Give every group the output channels of all examples."""
    outputs, inner, *taps = w.shape[1:]
    each = divide(outputs, groups)
    apart = reshape_to(w, (at.size, groups, each, inner, *taps))
    stacked = reshape_to(_exchanged(apart, 0, 1), (at.size * outputs, inner, *taps))
    result = ops.conv(x, stacked, groups=groups, **attributes)
    images, spatial = result.shape[0], result.shape[2:]
    split = reshape_to(result, (images, groups, at.size, each, *spatial))
    order = (2, 0, 1, *range(3, split.rank))
    return reshape_to(ops.transpose(split, perm=order), (at.size, images, outputs, *spatial))


def _more_groups(
    at: Batching, x: Value, w: Value, groups: int, attributes: dict[str, Any]
) -> Value:
    """Make the channels of every example groups of their own."""
    if at.size == 0:
        return expand_to(at.graph.constant(0, x.dtype), (0, *at.result.shape))
    _, images, channels, *spatial = x.shape
    merged = reshape_to(_exchanged(x, 0, 1), (images, at.size * channels, *spatial))
    result = ops.conv(merged, fold(w), groups=groups * _count(at), **attributes)
    split = reshape_to(result, (images, at.size, *at.result.shape[1:]))
    return _exchanged(split, 0, 1)


def _exchanged(x: Value, a: int, b: int) -> Value:
    order = list(range(x.rank))
    order[a], order[b] = order[b], order[a]
    return ops.transpose(x, perm=tuple(order))


def _count(at: Batching) -> int:
    """Return the number of examples, which becomes a number of groups."""
    if isinstance(at.size, int):
        return at.size
    raise ShapeError(
        f"a batch of {at.size} examples, each with its own weights, has a symbolic size; "
        "it becomes a number of groups, which is known when a program is compiled",
        remedy="bind the size of the batch",
    )
