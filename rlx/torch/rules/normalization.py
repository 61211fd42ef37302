"""Normalization of batches, with its statistics, and of weights; others PyTorch decomposes."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx import lax
from rlx.torch.registry import rule


def _wide(x: Any) -> Any:
    """Statistics of f16 and bf16 are formed in f32."""
    return x.astype("f32") if x is not None and x.value.dtype.is_low_precision else x


def _affine(y: Any, weight: Any, bias: Any, after: int) -> Any:
    """Scale and shift; `after` axes follow that of the parameters."""
    if weight is not None:
        y = y * _spread(_wide(weight), after)
    return y if bias is None else y + _spread(_wide(bias), after)


def _spread(x: Any, after: int) -> Any:
    return rnp.reshape(x, (*x.shape, *(1,) * after)) if after else x


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


@rule("_weight_norm_interface_backward")
def weight_norm_backward(cotangent: Any, v: Any, g: Any, norms: Any, dim: int) -> tuple[Any, Any]:
    """Derivatives of `v * g / norms`, with the norms of `v` over all axes but `dim`."""
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    along = rnp.sum(cotangent * v, axes, keepdims=True)
    return g / norms * (cotangent - v * along / rnp.square(norms)), along / norms
