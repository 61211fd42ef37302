"""Activations, and the derivatives that autograd asks for by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.torch.registry import elementwise, enter, rule

enter({
    "relu6": nn.relu6, "selu": nn.selu, "silu": nn.silu, "mish": nn.mish,
    "hardswish": nn.hard_swish, "hardsigmoid": nn.hard_sigmoid,
}, promotion="result")  # fmt: skip


@elementwise("relu")
def relu(x: Any) -> Any:
    return nn.relu(x)


@elementwise("gelu")
def gelu(x: Any, approximate: str = "none") -> Any:
    return nn.gelu(x, approximate=approximate == "tanh")


@elementwise("elu")
def elu(x: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    negative = rnp.minimum(x, 0) * input_scale
    return rnp.where(rnp.greater(x, 0), x * scale, rnp.expm1(negative) * (alpha * scale))


@elementwise("leaky_relu")
def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    return rnp.where(rnp.greater(x, 0), x, x * negative_slope)


@elementwise("hardtanh")
def hardtanh(x: Any, low: Any = -1, high: Any = 1) -> Any:
    return rnp.minimum(rnp.maximum(x, low), high)


@elementwise("softplus")
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """The operand itself above `threshold`."""
    scaled = x * beta
    is_large = rnp.greater(scaled, threshold)
    return rnp.where(is_large, x, rnp.log1p(rnp.exp(rnp.where(is_large, 0, scaled))) / beta)


@elementwise("prelu", "_prelu_kernel")
def prelu(x: Any, weight: Any) -> Any:
    return rnp.where(rnp.greater(x, 0), x, x * weight)


@rule("_softmax", "softmax.int", "_safe_softmax", typed=True)
def softmax(result: Any, x: Any, axis: int, *_: Any, **named: Any) -> Any:
    del named
    return _along(nn.softmax, x.astype(_wide(result.dtype)), axis)


@rule("_safe_softmax", typed=True)
def safe_softmax(result: Any, x: Any, axis: int, dtype: Any = None) -> Any:
    """0 along rows that hold nothing but minus infinity."""
    del dtype
    x = x.astype(_wide(result.dtype))
    is_masked = rnp.all(rnp.isneginf(x), axis=axis, keepdims=True)
    return rnp.where(is_masked, 0, nn.softmax(rnp.where(is_masked, 0, x), axis=axis))


@rule("_log_softmax", "log_softmax.int", typed=True)
def log_softmax(result: Any, x: Any, axis: int, *_: Any, **named: Any) -> Any:
    del named
    return _along(nn.log_softmax, x.astype(_wide(result.dtype)), axis)


def _along(apply: Callable[..., Any], x: Any, axis: int) -> Any:
    if x.ndim == 0:
        return rnp.reshape(apply(rnp.reshape(x, (1,)), axis=0), ())
    return apply(x, axis=axis)


def _wide(dtype: Any) -> str:
    return "f32" if dtype.is_low_precision else str(dtype)


@rule("_softmax_backward_data", typed=True)
def softmax_backward(result: Any, g: Any, y: Any, axis: int, dtype: Any) -> Any:
    del dtype
    wide = _wide(result.dtype)
    g, y = g.astype(wide), y.astype(wide)
    if y.ndim == 0:
        return rnp.zeros((), wide)
    product = g * y
    return product - y * rnp.sum(product, axis, keepdims=True)


@rule("_log_softmax_backward_data", typed=True)
def log_softmax_backward(result: Any, g: Any, y: Any, axis: int, dtype: Any) -> Any:
    del dtype
    wide = _wide(result.dtype)
    g, y = g.astype(wide), y.astype(wide)
    if y.ndim == 0:
        return rnp.zeros((), wide)
    return g - rnp.exp(y) * rnp.sum(g, axis, keepdims=True)


@elementwise("sigmoid_backward")
def sigmoid_backward(g: Any, y: Any) -> Any:
    return g * rnp.conj(y * (1 - y))


@elementwise("tanh_backward")
def tanh_backward(g: Any, y: Any) -> Any:
    return g * rnp.conj(1 - y * y)


@elementwise("threshold_backward")
def threshold_backward(g: Any, x: Any, threshold: Any) -> Any:
    return rnp.where(rnp.less_equal(x, threshold), 0, g)


@elementwise("gelu_backward")
def gelu_backward(g: Any, x: Any, approximate: str = "none") -> Any:
    return rlx.vjp(lambda x: gelu(x, approximate), x)[1](g)[0]


@elementwise("silu_backward")
def silu_backward(g: Any, x: Any) -> Any:
    y = nn.sigmoid(x)
    return g * y * (1 + x * (1 - y))


@elementwise("mish_backward")
def mish_backward(g: Any, x: Any) -> Any:
    return rlx.vjp(nn.mish, x)[1](g)[0]


@elementwise("threshold")
def threshold(x: Any, limit: Any, value: Any) -> Any:
    return rnp.where(rnp.less_equal(x, limit), value, x)


@rule("rrelu_with_noise_functional", "rrelu_with_noise")
def rrelu(
    x: Any, noise: Any, low: Any = 1 / 8, high: Any = 1 / 3, training: bool = False,
    generator: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Without training, a leaky unit with the mean of both slopes."""
    del generator
    if training:
        raise UnsupportedError(
            "rrelu in training draws a slope for each negative element, and none for others",
            remedy="use leaky_relu, or put the module in eval mode",
        )
    return leaky_relu(x, (low + high) / 2), noise
