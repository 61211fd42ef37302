"""Derivatives of normalization in reverse mode; forward mode goes through the formulas.

The formulas' own pullback takes three reductions that wait for one another. These take their
means side by side, and the reciprocal root from the definition, where it needs no guard.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.ir.ops.norm import along_axis
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.shape import normalize_axis
from rlx.passes.autodiff.registry import Derivatives, Pullback, vjp


@vjp(ops.layer_norm)
def layer_norm_vjp(
    at: Pullback, x: Value, gamma: Value, beta: Value, *, axis: int, eps: float
) -> Derivatives:
    g = at.cotangent
    from_x, from_gamma, from_beta = at.wanted
    return (
        _layer_norm_by_x(x, gamma, g, axis=axis, eps=eps) if from_x else None,
        _layer_norm_by_gamma(x, g, axis=axis, eps=eps) if from_gamma else None,
        _sum_over_others(g, axis=axis) if from_beta else None,
    )


@vjp(ops.rms_norm)
def rms_norm_vjp(
    at: Pullback, x: Value, gamma: Value, beta: Value | None = None, *, axis: int, eps: float
) -> Derivatives:
    g = at.cotangent
    by_x = _rms_norm_by_x(x, gamma, g, axis=axis, eps=eps) if at.wanted[0] else None
    by_gamma = _rms_norm_by_gamma(x, g, axis=axis, eps=eps) if at.wanted[1] else None
    if beta is None:
        return by_x, by_gamma
    return by_x, by_gamma, _sum_over_others(g, axis=axis) if at.wanted[2] else None


@in_single_precision
def _layer_norm_by_x(x: Value, gamma: Value, g: Value, *, axis: int, eps: float) -> Value:
    """`r * (s - mean(s) - n * mean(s * n))` with `s = g * gamma` and `n` the normalized `x`."""
    normalized, scale = _centered_and_scaled(x, axis, eps)
    s = g * along_axis(gamma, x, axis)
    along = normalized * _mean(s * normalized, axis)
    return scale * (s - _mean(s, axis) - along)


@in_single_precision
def _layer_norm_by_gamma(x: Value, g: Value, *, axis: int, eps: float) -> Value:
    normalized, _ = _centered_and_scaled(x, axis, eps)
    return _sum_over_others(g * normalized, axis=axis)


@in_single_precision
def _rms_norm_by_x(x: Value, gamma: Value, g: Value, *, axis: int, eps: float) -> Value:
    """`q * (s - n * mean(s * n))` with `n = q * x`."""
    scale = ops.rsqrt(_mean(x * x, axis) + eps)
    normalized = x * scale
    s = g * along_axis(gamma, x, axis)
    return scale * (s - normalized * _mean(s * normalized, axis))


@in_single_precision
def _rms_norm_by_gamma(x: Value, g: Value, *, axis: int, eps: float) -> Value:
    scale = ops.rsqrt(_mean(x * x, axis) + eps)
    return _sum_over_others(g * (x * scale), axis=axis)


@in_single_precision
def _sum_over_others(g: Value, *, axis: int) -> Value:
    """Sum over every axis but `axis`."""
    kept = normalize_axis(axis, g.rank)
    others = tuple(other for other in range(g.rank) if other != kept)
    return ops.reduce_sum(g, axes=others) if others else g


def _centered_and_scaled(x: Value, axis: int, eps: float) -> tuple[Value, Value]:
    """Return the normalized `x` and the reciprocal deviation."""
    centered = x - _mean(x, axis)
    scale = ops.rsqrt(_mean(centered * centered, axis) + eps)
    return centered * scale, scale


def _mean(x: Value, axis: int) -> Value:
    return ops.reduce_mean(x, axes=(axis,), keepdims=True)
