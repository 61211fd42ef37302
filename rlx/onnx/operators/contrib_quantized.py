"""Quantized operators of the domain `com.microsoft`, as ONNX Runtime's tools write them.

Products are those of integers, scaled afterwards; what is elementwise is computed on the numbers
that the bytes represent, and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx import nn
from rlx.errors import FormatError, UnsupportedError
from rlx.ir import ops
from rlx.ir.shape import normalize_axis
from rlx.onnx.operators.contrib_attention import attended, embedded, split_heads
from rlx.onnx.operators.pool import average_pool
from rlx.onnx.operators.quantized import (
    dequantize_linear,
    dynamic_quantize_linear,
    matmul_integer,
    qlinear_conv,
    quantize_linear,
)
from rlx.onnx.operators.required import require_inputs
from rlx.onnx.registry import operator
from rlx.tracing.apply import emit

_DOMAIN = "com.microsoft"
_NIBBLES = 4
_EIGHT_BITS = 4
"""The level of accuracy that lets rows be rounded to eight bits."""

operator("QuantizeLinear", domain=_DOMAIN)(quantize_linear)
operator("DequantizeLinear", domain=_DOMAIN)(dequantize_linear)


def _rounded(x: Any, scale: Any, zero: Any, made: Any) -> Any:
    point = np.zeros((), made) if zero is None else zero
    return quantize_linear(x, scale, point)


@operator("MatMulIntegerToFloat", domain=_DOMAIN)
def matmul_integer_to_float(
    a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None,
    bias: Any = None,
) -> Any:  # fmt: skip
    total = rnp.astype(matmul_integer(a, b, a_zero, b_zero), "f32")
    y = rnp.multiply(total, rnp.multiply(a_scale, b_scale))
    return y if bias is None else rnp.add(y, bias)


@operator("DynamicQuantizeMatMul", domain=_DOMAIN)
def dynamic_quantize_matmul(
    a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None
) -> Any:
    """Round `a` by the range of its elements, and multiply the integers."""
    codes, scale, zero = dynamic_quantize_linear(a)
    return matmul_integer_to_float(codes, b, scale, b_scale, zero, b_zero, bias)


@operator("QGemm", domain=_DOMAIN)
def qgemm(
    a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any = None,
    y_scale: Any = None, y_zero: Any = None, *, alpha: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Any:  # fmt: skip
    """`alpha (a - a_zero) (b - b_zero) + c` in units of the scales; floats without `y_scale`."""
    left = rnp.transpose(a) if transA else a
    right = rnp.transpose(b) if transB else b
    total = matmul_integer(left, right, a_zero, b_zero)
    total = total if c is None else rnp.add(total, c)
    factor = rnp.multiply(rnp.multiply(np.float32(alpha), a_scale), b_scale)
    if y_scale is None:
        return rnp.multiply(rnp.astype(total, "f32"), factor)
    require_inputs("QGemm", y_zero_point=y_zero)
    scaled = rnp.multiply(rnp.astype(total, "f32"), rnp.divide(factor, y_scale))
    return _rounded(scaled, np.float32(1), y_zero, y_zero.dtype)


def _binary(function: Any) -> Any:
    def apply(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c_scale: Any,
        c_zero: Any = None,
    ) -> Any:  # fmt: skip
        left, right = (
            dequantize_linear(x, scale, zero)
            for x, scale, zero in ((a, a_scale, a_zero), (b, b_scale, b_zero))
        )
        return _rounded(function(left, right), c_scale, c_zero, a.dtype)

    return apply


operator("QLinearAdd", domain=_DOMAIN)(_binary(rnp.add))
operator("QLinearMul", domain=_DOMAIN)(_binary(rnp.multiply))


@operator("QLinearSigmoid", domain=_DOMAIN)
def qlinear_sigmoid(x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
    return _rounded(nn.sigmoid(dequantize_linear(x, x_scale, x_zero)), y_scale, y_zero, x.dtype)


@operator("QLinearLeakyRelu", domain=_DOMAIN)
def qlinear_leaky_relu(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, alpha: float = 0.01
) -> Any:
    real = dequantize_linear(x, x_scale, x_zero)
    return _rounded(nn.leaky_relu(real, alpha), y_scale, y_zero, x.dtype)


@operator("QLinearConcat", domain=_DOMAIN)
def qlinear_concat(y_scale: Any, y_zero: Any, *inputs: Any, axis: int) -> Any:
    """The inputs are arrays, each followed by its scale and zero point."""
    for at, each in enumerate(inputs):
        require_inputs("QLinearConcat", **{f"number {at + 3}": each})
    if len(inputs) % 3:
        raise FormatError(
            f"QLinearConcat has {len(inputs)} inputs after those of its result; each array has "
            "a scale and a zero point",
            remedy="the model is malformed: export it again",
        )
    real = [dequantize_linear(*inputs[at : at + 3]) for at in range(0, len(inputs), 3)]
    return quantize_linear(rnp.concatenate(real, axis), y_scale, y_zero)


@operator("QLinearWhere", domain=_DOMAIN)
def qlinear_where(
    condition: Any, x: Any, x_scale: Any, x_zero: Any, y: Any, y_scale: Any, y_zero: Any,
    z_scale: Any, z_zero: Any,
) -> Any:  # fmt: skip
    left, right = dequantize_linear(x, x_scale, x_zero), dequantize_linear(y, y_scale, y_zero)
    return quantize_linear(rnp.where(condition, left, right), z_scale, z_zero)


@operator("QLinearSoftmax", domain=_DOMAIN)
def qlinear_softmax(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any, *, opset: int, axis: int = -1
) -> Any:
    """Until opset 13, over all axes from `axis` on."""
    real, first = dequantize_linear(x, x_scale, x_zero), normalize_axis(axis, x.ndim)
    axes = (first,) if opset >= 13 else tuple(range(first, x.ndim))
    shifted = rnp.exp(rnp.subtract(real, rnp.max(real, axes, keepdims=True)))
    return quantize_linear(shifted / rnp.sum(shifted, axes, keepdims=True), y_scale, y_zero)


def _to_channels_first(x: Any) -> Any:
    return rnp.moveaxis(x, -1, 1)


def _to_channels_last(x: Any) -> Any:
    return rnp.moveaxis(x, 1, -1)


@operator("QLinearAveragePool", domain=_DOMAIN)
def qlinear_average_pool(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any = None, *, kernel_shape: Any,
    channels_last: int = 0, strides: Any = None, pads: Any = None, auto_pad: str = "NOTSET",
    ceil_mode: int = 0, count_include_pad: int = 0,
) -> Any:  # fmt: skip
    real = dequantize_linear(x, x_scale, x_zero)
    mean = average_pool(
        _to_channels_first(real) if channels_last else real, kernel_shape=kernel_shape,
        strides=strides, pads=pads, auto_pad=auto_pad, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad,
    )  # fmt: skip
    mean = _to_channels_last(mean) if channels_last else mean
    return _rounded(mean, y_scale, y_zero, x.dtype)


@operator("QLinearGlobalAveragePool", domain=_DOMAIN)
def qlinear_global_average_pool(
    x: Any, x_scale: Any, x_zero: Any, y_scale: Any, y_zero: Any, *, channels_last: int = 0
) -> Any:
    axes = tuple(range(1, x.ndim - 1)) if channels_last else tuple(range(2, x.ndim))
    mean = rnp.mean(dequantize_linear(x, x_scale, x_zero), axes, keepdims=True)
    return quantize_linear(mean, y_scale, y_zero)


@operator("QLinearConv", domain=_DOMAIN)
def contrib_qlinear_conv(
    x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any,
    y_zero: Any, bias: Any = None, *, channels_last: int = 0, group: int = 1, pads: Any = None,
    auto_pad: str = "NOTSET", strides: Any = None, dilations: Any = None, kernel_shape: Any = None,
) -> Any:  # fmt: skip
    y = qlinear_conv(
        _to_channels_first(x) if channels_last else x, x_scale, x_zero, w, w_scale, w_zero,
        y_scale, y_zero, bias, group=group, pads=pads, auto_pad=auto_pad, strides=strides,
        dilations=dilations, kernel_shape=kernel_shape,
    )  # fmt: skip
    return _to_channels_last(y) if channels_last else y


@operator("QAttention", domain=_DOMAIN)
def qattention(
    x: Any, weight: Any, bias: Any, x_scale: Any, w_scale: Any, mask: Any = None,
    x_zero: Any = None, w_zero: Any = None, past: Any = None, *, num_heads: int,
    unidirectional: int = 0, do_rotary: int = 0, scale: float | None = None,
    mask_filter_value: float = -10000.0, past_present_share_buffer: int = 0,
) -> Any:  # fmt: skip
    """`Attention` whose projection is a product of integers."""
    if do_rotary or past_present_share_buffer:
        raise UnsupportedError(
            "QAttention: do_rotary and past_present_share_buffer are not known here",
            remedy="export the model without them",
        )
    projected = matmul_integer_to_float(x, weight, x_scale, w_scale, x_zero, w_zero, bias)
    q, k, v = (split_heads(part, num_heads) for part in rnp.split(projected, 3, -1))
    return attended(
        q, k, v, mask=mask, past=past, scale=scale, is_causal=bool(unidirectional),
        hidden=mask_filter_value,
    )  # fmt: skip


@operator("QEmbedLayerNormalization", domain=_DOMAIN)
def qembed_layer_normalization(
    ids: Any, segments: Any, words: Any, places: Any, kinds: Any, gamma: Any, beta: Any,
    mask: Any, words_scale: Any, places_scale: Any, kinds_scale: Any, gamma_scale: Any,
    beta_scale: Any, words_zero: Any, places_zero: Any, kinds_zero: Any, gamma_zero: Any,
    beta_zero: Any, *, epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    kind = None if segments is None else dequantize_linear(kinds, kinds_scale, kinds_zero)
    return embedded(
        ids,
        segments,
        dequantize_linear(words, words_scale, words_zero),
        dequantize_linear(places, places_scale, places_zero),
        kind,
        dequantize_linear(gamma, gamma_scale, gamma_zero),
        dequantize_linear(beta, beta_scale, beta_zero),
        mask,
        epsilon=epsilon,
    )[:2]


def _unpacked(codes: Any, bits: int) -> Any:
    """Return the codes of every byte along the last axis, those in the lowest bits first."""
    if bits == 8:
        return codes
    if bits not in (2, 4):
        raise FormatError(
            f"codes of {bits} bits do not fill bytes", remedy="quantize to 2, 4 or 8 bits"
        )
    places = np.arange(0, 8, bits, dtype=np.uint8)
    parts = rnp.bitwise_and(
        rnp.right_shift(rnp.expand_dims(codes, -1), places), np.uint8((1 << bits) - 1)
    )
    return rnp.reshape(parts, (*codes.shape[:-1], codes.shape[-1] * len(places)))


def _first_of(x: Any, axis: int, length: int) -> Any:
    return emit(ops.narrow, x, axis=axis, start=0, length=length)


@operator("MatMulNBits", domain=_DOMAIN)
def matmul_nbits(
    a: Any, b: Any, scales: Any, zeros: Any = None, groups: Any = None, bias: Any = None, *,
    K: int, N: int, block_size: int, bits: int = 4, accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Any:  # fmt: skip
    """Weights `[N, blocks, bytes]` of `bits` each, a scale and a zero point for every block.

    `accuracy_level` 4 is leave to round `a` to eight bits.
    """
    if groups is not None or weight_prepacked:
        raise UnsupportedError(
            "MatMulNBits: g_idx and weight_prepacked are not known here",
            remedy="quantize the model without them",
        )
    if block_size < 1:
        raise FormatError(
            f"MatMulNBits has block_size {block_size}",
            remedy="give blocks of one element at least",
        )
    blocks = -(-K // block_size)
    codes = _first_of(rnp.reshape(_unpacked(b, bits), (N, blocks * block_size)), 1, K)
    scale = rnp.astype(rnp.transpose(rnp.reshape(scales, (N, blocks))), "f32")
    in_pairs, middle = bits == _NIBBLES and block_size % 2 == 0, 1 << (bits - 1)
    if not in_pairs:
        codes = rnp.astype(rnp.subtract(rnp.astype(codes, "i32"), middle), "int8")
    operands, scheme = [rnp.transpose(codes), scale], "uint4" if in_pairs else "int8"
    if zeros is not None:
        if zeros.dtype == np.uint8:
            packed = rnp.reshape(zeros, (N, -1))
            zeros = _first_of(_unpacked(packed, bits), 1, blocks)
        point = rnp.astype(rnp.reshape(zeros, (N, blocks)), "f32")
        point = point if in_pairs else point - np.float32(middle)
        operands, scheme = [*operands, rnp.transpose(point)], f"{scheme}a"
    multiply = (
        ops.int8_scaled_dequant_matmul
        if accuracy_level == _EIGHT_BITS
        else ops.scaled_dequant_matmul
    )
    y = emit(multiply, rnp.astype(a, "f32"), *operands, scheme=f"{scheme}/{block_size}")
    y = rnp.astype(y, a.dtype)
    return y if bias is None else rnp.add(y, bias)


@operator("GatherBlockQuantized", domain=_DOMAIN)
def gather_block_quantized(
    data: Any, indices: Any, scales: Any, zeros: Any = None, *, gather_axis: int = 0,
    quantize_axis: int = 1, block_size: int = 128, bits: int = 4,
) -> Any:  # fmt: skip
    """Rows of a table of codes, which are packed along its last axis, times their scales."""
    axis = normalize_axis(gather_axis, data.ndim)
    along = normalize_axis(quantize_axis, data.ndim)
    codes, scale = (rnp.take(each, indices, axis=axis) for each in (data, scales))
    point = None if zeros is None else rnp.take(zeros, indices, axis=axis)
    along = along if along < axis else along + np.ndim(indices) - 1
    is_packed = data.dtype == np.uint8
    codes = _unpacked(codes, bits) if is_packed else codes
    if point is not None and is_packed:
        point = _first_of(_unpacked(point, bits), point.ndim - 1, scale.shape[-1])
    wide = rnp.astype(codes, "i32")
    if point is not None:
        wide = wide - _each(rnp.astype(point, "i32"), along, block_size, wide.shape[along])
    elif is_packed:
        wide = wide - (1 << (bits - 1))
    factor = _each(scale, along, block_size, wide.shape[along])
    return rnp.multiply(rnp.astype(wide, scale.dtype), factor)


def _each(parameter: Any, axis: int, size: int, length: int) -> Any:
    """Repeat the scale or zero point of a block for its elements."""
    return _first_of(rnp.repeat(parameter, size, axis), axis, length)
