"""Quantization: rounding to integers with a scale, in training and in exported programs."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.torch.registry import rule
from rlx.tracing.apply import emit


def _along(parameter: Any, x: Any, axis: int | None) -> Any:
    """Return a scale or zero point of all elements, or of each place along `axis`, against `x`."""
    if isinstance(parameter, (int, float)):
        return parameter
    if axis is None:
        return rnp.reshape(parameter, ())
    return rnp.reshape(parameter, (-1, *(1,) * (x.ndim - 1 - axis % x.ndim)))


def _rounded(x: Any, scale: Any, zero_point: Any) -> Any:
    """Return integers as floats, not limited: to the nearest, ties to even."""
    inverse = 1 / scale if isinstance(scale, float) else rnp.reciprocal(scale)
    return emit(ops.round, x.astype("f32") * inverse) + _as_float(zero_point)


def _as_float(zero_point: Any) -> Any:
    return float(zero_point) if isinstance(zero_point, int) else zero_point.astype("f32")


def _faked(x: Any, scale: Any, zero_point: Any, least: int, most: int) -> tuple[Any, Any]:
    """Return rounded and scaled back elements, and which of them were within the limits."""
    whole = _rounded(x, scale, zero_point)
    back = (rnp.clip(whole, least, most) - _as_float(zero_point)) * scale
    return back, (whole >= least) & (whole <= most)


@rule("fake_quantize_per_tensor_affine_cachemask")
def fake_quantize(x: Any, scale: Any, zero_point: Any, least: int, most: int) -> tuple[Any, Any]:
    return _faked(x, scale, zero_point, least, most)


@rule("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")
def fake_quantize_by_tensors(
    x: Any, scale: Any, zero_point: Any, enabled: Any, least: int, most: int
) -> tuple[Any, Any]:
    factor, point = _along(scale, x, None), _along(zero_point, x, None)
    made, is_within = _faked(x, factor, point, least, most)
    is_on = rnp.reshape(enabled, ()) != 0
    return rnp.where(is_on, made, x), rnp.where(is_on, is_within, True)


@rule("fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels(
    x: Any, scale: Any, zero_point: Any, axis: int, least: int, most: int
) -> tuple[Any, Any]:
    return _faked(x, _along(scale, x, axis), _along(zero_point, x, axis), least, most)


@rule("_fake_quantize_learnable_per_tensor_affine")
def fake_quantize_learnable(
    x: Any, scale: Any, zero_point: Any, least: int, most: int, grad_factor: float = 1.0
) -> Any:
    del grad_factor
    return _faked(x, *_learned(x, scale, zero_point, None, least, most), least, most)[0]


@rule("_fake_quantize_learnable_per_channel_affine")
def fake_quantize_learnable_channels(
    x: Any, scale: Any, zero_point: Any, axis: int, least: int, most: int, grad_factor: float = 1.0
) -> Any:
    del grad_factor
    return _faked(x, *_learned(x, scale, zero_point, axis, least, most), least, most)[0]


@rule("_fake_quantize_learnable_per_tensor_affine_backward")
def fake_quantize_learnable_backward(
    d: Any, x: Any, scale: Any, zero_point: Any, least: int, most: int, grad_factor: float = 1.0
) -> Any:
    return _learned_slopes(d, x, scale, zero_point, None, least, most, grad_factor)


@rule("_fake_quantize_learnable_per_channel_affine_backward")
def fake_quantize_learnable_channels_backward(
    d: Any, x: Any, scale: Any, zero_point: Any, axis: int, least: int, most: int,
    grad_factor: float = 1.0,
) -> Any:  # fmt: skip
    return _learned_slopes(d, x, scale, zero_point, axis, least, most, grad_factor)


def _learned(
    x: Any, scale: Any, zero_point: Any, axis: int | None, least: int, most: int
) -> tuple[Any, Any]:
    """Return a trained scale and zero point, which is rounded and limited, against `x`."""
    whole = rnp.clip(emit(ops.round, _along(zero_point, x, axis).astype("f32")), least, most)
    return _along(scale, x, axis), whole


def _learned_slopes(
    d: Any, x: Any, scale: Any, zero_point: Any, axis: int | None, least: int, most: int,
    grad_factor: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Return the gradients by x, scale and zero point.

    Esser et al., Learned Step Size Quantization, 2020; Bhalgat et al., LSQ+, 2020. The zero point
    is rounded as in the forward pass; PyTorch's own gradient by one tensor rounds ties and
    negative ones otherwise.
    """
    factor, point = _learned(x, scale, zero_point, axis, least, most)
    whole = _rounded(x, factor, point)
    is_within = (whole >= least) & (whole <= most)
    limited = rnp.clip(whole, least, most) - point
    by_scale = rnp.where(is_within, limited - x / factor, limited) * d * grad_factor
    by_point = rnp.where(is_within, 0.0, -factor) * d * grad_factor
    others = None if axis is None else tuple(a for a in range(x.ndim) if a != axis % x.ndim)
    of_scale, of_point = (
        rnp.reshape(rnp.sum(by, others), scale.shape) for by in (by_scale, by_point)
    )
    return rnp.where(is_within, d, 0.0), of_scale, of_point


@rule("quantized_decomposed.quantize_per_tensor")
def quantize(x: Any, scale: Any, zero_point: Any, least: Any, most: Any, dtype: Any) -> Any:
    return _stored(x, scale, zero_point, None, least, most)


@rule("quantized_decomposed.quantize_per_channel")
def quantize_channels(
    x: Any, scales: Any, zero_points: Any, axis: int, least: int, most: int, dtype: Any
) -> Any:
    return _stored(x, scales, zero_points, axis, least, most)


def _stored(x: Any, scale: Any, zero_point: Any, axis: int | None, least: Any, most: Any) -> Any:
    """Return integers as floats; they are exact in the dtype of the result."""
    return rnp.clip(_rounded(x, _along(scale, x, axis), _along(zero_point, x, axis)), least, most)


@rule("quantized_decomposed.dequantize_per_tensor")
def dequantize(
    x: Any, scale: Any, zero_point: Any, least: Any, most: Any, dtype: Any, out_dtype: Any = None
) -> Any:
    return _scaled(x, scale, zero_point, None)


@rule("quantized_decomposed.dequantize_per_channel")
def dequantize_channels(
    x: Any, scales: Any, zero_points: Any, axis: int, least: int, most: int, dtype: Any,
    out_dtype: Any = None,
) -> Any:  # fmt: skip
    return _scaled(x, scales, zero_points, axis)


def _scaled(x: Any, scale: Any, zero_point: Any, axis: int | None) -> Any:
    whole = x.astype("i32")
    if zero_point is not None and not (isinstance(zero_point, int) and zero_point == 0):
        point = _along(zero_point, x, axis)
        whole = whole - (point if isinstance(point, int) else point.astype("i32"))
    return whole.astype("f32") * _along(scale, x, axis)
