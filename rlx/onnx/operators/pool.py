"""Pooling: windows and whole images."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.op import OpDef
from rlx.onnx.operators.shape import integers, positions
from rlx.onnx.operators.windows import Window, window_of
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import emit


def _window(
    x: Any, kernel_shape: Any, strides: Any, pads: Any, dilations: Any, auto_pad: str,
    ceil_mode: int,
) -> tuple[Window, dict[str, Any]]:  # fmt: skip
    """Return the geometry, and as attributes of our pooling ops."""
    window = window_of(
        x.shape[2:], kernel_shape, strides=strides, pads=pads, dilations=dilations,
        auto_pad=auto_pad,
    )  # fmt: skip
    return window, {
        "kernel_size": window.taps, "stride": window.stride, "padding": window.padding,
        "dilation": window.dilation, "ceil_mode": bool(ceil_mode) and auto_pad == "NOTSET",
    }  # fmt: skip


@operator("MaxPool")
def max_pool(
    x: Any,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    storage_order: int = 0,
    node: Any,
) -> Any:
    _, geometry = _window(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    y = emit(ops.max_pool, x, **geometry)
    if not node.has_output(1):
        return y
    spatial = tuple(x.shape[2:])
    count = int(np.prod(spatial))
    order = np.arange(count).reshape(spatial, order="F" if storage_order else "C")
    images = positions(x.shape[0] * x.shape[1]).reshape((*x.shape[:2], *(1,) * len(spatial)))
    places = rnp.broadcast_to(rnp.add(rnp.multiply(images, count), order), x.shape)
    return y, emit(ops.max_pool_take, x, places, **geometry)


@operator("AveragePool")
def average_pool(
    x: Any,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
) -> Any:
    _, geometry = _window(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    divisor = "padded" if count_include_pad else "inside"
    return emit(ops.mean_pool, x, divisor=divisor, **geometry)


@operator("LpPool")
def lp_pool(
    x: Any,
    *,
    kernel_shape: Any,
    p: float = 2,
    strides: Any = None,
    pads: Any = None,
    dilations: Any = None,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
) -> Any:
    _, geometry = _window(x, kernel_shape, strides, pads, dilations, auto_pad, ceil_mode)
    total = emit(ops.sum_pool, rnp.power(rnp.abs(x), p), **geometry)
    return rnp.astype(rnp.power(total, 1 / p), x.dtype)


def _global(definition: OpDef) -> Any:
    def apply(x: Any) -> Any:
        return emit(definition, x, axes=tuple(range(2, x.ndim)), keepdims=True)

    return apply


operator("GlobalAveragePool")(_global(ops.reduce_mean))
operator("GlobalMaxPool")(_global(ops.reduce_max))


@operator("GlobalLpPool")
def global_lp_pool(x: Any, *, p: float = 2) -> Any:
    total = emit(
        ops.reduce_sum, rnp.power(rnp.abs(x), p), axes=tuple(range(2, x.ndim)), keepdims=True
    )
    return rnp.power(total, 1 / p)


@operator("MaxUnpool")
def max_unpool(
    x: Any,
    places: Any,
    output_shape: Static = None,
    *,
    kernel_shape: Any,
    strides: Any = None,
    pads: Any = None,
) -> Any:
    """Put every maximum where it was in the image, with zeros around it."""
    count = len(kernel_shape)
    stride, pad = strides or (1,) * count, pads or (0,) * (2 * count)
    spatial = tuple(
        (x.shape[2 + a] - 1) * stride[a] - pad[a] - pad[a + count] + kernel_shape[a]
        for a in range(count)
    )
    inner = (*x.shape[:2], *spatial)
    outer = inner if output_shape is None else integers(output_shape)
    flat = rnp.zeros(int(np.prod(inner)), x.dtype)
    filled = rnp.asarray(flat).at[rnp.ravel(places)].set(rnp.ravel(x))
    image = rnp.reshape(filled, inner)
    widths = tuple((0, after - before) for before, after in zip(inner, outer, strict=True))
    return image if outer == inner else rnp.pad(image, widths)


@operator("MaxRoiPool")
def max_roi_pool(x: Any, rois: Any, *, pooled_shape: Any, spatial_scale: float = 1.0) -> Any:
    """The maxima of the parts of boxes (image, left, top, right, bottom), 0 where one is empty."""
    images = rnp.take(x, rnp.astype(rois[:, 0], "i64"), axis=0)
    corners = rnp.astype(rnp.floor(rois[:, 1:] * spatial_scale + 0.5), "i64")
    tall = _parts(corners[:, 1], corners[:, 3], pooled_shape[0], x.shape[2])
    wide = _parts(corners[:, 0], corners[:, 2], pooled_shape[1], x.shape[3])
    least = np.asarray(-np.inf, x.dtype)
    rows = rnp.where(tall[:, None, :, :, None], images[:, :, None], least)
    best = rnp.where(wide[:, None, None], rnp.max(rows, 3)[:, :, :, None], least)
    y = rnp.max(best, -1)
    return rnp.where(rnp.equal(y, least), np.zeros((), x.dtype), y)


def _parts(first: Any, last: Any, count: int, extent: int) -> Any:
    """Return which elements of an axis are in each part of each box, `[boxes, parts, extent]`."""
    size = rnp.maximum(last - first + 1, 1)[:, None]
    number = np.arange(count)
    begin = first[:, None] + rnp.floor_divide(size * number, count)
    end = first[:, None] - rnp.floor_divide(-size * (number + 1), count)
    place = positions(extent)
    return rnp.logical_and(
        rnp.greater_equal(place, begin[:, :, None]), rnp.less(place, end[:, :, None])
    )
