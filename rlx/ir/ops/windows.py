"""`im2col` and `col2im`: the windows of an image as rows of a matrix, and back."""

from __future__ import annotations

import functools
import itertools
import math
import operator

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.dtype import DType
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Numbers,
    Pads,
    WindowDimension,
    geometry,
    require_length,
    result_extents,
    spread,
    static,
)
from rlx.ir.ops.conv_padding import padded, spread_axis
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.shape import concat, narrow, pad, reshape, transpose
from rlx.ir.ops.shape import slice as slice_op
from rlx.ir.shape import Extent, Shape, format_shape, product

__all__ = ["col2im", "im2col"]

_FAMILY = "conv"
_MOST_SLICES = 4
"""Taps along an axis that are read by a slice each."""


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
    """Return a row per window of the padded image.

    Axes with few taps are read by a strided slice for each combination of their taps; the others
    are split into positions and taps one by one.
    """
    if x.rank != len(taps) + 2:
        raise ShapeError(
            f"x has shape {x.type.describe_shape()} and the window {len(taps)} axes; x must be "
            "[N, C, *spatial]",
            remedy="give a number of taps per spatial axis",
        )
    images, channels, *spatial = x.shape
    positions = result_extents(tuple(spatial), taps, sliding)
    axes = range(len(taps))
    few = [axis for axis in axes if not _is_split(positions[axis], taps[axis], sliding[axis])]
    split = [axis for axis in axes if axis not in few]
    image = _slices(padded(x, sliding), few, positions, taps, sliding)
    for axis in reversed(split):
        image = _windows_along(image, 2 + axis, positions[axis], taps[axis], sliding[axis])
    places = [2 + axis + sum(each < axis for each in split) for axis in axes]
    last = [image.rank - len(few) + number for number in range(len(few))]
    of_taps = [places[axis] + 1 if axis in split else last[few.index(axis)] for axis in axes]
    order = (0, *places, 1, *of_taps)
    rows, columns = images * product(positions), channels * math.prod(taps)
    return reshape(transpose(image, perm=order), shape=(rows, columns))


def _is_split(positions: Extent, taps: int, sliding: WindowDimension) -> bool:
    is_long = taps > _MOST_SLICES or _are_side_by_side(taps, sliding)
    return is_long and isinstance(positions, int)


def _slices(
    image: Value, axes: list[int], positions: Shape, taps: Numbers, sliding: Geometry
) -> Value:
    """Return positions in place of some axes, and the taps along these as the last axes."""
    if not axes:
        return image
    parts = []
    for at in itertools.product(*(range(taps[axis]) for axis in axes)):
        start, stop, step = [0] * image.rank, list(image.shape), [1] * image.rank
        for axis, tap in zip(axes, at, strict=True):
            first, stride = tap * sliding[axis].dilation, sliding[axis].stride
            end = first + spread(positions[axis], stride)
            start[2 + axis], stop[2 + axis], step[2 + axis] = first, end, stride
        part = slice_op(image, start=tuple(start), stop=tuple(stop), step=tuple(step))
        parts.append(reshape(part, shape=(*part.shape, 1)))
    windows = concat(*parts, axis=-1)
    return reshape(windows, shape=(*windows.shape[:-1], *(taps[axis] for axis in axes)))


def _windows_along(
    x: Value, axis: int, positions: Extent, taps: int, sliding: WindowDimension
) -> Value:
    """Return `x` with positions and taps in place of one axis."""
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if _are_side_by_side(taps, sliding):
        inside = narrow(x, axis=axis, start=0, length=positions * taps)
        return reshape(inside, shape=(*before, positions, taps, *after))
    index = sliding.stride * np.arange(static(positions))[:, None]
    index = index + sliding.dilation * np.arange(taps)
    return gather(x, x.graph.constant(index, DType.I64), axis=axis)


def scattered_windows(columns: Value, shape: Numbers, taps: Numbers, sliding: Geometry) -> Value:
    """Return the sum of every tap's elements, spread to where they were read."""
    require_length("shape", shape[2:], len(taps))
    images, channels, *spatial = shape
    positions = result_extents(tuple(spatial), taps, sliding)
    expected = (images * product(positions), channels * math.prod(taps))
    if columns.shape != expected:
        raise ShapeError(
            f"columns have shape {columns.type.describe_shape()}; windows of an image of shape "
            f"{format_shape(shape)} are {format_shape(expected)}",
            remedy="give the shape and geometry that im2col was given",
        )
    axes = len(taps)
    apart = reshape(columns, shape=(images, *positions, channels, *taps))
    pairs = ((1 + number, 2 + axes + number) for number in range(axes))
    image = transpose(apart, perm=(0, 1 + axes, *itertools.chain.from_iterable(pairs)))
    for number in reversed(range(axes)):
        image = _scattered_along(image, 2 + 2 * number, spatial[number], sliding[number])
    return image


def _scattered_along(x: Value, axis: int, extent: Extent, sliding: WindowDimension) -> Value:
    """Return `x` with sums of every tap's elements in place of its axes of positions and taps."""
    positions, taps = map(static, x.shape[axis : axis + 2])
    before, after = x.shape[:axis], x.shape[axis + 2 :]
    if _are_side_by_side(taps, sliding):
        whole = reshape(x, shape=(*before, positions * taps, *after))
        return _placed(whole, axis, -sliding.low, extent)
    parts = []
    for tap in range(taps):
        part = narrow(x, axis=axis + 1, start=tap, length=1)
        part = reshape(part, shape=(*before, positions, *after))
        part = spread_axis(part, axis, sliding.stride)
        parts.append(_placed(part, axis, tap * sliding.dilation - sliding.low, extent))
    return functools.reduce(operator.add, parts)


def _are_side_by_side(taps: int, sliding: WindowDimension) -> bool:
    return sliding.dilation == 1 and sliding.stride == taps


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
