"""Normalization with a scale and a shift per channel: batch, group and instance norm.

The variance is biased and taken from centered values; `eps` is added inside the root. Running
statistics are results, never side effects: `batch_norm_training` returns those of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.errors import ShapeError, SymbolicExtentError
from rlx.ir.composite import composite
from rlx.ir.declaration import op
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import rsqrt
from rlx.ir.ops.norm import along_axis, layer_norm
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.reduction import reduce_mean
from rlx.ir.ops.requirements import (
    require_dtype,
    require_nonempty_axis,
    require_rank,
    require_same_dtype,
    require_shape,
)
from rlx.ir.ops.shape import expand, reshape
from rlx.ir.shape import Extent, Shape, divide, normalize_axis, product
from rlx.ir.types import TensorType

_FAMILY = "channel_norm"


@composite(_FAMILY, Trait.ALL_ELEMENTS)
@in_single_precision
def batch_norm_inference(
    x: Value,
    gamma: Value,
    beta: Value,
    mean: Value,
    variance: Value,
    *,
    axis: int = -1,
    eps: float,
) -> Value:
    """`(x - mean) / sqrt(variance + eps) * gamma + beta` with frozen statistics per channel."""
    require_channels(x.type, axis, gamma=gamma.type, beta=beta.type, mean=mean.type,
                     variance=variance.type)  # fmt: skip
    scale = gamma * rsqrt(variance + eps)
    centered = x - along_axis(mean, x, axis)
    result: Value = centered * along_axis(scale, x, axis) + along_axis(beta, x, axis)
    return result


@in_single_precision
def batch_norm_training_formula(
    x: Value, gamma: Value, beta: Value, *, axis: int, eps: float
) -> tuple[Value, Value, Value]:
    """Statistics over all axes but the channels'."""
    normalized, _, mean, variance = standardized(x, other_axes(x, axis), eps)
    y = normalized * along_axis(gamma, x, axis) + along_axis(beta, x, axis)
    return y, reshape(mean, shape=gamma.shape), reshape(variance, shape=gamma.shape)


@op(_FAMILY, Trait.ALL_ELEMENTS, decompose=batch_norm_training_formula)
def batch_norm_training(
    x: TensorType, gamma: TensorType, beta: TensorType, *, axis: int = -1, eps: float
) -> tuple[TensorType, TensorType, TensorType]:
    """Batch norm with the batch's own mean and biased variance, which follow the result."""
    channel = require_channels(x, axis, gamma=gamma, beta=beta)
    require_elements(x, [other for other in range(x.rank) if other != channel])
    return x, gamma, gamma


@in_single_precision
def group_norm_formula(
    x: Value, gamma: Value, beta: Value, *, num_groups: int, axis: int, eps: float
) -> Value:
    """Split the channels into groups, and normalize all of an example's group at once.

    With channels in front a group is one row, which a kernel reads three times while it is near.
    """
    grouped = grouped_shape(x.shape, num_groups, axis)
    if normalize_axis(axis, x.rank) == 1:
        rows = reshape(x, shape=(*grouped[:2], product(grouped[2:])))
        one, zero = (
            expand(x.graph.constant(number, x.dtype), shape=rows.shape[-1:]) for number in (1, 0)
        )
        normalized = layer_norm(rows, one, zero, axis=-1, eps=eps)
    else:
        axes = grouped_axes(x.type, axis)
        normalized, *_ = standardized(reshape(x, shape=grouped), axes, eps)
    whole = reshape(normalized, shape=x.shape)
    result: Value = whole * along_axis(gamma, x, axis) + along_axis(beta, x, axis)
    return result


@op(_FAMILY, Trait.ALL_ELEMENTS, decompose=group_norm_formula)
def group_norm(
    x: TensorType,
    gamma: TensorType,
    beta: TensorType,
    *,
    num_groups: int,
    axis: int = 1,
    eps: float,
) -> TensorType:
    """Normalize each example's groups of neighboring channels, then `* gamma + beta`.

    Axis 0 holds the examples; statistics run over a group's channels and all other axes.
    """
    require_rank(x, 2, "x")
    channel = require_channels(x, axis, gamma=gamma, beta=beta)
    if channel == 0:
        raise ShapeError("axis 0 holds the examples", remedy="name the axis of the channels")
    if num_groups < 1 or not _divides(num_groups, x.shape[channel]):
        raise ShapeError(
            f"{num_groups} groups do not divide {x.shape[channel]} channels",
            remedy="give a number of groups that divides the channels",
        )
    require_elements(x, range(1, x.rank))
    return x


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def instance_norm(x: Value, gamma: Value, beta: Value, *, axis: int = 1, eps: float) -> Value:
    """Normalize each channel of each example over its spatial axes, then `* gamma + beta`."""
    require_rank(x.type, 2, "x")
    channels = x.shape[normalize_axis(axis, x.rank)]
    if not isinstance(channels, int):
        raise SymbolicExtentError(
            f"the number of channels {channels} is symbolic; it must be known",
            remedy="bind the extent of the channels",
        )
    result: Value = group_norm(x, gamma, beta, num_groups=channels, axis=axis, eps=eps)
    return result


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def layer_norm2d(x: Value, gamma: Value, beta: Value, *, eps: float) -> Value:
    """`layer_norm` over the channels of `[N, C, H, W]` or `[N, C, L]`, at each position."""
    require_rank(x.type, 3, "x")
    return layer_norm(x, gamma, beta, axis=1, eps=eps)


def standardized(x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value, Value, Value]:
    """Return `x` at mean 0 and variance 1 over `axes`, the factor, the mean and the variance."""
    mean = reduce_mean(x, axes=tuple(axes), keepdims=True)
    centered = x - mean
    variance = reduce_mean(centered * centered, axes=tuple(axes), keepdims=True)
    scale = rsqrt(variance + eps)
    return centered * scale, scale, mean, variance


def other_axes(x: Value, axis: int) -> tuple[int, ...]:
    """Return all axes but one."""
    kept = normalize_axis(axis, x.rank)
    return tuple(other for other in range(x.rank) if other != kept)


def grouped_shape(shape: Shape, num_groups: int, axis: int) -> Shape:
    """Return `shape` with the channels as groups and what is in them."""
    channel = normalize_axis(axis, len(shape))
    within = divide(shape[channel], num_groups)
    return (*shape[:channel], num_groups, within, *shape[channel + 1 :])


def grouped_axes(type: TensorType, axis: int) -> tuple[int, ...]:
    """Return the axes of the grouped shape that statistics run over."""
    groups = normalize_axis(axis, type.rank)
    return tuple(other for other in range(1, type.rank + 1) if other != groups)


def require_channels(x: TensorType, axis: int, **vectors: TensorType) -> int:
    """Return the axis of the channels; each vector must hold one element per channel."""
    require_dtype(x, "float", "x")
    channel = require_nonempty_axis(x, axis)
    require_same_dtype(x, *vectors.values())
    for name, vector in vectors.items():
        require_shape(vector, (x.shape[channel],), name)
    return channel


def require_elements(x: TensorType, axes: Sequence[int]) -> None:
    """Demand that statistics over `axes` are of something."""
    for axis in axes:
        require_nonempty_axis(x, axis)


def _divides(divisor: int, extent: Extent) -> bool:
    try:
        divide(extent, divisor)
    except ShapeError:
        return False
    return True
