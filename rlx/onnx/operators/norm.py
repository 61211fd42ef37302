"""Normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.shape import normalize_axis
from rlx.onnx.registry import operator
from rlx.tracing.apply import emit, graph, wrap
from rlx.tracing.trace import as_value


@operator("BatchNormalization")
def batch_normalization(
    x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    node: Any,
) -> Any:
    del spatial
    trains = bool(training_mode) or (node.opset < 14 and node.has_output(1))
    if not trains:
        return emit(ops.batch_norm_inference, x, scale, bias, mean, variance, axis=1, eps=epsilon)
    operands = [as_value(each) for each in (x, scale, bias)]
    results = graph().batch_norm_training(*operands, axis=1, eps=epsilon)
    y, batch_mean, batch_variance = (_value(result) for result in results)
    running_mean = mean * momentum + batch_mean * (1 - momentum)
    running_variance = variance * momentum + batch_variance * (1 - momentum)
    return y, running_mean, running_variance, batch_mean, batch_variance


@operator("InstanceNormalization")
def instance_normalization(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5) -> Any:
    return emit(ops.group_norm, x, scale, bias, num_groups=x.shape[1], axis=1, eps=epsilon)


@operator("LayerNormalization")
def layer_normalization(
    x: Any,
    scale: Any,
    bias: Any = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Any,
) -> Any:
    """Computed in f32 at least; mean and inverse deviation are results, too."""
    del stash_type
    first = normalize_axis(axis, x.ndim)
    is_plain = first == x.ndim - 1 and bias is not None and scale.ndim == bias.ndim == 1
    if is_plain and not node.has_output(1):
        return emit(ops.layer_norm, x, scale, bias, axis=-1, eps=epsilon)
    axes = tuple(range(first, x.ndim))
    wide = rnp.astype(x, np.promote_types(x.dtype, np.float32)) if _is_narrow(x) else x
    mean = rnp.mean(wide, axes, keepdims=True)
    centered = rnp.subtract(wide, mean)
    inverse = rnp.divide(1, rnp.sqrt(rnp.mean(rnp.square(centered), axes, keepdims=True) + epsilon))
    y = rnp.astype(rnp.multiply(centered, inverse), x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


def _value(result: Any) -> Any:
    return wrap(result)


def _is_narrow(x: Any) -> bool:
    return bool(np.dtype(x.dtype).itemsize == 2)


@operator("LRN")
def local_response_normalization(
    x: Any, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Any:
    """Divide by the sum of squares of `size` channels around."""
    before, after = (size - 1) // 2, size // 2
    widths = ((0, 0), (before, after), *((0, 0),) * (x.ndim - 2))
    squares = rnp.pad(rnp.square(x), widths)
    channels = x.shape[1]
    total: Any = 0
    for start in range(size):
        total = total + emit(ops.narrow, squares, axis=1, start=start, length=channels)
    return rnp.divide(x, rnp.power(bias + alpha / size * total, beta))


@operator("LpNormalization")
def lp_normalization(x: Any, *, axis: int = -1, p: int = 2) -> Any:
    """Zeros where the norm is zero."""
    size = rnp.abs(x) if p == 1 else rnp.square(x)
    norm = rnp.sum(size, axis, keepdims=True)
    norm = norm if p == 1 else rnp.sqrt(norm)
    return rnp.where(rnp.equal(norm, 0), 0, rnp.divide(x, norm))
