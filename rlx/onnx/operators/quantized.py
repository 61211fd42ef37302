"""Quantized operators, exactly: products and sums of integers in i32."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError
from rlx.ir import ops
from rlx.ir.shape import normalize_axis
from rlx.onnx.operators.conv import convolved
from rlx.onnx.operators.windows import window_of
from rlx.onnx.registry import operator
from rlx.onnx.types import dtype_of
from rlx.tracing.apply import emit


def _along(x: Any, parameter: Any, axis: int, block_size: int) -> Any:
    """Return a scale or zero point, one for all, for a channel or for a block, against `x`."""
    if parameter.ndim == 0 or parameter.shape == (1,):
        return _reshaped(parameter, ())
    position = normalize_axis(axis, x.ndim)
    if parameter.ndim == 1 and not block_size:
        return _reshaped(parameter, (-1, *(1,) * (x.ndim - 1 - position)))
    repeated = rnp.repeat(
        parameter, block_size or -(-x.shape[position] // parameter.shape[position]), position
    )
    return emit(ops.narrow, repeated, axis=position, start=0, length=x.shape[position])


def _reshaped(parameter: Any, shape: tuple[int, ...]) -> Any:
    """Return a parameter in another shape; what is known stays known."""
    if isinstance(parameter, np.ndarray):
        return parameter.reshape(shape)
    return rnp.reshape(parameter, shape)


def _centered_along(x: Any, zero_point: Any, axis: int, block_size: int) -> Any:
    """Return integers less a zero point for all, a channel or a block, in i32."""
    wide = rnp.astype(x, "i32")
    if zero_point is None or _is_zero(zero_point):
        return wide
    if isinstance(zero_point, np.ndarray):
        return rnp.subtract(wide, _along(x, zero_point.astype(np.int32), axis, block_size))
    return rnp.subtract(wide, rnp.astype(_along(x, zero_point, axis, block_size), "i32"))


def _is_zero(zero_point: Any) -> bool:
    return isinstance(zero_point, np.ndarray) and not zero_point.any()


@operator("QuantizeLinear")
def quantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Any:
    del saturate, precision
    target = dtype_of(output_dtype) if output_dtype else None
    if zero_point is not None:
        made = np.dtype(zero_point.dtype)
    else:
        made = target.numpy if target is not None else np.dtype(np.uint8)
    scaled = rnp.divide(rnp.astype(x, scale.dtype), _along(x, scale, axis, block_size))
    return _stored(
        rnp.astype(scaled, "f32"),
        None
        if zero_point is None or _is_zero(zero_point)
        else _along(x, zero_point, axis, block_size),
        made,
    )


def _stored(scaled: Any, zero_point: Any, made: np.dtype[Any]) -> Any:
    """Round to the nearest, ties to even, add the zero point and limit to the range."""
    rounded = emit(ops.round, scaled)
    if zero_point is not None:
        rounded = rnp.add(rounded, rnp.astype(zero_point, "f32"))
    if made.kind not in "iu":
        raise FormatError(
            f"a zero point has dtype {made}, to which nothing is quantized here",
            remedy="give it the integer dtype of the quantized array",
        )
    limits = np.iinfo(made)
    return rnp.astype(rnp.clip(rounded, float(limits.min), float(limits.max)), made)


@operator("DequantizeLinear")
def dequantize_linear(
    x: Any,
    scale: Any,
    zero_point: Any = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Any:
    made = dtype_of(output_dtype).numpy if output_dtype else scale.dtype
    wide = _centered_along(x, zero_point, axis, block_size)
    factor = _along(x, scale, axis, block_size)
    return rnp.astype(rnp.multiply(rnp.astype(wide, scale.dtype), factor), made)


@operator("DynamicQuantizeLinear")
def dynamic_quantize_linear(x: Any) -> Any:
    high = rnp.maximum(rnp.max(x), np.float32(0))
    low = rnp.minimum(rnp.min(x), np.float32(0))
    scale = rnp.divide(rnp.subtract(high, low), np.float32(255))
    scale = rnp.astype(rnp.where(rnp.equal(scale, 0), 1, scale), "f32")
    zero = rnp.astype(
        rnp.clip(emit(ops.round, rnp.divide(rnp.negative(low), scale)), 0, 255), "uint8"
    )
    return quantize_linear(x, scale, zero), scale, zero


def _centered(x: Any, zero_point: Any, per_row: bool = False) -> Any:
    """Return integers less their zero point, in i32."""
    wide = rnp.astype(x, "i32")
    if zero_point is None or _is_zero(zero_point):
        return wide
    if isinstance(zero_point, np.ndarray):
        zero: Any = zero_point.astype(np.int32)
    else:
        zero = rnp.astype(zero_point, "i32")
    if zero.ndim == 1 and zero.shape[0] == 1:
        zero = _reshaped(zero, ())
    if per_row and zero.ndim == 1:
        zero = rnp.expand_dims(zero, 1)
    return rnp.subtract(wide, zero)


@operator("MatMulInteger")
def matmul_integer(a: Any, b: Any, a_zero: Any = None, b_zero: Any = None) -> Any:
    return rnp.matmul(_centered(a, a_zero, per_row=True), _centered(b, b_zero))


@operator("ConvInteger")
def conv_integer(
    x: Any,
    w: Any,
    x_zero: Any = None,
    w_zero: Any = None,
    *,
    group: int = 1,
    pads: Any = None,
    auto_pad: str = "NOTSET",
    strides: Any = None,
    dilations: Any = None,
    kernel_shape: Any = None,
) -> Any:
    """Padding is the zero point, which is zero once it is subtracted."""
    del kernel_shape
    window = window_of(
        x.shape[2:], w.shape[2:], strides=strides, pads=pads, dilations=dilations,
        auto_pad=auto_pad,
    )  # fmt: skip
    zero = w_zero
    if zero is not None and zero.ndim == 1 and zero.shape[0] > 1:
        zero = rnp.reshape(zero, (-1, *(1,) * (w.ndim - 1)))
    return convolved(_centered(x, x_zero), _centered(w, zero), window, group)


@operator("QLinearMatMul")
def qlinear_matmul(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
) -> Any:
    total = rnp.matmul(_centered(a, a_zero, per_row=True), _centered(b, b_zero))
    left = rnp.astype(a_scale, "f32")
    left = rnp.expand_dims(left, 1) if left.ndim == 1 and left.shape[0] > 1 else left
    factor = rnp.divide(rnp.multiply(left, rnp.astype(b_scale, "f32")), rnp.astype(y_scale, "f32"))
    scaled = rnp.multiply(rnp.astype(total, "f32"), factor)
    return _stored(scaled, y_zero, np.dtype(y_zero.dtype))


@operator("QLinearConv")
def qlinear_conv(
    x: Any,
    x_scale: Any,
    x_zero: Any,
    w: Any,
    w_scale: Any,
    w_zero: Any,
    y_scale: Any,
    y_zero: Any,
    bias: Any = None,
    *,
    group: int = 1,
    pads: Any = None,
    auto_pad: str = "NOTSET",
    strides: Any = None,
    dilations: Any = None,
    kernel_shape: Any = None,
) -> Any:
    total = conv_integer(
        x, w, x_zero, w_zero, group=group, pads=pads, auto_pad=auto_pad, strides=strides,
        dilations=dilations, kernel_shape=kernel_shape,
    )  # fmt: skip
    channels = (1, -1, *(1,) * (x.ndim - 2))
    if bias is not None:
        total = rnp.add(total, rnp.reshape(bias, channels))
    scale = w_scale if w_scale.ndim == 0 else rnp.reshape(w_scale, channels)
    factor = rnp.divide(rnp.multiply(x_scale, scale), y_scale)
    return _stored(rnp.multiply(rnp.astype(total, "f32"), factor), y_zero, np.dtype(y_zero.dtype))
