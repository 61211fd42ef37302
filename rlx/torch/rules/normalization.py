"""Normalizations with their statistics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rlx.numpy as rnp
from rlx import lax
from rlx.torch.registry import rule


def _wide(x: Any) -> Any:
    """Statistics of f16 and bf16 are formed in f32."""
    return x.astype("f32") if x is not None and x.value.dtype.is_low_precision else x


@rule("native_layer_norm")
def layer_norm(
    x: Any, shape: Sequence[Any], weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    y, mean, inverse = _standardized(_wide(x), axes, eps)
    return _affine(y, weight, bias, 0), mean, inverse


def _standardized(x: Any, axes: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    mean = rnp.mean(x, axes, keepdims=True)
    center = x - mean
    inverse = lax.rsqrt(rnp.mean(rnp.square(center), axes, keepdims=True) + eps)
    return center * inverse, mean, inverse


def _affine(y: Any, weight: Any, bias: Any, after: int) -> Any:
    """Scale and shift; `after` axes follow that of the parameters."""
    if weight is not None:
        y = y * _spread(_wide(weight), after)
    return y if bias is None else y + _spread(_wide(bias), after)


def _spread(x: Any, after: int) -> Any:
    return rnp.reshape(x, (*x.shape, *(1,) * after)) if after else x


@rule("native_group_norm")
def group_norm(
    x: Any, weight: Any, bias: Any, batch: Any, channels: Any, positions: Any, groups: int,
    eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    parts = rnp.reshape(_wide(x), (batch, groups, (channels // groups) * positions))
    y, mean, inverse = _standardized(parts, (2,), eps)
    y = _affine(rnp.reshape(y, x.shape), weight, bias, x.ndim - 2)
    return y, rnp.squeeze(mean, 2), rnp.squeeze(inverse, 2)


def _of_batch(x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any, Any]:
    """Return the result, the mean and inverse deviation by channel, and the variance."""
    x = _wide(x)
    axes = (0, *range(2, x.ndim))
    mean = rnp.mean(x, axes, keepdims=True)
    center = x - mean
    spread = rnp.mean(rnp.square(center), axes, keepdims=True)
    inverse = lax.rsqrt(spread + eps)
    y = _affine(center * inverse, weight, bias, x.ndim - 2)
    flat = (-1,)
    return y, rnp.reshape(mean, flat), rnp.reshape(inverse, flat), rnp.reshape(spread, flat)


def _of_statistics(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, eps: float
) -> tuple[Any, Any, Any]:
    x, after = _wide(x), x.ndim - 2
    inverse = lax.rsqrt(_wide(variance) + eps)
    scale = inverse if weight is None else inverse * _wide(weight)
    y = (x - _spread(_wide(mean), after)) * _spread(scale, after)
    return (y if bias is None else y + _spread(_wide(bias), after)), mean, inverse


@rule("_native_batch_norm_legit_no_training")
def batch_norm_inference(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    del momentum
    y, _, _ = _of_statistics(x, weight, bias, mean, variance, eps)
    empty = rnp.zeros((0,), y.value.dtype)
    return y, empty, empty


@rule("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    del training, momentum
    return _of_batch(x, weight, bias, eps)[:3]


@rule("_native_batch_norm_legit_functional", "_batch_norm_with_update_functional")
def batch_norm_functional(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *given: Any
) -> tuple[Any, ...]:
    """The result, the statistics of the batch, and the running ones for the next call."""
    training, momentum, eps = given if len(given) == 3 else (True, *given)
    if not training:
        y, _, _ = _of_statistics(x, weight, bias, mean, variance, eps)
        empty = rnp.zeros((0,), y.value.dtype)
        return y, empty, empty, mean, variance
    y, center, inverse, spread = _of_batch(x, weight, bias, eps)
    count = x.size // x.shape[1]
    unbiased = (
        spread * (count / (count - 1))
        if isinstance(count, int)
        else (spread * rnp.asarray(count) / rnp.asarray(count - 1))
    )
    old_mean, old_variance = _wide(mean), _wide(variance)
    mean = old_mean * (1 - momentum) + center * momentum
    variance = old_variance * (1 - momentum) + unbiased * momentum
    statistics = (y, center, inverse)
    if len(given) == 2:
        reserve = rnp.zeros((0,), "uint8")
        return (*statistics, reserve, mean, variance)
    return (*statistics, mean, variance)


@rule("_fused_rms_norm")
def fused_rms_norm(x: Any, shape: Sequence[Any], weight: Any, eps: float | None) -> tuple[Any, Any]:
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    wide = _wide(x)
    least = rnp.finfo(wide.value.dtype.numpy).eps if eps is None else eps
    inverse = lax.rsqrt(rnp.mean(rnp.square(wide), axes, keepdims=True) + float(least))
    return _affine(wide * inverse, weight, None, 0), inverse


@rule("rms_norm")
def rms_norm(x: Any, shape: Sequence[Any], weight: Any = None, eps: float | None = None) -> Any:
    return fused_rms_norm(x, shape, weight, eps)[0]
