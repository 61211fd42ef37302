"""Causal convolutions over the tokens of a text; the last inputs are state between runs."""

from __future__ import annotations

import numpy as np

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.language.layer_builder import LayerBuilder

_LAST = np.iinfo(np.int32).max
"""Beyond any row: starts are clamped to the last."""


def short_convolution(decoder: LayerBuilder, x: Value, name: str) -> Value:
    """LFM2's: a gated row is convolved with the few before it, and gated again."""
    config, weights = decoder.config, decoder.weights
    hidden = config.hidden
    given = weights.linear(x, f"{name}.shortconv.in_proj", 3 * hidden)
    before, after, x = (columns(given, part * hidden, hidden) for part in range(3))
    rows = ops.reshape(before * x, shape=(*decoder.grid, hidden))
    convolved = causal_convolution(decoder, rows, f"{name}.shortconv.conv")
    gated = after * ops.reshape(convolved, shape=after.shape)
    return weights.linear(gated, f"{name}.shortconv.out_proj", hidden)


def causal_convolution(decoder: LayerBuilder, x: Value, name: str) -> Value:
    """Convolve each channel of `[sequences, rows, channels]` with the rows up to its own.

    The last rows are kept for the next run.
    """
    weights, (count, rows, channels) = decoder.weights, x.shape
    taps = int(weights.file.tensors[f"{name}.weight"].dims[0])
    kernel = weights.array(f"{name}.weight", (int(channels), taps))
    joined = ops.concat(decoder.carried(f"{name}.rows", (taps - 1, int(channels))), x, axis=1)
    last = x.graph.constant(np.array([0, _LAST, 0], np.int32))
    decoder.carry(
        f"{name}.rows", ops.dynamic_slice(joined, last, sizes=(count, taps - 1, channels))
    )
    total = sum(
        ops.narrow(joined, axis=1, start=tap, length=rows)
        * ops.reshape(ops.narrow(kernel, axis=1, start=tap, length=1), shape=(channels,))
        for tap in range(taps)
    )
    if weights.has(f"{name}.bias"):
        total = total + weights.vector(f"{name}.bias", int(channels))
    assert isinstance(total, Value)
    return total


def columns(x: Value, start: int, count: int) -> Value:
    """Return some elements of the last axis."""
    result: Value = ops.narrow(x, axis=-1, start=start, length=count)
    return result
