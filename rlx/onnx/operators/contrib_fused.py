"""Fused operators of the domain `com.microsoft`, as ONNX Runtime's optimizer writes them."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import UnsupportedError
from rlx.onnx.operators.conv import conv
from rlx.onnx.registry import Static, operator

_DOMAIN = "com.microsoft"


@operator("Gelu", domain=_DOMAIN)
def gelu(x: Any) -> Any:
    return nn.gelu(x, approximate=False)


@operator("BiasGelu", domain=_DOMAIN)
def bias_gelu(x: Any, bias: Any) -> Any:
    return nn.gelu(rnp.add(x, bias), approximate=False)


@operator("FastGelu", domain=_DOMAIN)
def fast_gelu(x: Any, bias: Any = None) -> Any:
    return nn.gelu(x if bias is None else rnp.add(x, bias), approximate=True)


@operator("QuickGelu", domain=_DOMAIN)
def quick_gelu(x: Any, *, alpha: float = 1.702) -> Any:
    return rnp.multiply(x, nn.sigmoid(rnp.multiply(x, np.asarray(alpha, x.dtype))))


def _transposed(x: Any, last: int, batch: int) -> Any:
    """Exchange the last axes; `batch` moves the first axis to them before."""
    if batch:
        x = rnp.moveaxis(x, 0, -2)
    return rnp.swapaxes(x, -1, -2) if last and x.ndim > 1 else x


@operator("FusedMatMul", domain=_DOMAIN)
def fused_matmul(
    a: Any, b: Any, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Any:  # fmt: skip
    left, right = _transposed(a, transA, transBatchA), _transposed(b, transB, transBatchB)
    return rnp.multiply(rnp.matmul(left, right), np.asarray(alpha, a.dtype))


_ACTIVATIONS: dict[str, Any] = {
    "Relu": nn.relu,
    "Tanh": nn.tanh,
    "Sigmoid": nn.sigmoid,
    "LeakyRelu": nn.leaky_relu,
    "Clip": rnp.clip,
    "HardSigmoid": lambda x, alpha, beta: rnp.clip(x * alpha + beta, 0, 1),
}


def _activated(x: Any, name: str, params: Any) -> Any:
    if name and name not in _ACTIVATIONS:
        raise UnsupportedError(
            f"activation {name!r} of a fused operator is not known here",
            remedy=f"use one of: {', '.join(_ACTIVATIONS)}",
        )
    return _ACTIVATIONS[name](x, *(params or ())) if name else x


@operator("FusedConv", domain=_DOMAIN, sums_products=True)
def fused_conv(
    x: Any, w: Any, bias: Any = None, added: Any = None, *, activation: str = "",
    activation_params: Any = None, group: int = 1, pads: Any = None, auto_pad: str = "NOTSET",
    strides: Any = None, dilations: Any = None, kernel_shape: Any = None,
) -> Any:  # fmt: skip
    y = conv(
        x, w, bias, group=group, pads=pads, auto_pad=auto_pad, strides=strides,
        dilations=dilations, kernel_shape=kernel_shape,
    )  # fmt: skip
    return _activated(y if added is None else rnp.add(y, added), activation, activation_params)


@operator("FusedGemm", domain=_DOMAIN)
def fused_gemm(
    a: Any, b: Any, c: Any = None, *, activation: str = "", activation_alpha: float = 0.01,
    activation_beta: float = 0.0, activation_gamma: float = 0.0, alpha: float = 1.0,
    beta: float = 1.0, transA: int = 0, transB: int = 0,
) -> Any:  # fmt: skip
    del activation_gamma
    y = fused_matmul(a, b, alpha=alpha, transA=transA, transB=transB)
    y = y if c is None else rnp.add(y, rnp.multiply(c, np.asarray(beta, a.dtype)))
    params = {"LeakyRelu": (activation_alpha,), "HardSigmoid": (activation_alpha, activation_beta)}
    return _activated(y, activation, params.get(activation))


@operator("Inverse", domain=_DOMAIN)
def inverse(x: Any) -> Any:
    return rnp.linalg.inv(x)


@operator("Trilu", domain=_DOMAIN)
def trilu(x: Any, k: Static = None, *, upper: int = 1) -> Any:
    offset = 0 if k is None else int(k)
    return rnp.triu(x, offset) if upper else rnp.tril(x, offset)


@operator("ExpandDims", domain=_DOMAIN)
def expand_dims(x: Any, axis: Static) -> Any:
    return rnp.expand_dims(x, int(axis))
