"""Activations, and the derivatives that autograd asks for by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.torch.registry import elementwise, enter, rule

enter({
    "relu": nn.relu, "relu6": nn.relu6, "selu": nn.selu, "silu": nn.silu, "mish": nn.mish,
    "hardswish": nn.hard_swish, "hardsigmoid": nn.hard_sigmoid,
}, promotion="result")  # fmt: skip


@elementwise("gelu")
def gelu(x: Any, approximate: str = "none") -> Any:
    return nn.gelu(x, approximate=approximate == "tanh")


@elementwise("softplus")
def softplus(x: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    """The operand itself above `threshold`."""
    scaled = x * beta
    is_large = rnp.greater(scaled, threshold)
    return rnp.where(is_large, x, rnp.log1p(rnp.exp(rnp.where(is_large, 0, scaled))) / beta)


def _along(apply: Callable[..., Any]) -> Callable[..., Any]:
    def along(result: Any, x: Any, axis: int, *_: Any, **__: Any) -> Any:
        x = x.astype(_wide(result.dtype))
        if x.ndim == 0:
            return rnp.reshape(apply(rnp.reshape(x, (1,)), axis=0), ())
        return apply(x, axis=axis)

    return along


rule("_softmax", "softmax.int", typed=True)(_along(nn.softmax))
rule("_log_softmax", "log_softmax.int", typed=True)(_along(nn.log_softmax))


def _wide(dtype: Any) -> str:
    return "f32" if dtype.is_low_precision else str(dtype)


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
    return rnp.where(rnp.greater(x, 0), x, x * ((low + high) / 2)), noise
