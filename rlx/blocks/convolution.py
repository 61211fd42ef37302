"""The short causal convolution of state-space and hybrid models."""

from __future__ import annotations

import functools
import operator

from rlx.blocks.block import Block, require_hidden, require_shape
from rlx.errors import ShapeError
from rlx.ir.graph import Value
from rlx.ir.shape import format_shape


def depthwise_conv1d_causal(
    x: Value, weight: Value, left_pad: Value, *, name: str | None = None
) -> Value:
    """Convolve every channel of x `[B, S, C]` along S with its own K taps `[C, 1, 1, K]`.

    `left_pad` `[B, K-1, C]` holds the steps before the first one: zeros, or the last inputs
    of the previous chunk. Tap K-1 multiplies the current step. K is small: one product per tap.
    """
    with Block(x.graph, "depthwise_conv1d_causal", name):
        graph, channels = x.graph, require_hidden("x", x, (3,))
        require_shape("weight", weight, (channels, 1, 1, None))
        taps = weight.shape[3]
        if not isinstance(taps, int) or taps < 1:
            raise ShapeError(
                f"weight has shape {format_shape(weight.shape)}; it needs taps",
                remedy="give it a last extent of 1 or more",
            )
        require_shape("left_pad", left_pad, (x.shape[0], taps - 1, channels))
        padded = graph.concat(left_pad, x, axis=1) if taps > 1 else x
        terms = [
            graph.narrow(padded, axis=1, start=tap, length=x.shape[1]) * _factors(weight, tap)
            for tap in range(taps)
        ]
        return functools.reduce(operator.add, terms)


def _factors(weight: Value, tap: int) -> Value:
    column = weight.graph.narrow(weight, axis=3, start=tap, length=1)
    return weight.graph.reshape(column, shape=(weight.shape[0],))
