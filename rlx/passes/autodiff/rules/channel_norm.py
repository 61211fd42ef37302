"""Derivatives of batch and group norm in reverse mode; forward mode goes through the formulas.

As for `layer_norm`: the formulas' own pullbacks take sums that wait for one another, these
take two side by side. For batch norm they are those of the parameters' own gradients.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.channel_norm import grouped_axes, grouped_shape, other_axes, standardized
from rlx.ir.ops.norm import along_axis
from rlx.ir.ops.precision import in_single_precision
from rlx.passes.algebra import divide_by_count, or_zeros, reshape_to
from rlx.passes.autodiff.registry import Derivatives, Pullback, vjp


@vjp(ops.batch_norm_training)
def batch_norm_training_vjp(
    at: Pullback, x: Value, gamma: Value, beta: Value, *, axis: int, eps: float
) -> Derivatives:
    by_y, by_mean, by_variance = at.cotangents
    g = or_zeros(at.graph, by_y, x.type)
    by_x, by_gamma, by_beta = _batch_norm_pullback(x, gamma, g, axis=axis, eps=eps)
    if by_mean is not None or by_variance is not None:
        statistics = [or_zeros(at.graph, each, gamma.type) for each in (by_mean, by_variance)]
        by_x = by_x + _statistics_pullback(x, *statistics, axis=axis)
    return by_x, by_gamma, by_beta


@in_single_precision
def _batch_norm_pullback(
    x: Value, gamma: Value, g: Value, *, axis: int, eps: float
) -> tuple[Value, Value, Value]:
    """`gamma * r * (g - mean(g) - n * mean(g * n))` with `n` the normalized `x`."""
    axes = other_axes(x, axis)
    normalized, scale, _, _ = standardized(x, axes, eps)
    by_beta = ops.reduce_sum(g, axes=axes, keepdims=True)
    by_gamma = ops.reduce_sum(g * normalized, axes=axes, keepdims=True)
    along = normalized * divide_by_count(by_gamma, x, axes)
    inner = g - divide_by_count(by_beta, x, axes) - along
    by_x = along_axis(gamma, x, axis) * scale * inner
    return by_x, reshape_to(by_gamma, gamma.shape), reshape_to(by_beta, gamma.shape)


@in_single_precision
def _statistics_pullback(x: Value, by_mean: Value, by_variance: Value, *, axis: int) -> Value:
    """`(by_mean + 2 * (x - mean) * by_variance) / count`."""
    axes = other_axes(x, axis)
    centered = x - ops.reduce_mean(x, axes=axes, keepdims=True)
    twice = 2.0 * centered * along_axis(by_variance, x, axis)
    return divide_by_count(along_axis(by_mean, x, axis) + twice, x, axes)


@vjp(ops.group_norm)
def group_norm_vjp(
    at: Pullback,
    x: Value,
    gamma: Value,
    beta: Value,
    *,
    num_groups: int,
    axis: int,
    eps: float,
) -> Derivatives:
    return _group_norm_pullback(x, gamma, at.cotangent, num_groups=num_groups, axis=axis, eps=eps)


@in_single_precision
def _group_norm_pullback(
    x: Value, gamma: Value, g: Value, *, num_groups: int, axis: int, eps: float
) -> tuple[Value, Value, Value]:
    """`r * (s - mean(s) - n * mean(s * n))` over each group, with `s = g * gamma`."""
    others, shape = other_axes(x, axis), grouped_shape(x.shape, num_groups, axis)
    axes = grouped_axes(x.type, axis)
    normalized, scale, _, _ = standardized(reshape_to(x, shape), axes, eps)
    s = reshape_to(g * along_axis(gamma, x, axis), shape)
    mean = ops.reduce_mean(s, axes=axes, keepdims=True)
    along = normalized * ops.reduce_mean(s * normalized, axes=axes, keepdims=True)
    by_gamma = ops.reduce_sum(g * reshape_to(normalized, x.shape), axes=others)
    by_x = reshape_to(scale * (s - mean - along), x.shape)
    return by_x, by_gamma, ops.reduce_sum(g, axes=others)
