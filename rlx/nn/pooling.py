"""Pooling over 1, 2 or 3 spatial axes; `layout` says where the channels are."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.ops.conv_geometry import same_padding
from rlx.nn.spatial import Padding, PerAxis, channel_axis, each, pads, spatial_axes
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, function, inexact


@function
def max_pool(
    x: Any,
    window_shape: PerAxis,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    layout: str = "NCHW",
) -> Array:
    """Largest element of each window; padding never wins. Windows do not overlap by default.

    The gradient goes to the first of equal elements, as in JAX and PyTorch.
    """
    geometry = _geometry(x, window_shape, strides, padding, dilation, layout)
    return emit(ops.max_pool, as_tracer(x), **geometry, ceil_mode=ceil_mode)


@function
def min_pool(
    x: Any,
    window_shape: PerAxis,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    layout: str = "NCHW",
) -> Array:
    """Smallest element of each window, as `max_pool` has the largest."""
    geometry = _geometry(x, window_shape, strides, padding, dilation, layout)
    return emit(ops.min_pool, as_tracer(x), **geometry, ceil_mode=ceil_mode)


@function
def avg_pool(
    x: Any,
    window_shape: PerAxis,
    strides: PerAxis | None = None,
    padding: Padding = "VALID",
    *,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NCHW",
) -> Array:
    """Mean of each window, over its padding too unless `count_include_pad` is False."""
    (x,) = inexact(x)
    geometry = _geometry(x, window_shape, strides, padding, dilation, layout)
    divisor = "padded" if count_include_pad else "inside"
    return emit(ops.mean_pool, x, **geometry, ceil_mode=ceil_mode, divisor=divisor)


@function
def global_max_pool(x: Any, *, layout: str = "NCHW") -> Array:
    """Largest element of each channel, with spatial axes of extent 1."""
    return rnp.max(x, axis=spatial_axes(as_tracer(x).ndim, layout), keepdims=True)


@function
def global_avg_pool(x: Any, *, layout: str = "NCHW") -> Array:
    """Mean of each channel, with spatial axes of extent 1."""
    return rnp.mean(x, axis=spatial_axes(as_tracer(x).ndim, layout), keepdims=True)


def _geometry(
    x: Any,
    window_shape: PerAxis,
    strides: PerAxis | None,
    padding: Padding,
    dilation: PerAxis,
    layout: str,
) -> dict[str, Any]:
    """Return the attributes of a pooling op."""
    shape = as_tracer(x).shape
    axes = spatial_axes(len(shape), layout)
    window = each("window_shape", window_shape, len(axes))
    steps = window if strides is None else each("strides", strides, len(axes))
    spaced = each("dilation", dilation, len(axes))
    sides = zip((shape[axis] for axis in axes), window, steps, spaced, strict=True)
    return {
        "kernel_size": window,
        "stride": steps,
        "dilation": spaced,
        "padding": pads(padding, len(axes), lambda: [same_padding(*side) for side in sides]),
        "inner": 1 if channel_axis(layout) == -1 else 0,
    }
