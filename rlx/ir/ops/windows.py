"""`im2col` and `col2im`: the windows of an image as rows of a matrix, and back."""

from __future__ import annotations

import functools
import itertools
import math
import operator

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Numbers,
    Pads,
    geometry,
    require_length,
    result_extents,
    spread,
    static,
)
from rlx.ir.ops.conv_padding import padded, spread_axis
from rlx.ir.ops.shape import concat, narrow, pad, reshape, transpose
from rlx.ir.ops.shape import slice as slice_op
from rlx.ir.shape import Extent, Shape, format_shape, product

__all__ = ["col2im", "im2col"]

_FAMILY = "conv"


@composite(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR)
def im2col(
    x: Value,
    *,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Pads = (),
    dilation: Numbers = (),
) -> Value:
    """Copy every window of `x` `[N, C, *spatial]` to a row of `[N * positions, C * taps]`."""
    return gathered_windows(x, kernel_size, geometry(len(kernel_size), stride, padding, dilation))


@composite(_FAMILY, Trait.ALL_ELEMENTS, Trait.LINEAR)
def col2im(
    columns: Value,
    *,
    shape: Numbers,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Pads = (),
    dilation: Numbers = (),
) -> Value:
    """Add every row to its window of an image of `shape`: the transpose of `im2col`."""
    sliding = geometry(len(kernel_size), stride, padding, dilation)
    return scattered_windows(columns, shape, kernel_size, sliding)


def gathered_windows(x: Value, taps: Numbers, sliding: Geometry) -> Value:
    """Return a row per window: one strided slice of the padded image per tap, side by side."""
    if x.rank != len(taps) + 2:
        raise ShapeError(
            f"x has shape {x.type.describe_shape()} and the window {len(taps)} axes; x must be "
            "[N, C, *spatial]",
            remedy="give a number of taps per spatial axis",
        )
    images, channels, *spatial = x.shape
    positions = result_extents(tuple(spatial), taps, sliding)
    image = padded(x, sliding)
    parts = [
        reshape(_tap(image, at, positions, sliding), shape=(images, channels, 1, *positions))
        for at in itertools.product(*map(range, taps))
    ]
    windows = concat(*parts, axis=2)
    order = (0, *range(3, windows.rank), 1, 2)
    rows, columns = images * product(positions), channels * math.prod(taps)
    return reshape(transpose(windows, perm=order), shape=(rows, columns))


def scattered_windows(columns: Value, shape: Numbers, taps: Numbers, sliding: Geometry) -> Value:
    """Return the sum of every tap's elements, spread to where they were read."""
    require_length("shape", shape[2:], len(taps))
    images, channels, *spatial = shape
    positions = result_extents(tuple(spatial), taps, sliding)
    count = math.prod(taps)
    expected = (images * product(positions), channels * count)
    if columns.shape != expected:
        raise ShapeError(
            f"columns have shape {columns.type.describe_shape()}; windows of an image of shape "
            f"{format_shape(shape)} are {format_shape(expected)}",
            remedy="give the shape and geometry that im2col was given",
        )
    apart = reshape(columns, shape=(images, *positions, channels, count))
    order = (apart.rank - 1, 0, apart.rank - 2, *range(1, apart.rank - 2))
    windows = transpose(apart, perm=order)
    parts = []
    for number, at in enumerate(itertools.product(*map(range, taps))):
        part = narrow(windows, axis=0, start=number, length=1)
        part = reshape(part, shape=(images, channels, *positions))
        parts.append(_spread_tap(part, at, tuple(spatial), sliding))
    return functools.reduce(operator.add, parts)


def _tap(image: Value, at: Numbers, positions: Shape, sliding: Geometry) -> Value:
    """Return what one tap reads at every position."""
    start = [number * axis.dilation for number, axis in zip(at, sliding, strict=True)]
    step = [axis.stride for axis in sliding]
    stop = [
        first + spread(count, by) for first, count, by in zip(start, positions, step, strict=True)
    ]
    images, channels = image.shape[:2]
    result: Value = slice_op(
        image,
        start=(0, 0, *start),
        stop=(images, channels, *stop),
        step=(1, 1, *step),
    )
    return result


def _spread_tap(part: Value, at: Numbers, spatial: Shape, sliding: Geometry) -> Value:
    """Put a tap's elements where `_tap` read them, in an image of zeros without padding."""
    axes = zip(at, spatial, sliding, strict=True)
    for number, (tap, extent, axis) in enumerate(axes, start=2):
        part = spread_axis(part, number, axis.stride)
        first = tap * axis.dilation - axis.low
        part = _placed(part, number, first, extent)
    return part


def _placed(x: Value, axis: int, first: int, extent: Extent) -> Value:
    """Return an axis of `extent` zeros with `x` laid over it from `first` on, cut to fit."""
    length = static(x.shape[axis])
    whole = static(extent)
    start, stop = max(first, 0), min(first + length, whole)
    if start >= stop:
        empty = narrow(x, axis=axis, start=0, length=0)
        start = stop = 0
    else:
        empty = narrow(x, axis=axis, start=start - first, length=stop - start)
    low = tuple(start if number == axis else 0 for number in range(x.rank))
    high = tuple(whole - stop if number == axis else 0 for number in range(x.rank))
    return pad(empty, low=low, high=high)
