"""Convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.onnx.operators.sampling import bilinear
from rlx.onnx.operators.shape import integers
from rlx.onnx.operators.windows import Window, window_of
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import emit


def convolved(x: Any, w: Any, window: Window, group: int) -> Any:
    """Return the convolution; `x` is padded with zeros."""
    return emit(
        ops.conv, x, w, stride=window.stride, padding=window.padding, dilation=window.dilation,
        groups=group,
    )  # fmt: skip


def with_bias(y: Any, bias: Any) -> Any:
    if bias is None:
        return y
    return emit(ops.add, y, rnp.reshape(bias, (1, -1, *(1,) * (y.ndim - 2))))


@operator("Conv", sums_products=True)
def conv(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    group: int = 1,
    pads: Any = None,
    auto_pad: str = "NOTSET",
    strides: Any = None,
    dilations: Any = None,
    kernel_shape: Any = None,
) -> Any:
    del kernel_shape  # the weights have it
    window = window_of(
        x.shape[2:], w.shape[2:], strides=strides, pads=pads, dilations=dilations,
        auto_pad=auto_pad,
    )  # fmt: skip
    return with_bias(convolved(x, w, window, group), bias)


@operator("ConvTranspose", sums_products=True)
def conv_transpose(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    group: int = 1,
    pads: Any = None,
    auto_pad: str = "NOTSET",
    strides: Any = None,
    dilations: Any = None,
    kernel_shape: Any = None,
    output_padding: Any = None,
    output_shape: Any = None,
) -> Any:
    del kernel_shape
    window = window_of(
        x.shape[2:], w.shape[2:], strides=strides, pads=pads, dilations=dilations,
        auto_pad="NOTSET",
    )  # fmt: skip
    extra = tuple(output_padding or (0,) * (x.ndim - 2))
    padding = window.padding
    if output_shape is not None or auto_pad.startswith("SAME"):
        padding = _fitting(x.shape[2:], window, extra, output_shape, auto_pad)
    y = emit(
        ops.conv_transpose, x, w, stride=window.stride, padding=padding,
        output_padding=extra, dilation=window.dilation, groups=group,
    )  # fmt: skip
    return with_bias(y, bias)


def _fitting(
    spatial: Any, window: Window, extra: tuple[int, ...], output_shape: Any, auto_pad: str
) -> tuple[tuple[int, int], ...]:
    """Return the padding with which the result has `output_shape`, or `stride` times `spatial`."""
    wanted = output_shape or [e * s for e, s in zip(spatial, window.stride, strict=True)]
    wanted = wanted[-len(window.taps) :]
    found = []
    for axis, size in enumerate(wanted):
        reach = (window.taps[axis] - 1) * window.dilation[axis] + 1
        full = (spatial[axis] - 1) * window.stride[axis] + extra[axis] + reach
        total = full - size
        less, missing = max(total, 0) // 2, min(total, 0)
        more = max(total, 0) - less
        low, high = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
        found.append((low, high + missing))
    return tuple(found)


@operator("Col2Im")
def col2im(
    x: Any,
    image_shape: Static,
    block_shape: Static,
    *,
    dilations: Any = None,
    pads: Any = None,
    strides: Any = None,
) -> Any:
    spatial, taps = integers(image_shape), integers(block_shape)
    window = window_of(
        spatial, taps, strides=strides, pads=pads, dilations=dilations, auto_pad="NOTSET"
    )
    n, columns, _ = x.shape
    shape = (n, columns // int(np.prod(taps)), *spatial)
    rows = rnp.reshape(rnp.transpose(x, (0, 2, 1)), (-1, columns))
    return emit(
        ops.col2im, rows, shape=shape, kernel_size=taps, stride=window.stride,
        padding=window.padding, dilation=window.dilation,
    )  # fmt: skip


@operator("DeformConv")
def deform_conv(
    x: Any,
    w: Any,
    offset: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    group: int = 1,
    offset_group: int = 1,
    pads: Any = None,
    strides: Any = None,
    dilations: Any = None,
    kernel_shape: Any = None,
) -> Any:
    """A convolution of which every tap reads between the elements, moved by an offset."""
    del kernel_shape
    n, channels, height, width = x.shape
    _, _, rows, columns = offset.shape
    window = window_of(
        (height, width), w.shape[2:], strides=strides, pads=pads, dilations=dilations,
        auto_pad="NOTSET",
    )  # fmt: skip
    taps = int(np.prod(w.shape[2:]))
    moved = rnp.reshape(offset, (n, offset_group, taps, 2, rows, columns))
    top, left = (_tap_places(window, axis, count) for axis, count in ((0, rows), (1, columns)))
    tap_rows, tap_columns = np.unravel_index(np.arange(taps), w.shape[2:])
    y = rnp.add(moved[:, :, :, 0], top[tap_rows][:, :, None].astype(x.dtype))
    z = rnp.add(moved[:, :, :, 1], left[tap_columns][:, None, :].astype(x.dtype))
    grouped = rnp.reshape(x, (n * offset_group, channels // offset_group, height, width))
    places = (n * offset_group, taps * rows, columns)
    taken = bilinear(grouped, rnp.reshape(y, places), rnp.reshape(z, places))
    shape = (n, offset_group, channels // offset_group, taps, rows, columns)
    taken = rnp.reshape(taken, shape)
    if mask is not None:
        taken = taken * rnp.reshape(mask, (n, offset_group, 1, taps, rows, columns))
    per_group = rnp.reshape(taken, (n, group, channels // group * taps, rows * columns))
    kernels = rnp.reshape(w, (group, w.shape[0] // group, -1))
    y = rnp.reshape(rnp.matmul(kernels, per_group), (n, w.shape[0], rows, columns))
    return with_bias(y, bias)


def _tap_places(window: Window, axis: int, count: int) -> Any:
    """Return the position of each tap of each window along an axis, as [taps, count]."""
    starts = np.arange(count) * window.stride[axis] - window.padding[axis][0]
    return np.arange(window.taps[axis])[:, None] * window.dilation[axis] + starts
