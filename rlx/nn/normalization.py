"""Normalization: along an axis, and with a scale and a shift per channel."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.nn.spatial import channel_axis
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, graph, inexact, wrap


@function
def layer_norm(x: Any, gamma: Any, beta: Any, *, axis: int = -1, eps: float = 1e-5) -> Array:
    """Center and scale to unit variance along `axis`, then `* gamma + beta`."""
    x, gamma, beta = inexact(x, gamma, beta)
    return emit(ops.layer_norm, x, gamma, beta, axis=axis, eps=eps)


@function
def rms_norm(x: Any, gamma: Any, *, axis: int = -1, eps: float = 1e-6) -> Array:
    """Scale to unit mean square along `axis`, then `* gamma`."""
    x, gamma = inexact(x, gamma)
    return emit(ops.rms_norm, x, gamma, axis=axis, eps=eps)


@function
def batch_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    mean: Any,
    variance: Any,
    *,
    training: bool = False,
    momentum: float = 0.9,
    eps: float = 1e-5,
    layout: str = "NCHW",
) -> Any:
    """Normalize each channel by running statistics, then `* gamma + beta`.

    With `training`, by those of the batch; the result is then `(y, mean, variance)` with the
    statistics for the next call: `momentum` of the old ones and the rest of the batch's, whose
    variance is divided by the count (as in Flax; PyTorch's momentum is the other share).
    """
    axis = channel_axis(layout)
    x, gamma, beta, mean, variance = inexact(x, gamma, beta, mean, variance)
    if not training:
        return emit(ops.batch_norm_inference, x, gamma, beta, mean, variance, axis=axis, eps=eps)
    if not 0 <= momentum <= 1:
        raise ShapeError(
            f"momentum is {momentum}; it must be in [0, 1]",
            remedy="give the share of the running statistics that is kept, as in 0.9",
        )
    operands = [each.value for each in (x, gamma, beta)]
    results = graph().apply(ops.batch_norm_training, operands, axis=axis, eps=eps)
    assert isinstance(results, tuple)  # the result and the batch's statistics
    y, *batch = map(wrap, results)
    kept = [
        rnp.add(rnp.multiply(old, momentum), rnp.multiply(new, 1 - momentum))
        for old, new in zip((mean, variance), batch, strict=True)
    ]
    return y, *kept


@function
def group_norm(
    x: Any, gamma: Any, beta: Any, num_groups: int, *, eps: float = 1e-5, layout: str = "NCHW"
) -> Array:
    """Normalize each example's groups of neighboring channels, then `* gamma + beta`."""
    x, gamma, beta = inexact(x, gamma, beta)
    axis = channel_axis(layout)
    return emit(ops.group_norm, x, gamma, beta, num_groups=num_groups, axis=axis, eps=eps)


@function
def instance_norm(
    x: Any, gamma: Any, beta: Any, *, eps: float = 1e-5, layout: str = "NCHW"
) -> Array:
    """Normalize each channel of each example over its spatial axes, then `* gamma + beta`."""
    x, gamma, beta = inexact(x, gamma, beta)
    return emit(ops.instance_norm, x, gamma, beta, axis=channel_axis(layout), eps=eps)
