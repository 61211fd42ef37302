"""The transpose of a convolution and its gradients: convolutions by turned kernels."""

from __future__ import annotations

from dataclasses import replace

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.conv import conv, spatial_axes
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Numbers,
    Pads,
    WindowDimension,
    attributes_of,
    dilated_size,
    geometry,
    per_axis,
    require_length,
    spread,
    static,
)
from rlx.ir.ops.shape import expand, reshape, reverse, transpose
from rlx.ir.shape import Shape, divide

__all__ = ["conv_backward_input", "conv_backward_weight", "conv_transpose"]

_FAMILY = "conv"


@composite(_FAMILY, Trait.CONTRACTION, Trait.BILINEAR)
def conv_transpose(
    x: Value,
    w: Value,
    *,
    stride: Numbers = (),
    padding: Pads = (),
    output_padding: Numbers = (),
    dilation: Numbers = (),
    groups: int = 1,
) -> Value:
    """Spread every element of `x` over its window: the transpose of `conv` by its input.

    `x` `[N, C_in, *spatial]`, `w` `[C_in, C_out / groups, *taps]`. An axis of L elements becomes
    `(L - 1) * stride - low - high + dilation * (taps - 1) + output_padding + 1`.
    """
    axes = spatial_axes(x.type, w.type)
    sliding = geometry(axes, stride, padding, dilation)
    extra = per_axis("output_padding", output_padding, axes, default=0, least=0)
    if any(more >= axis.stride for more, axis in zip(extra, sliding, strict=True)):
        raise ShapeError(
            f"output_padding {extra} must be less than stride {tuple(a.stride for a in sliding)}",
            remedy="a longer result is a larger input, or padding of the result",
        )
    return transposed(x, w, sliding, extra, groups)


@composite(_FAMILY, Trait.CONTRACTION, Trait.BILINEAR)
def conv_backward_input(
    dy: Value,
    w: Value,
    *,
    spatial: Numbers,
    stride: Numbers = (),
    padding: Pads = (),
    dilation: Numbers = (),
    groups: int = 1,
) -> Value:
    """Gradient of `conv` by its input, whose spatial extents are `spatial`.

    The extents of `dy` are not compared with those of the convolution: windows that reach beyond
    the padding, as pooling in ceil mode has them, are cut off.
    """
    sliding = geometry(spatial_axes(dy.type, w.type), stride, padding, dilation)
    return by_input(dy, w, spatial, sliding, groups)


@composite(_FAMILY, Trait.CONTRACTION, Trait.BILINEAR)
def conv_backward_weight(
    x: Value,
    dy: Value,
    *,
    kernel_size: Numbers,
    stride: Numbers = (),
    padding: Pads = (),
    dilation: Numbers = (),
    groups: int = 1,
) -> Value:
    """Gradient of `conv` by its weights, which have `kernel_size` taps."""
    sliding = geometry(spatial_axes(x.type, dy.type), stride, padding, dilation)
    return by_weight(x, dy, kernel_size, sliding, groups)


def transposed(x: Value, w: Value, sliding: Geometry, extra: Numbers, groups: int) -> Value:
    """Return the transposed convolution, its result longer by `extra`."""
    turned = []
    for axis, taps, more in zip(sliding, w.shape[2:], extra, strict=True):
        inner = static(dilated_size(taps, axis)) - 1
        turned.append(_spreading(axis, low=inner - axis.low, high=inner - axis.high + more))
    return _convolve(x, turned_kernel(w, groups), tuple(turned), groups)


def by_input(dy: Value, w: Value, spatial: Shape, sliding: Geometry, groups: int) -> Value:
    """Return the gradient of a convolution by its input: a convolution by the turned kernel.

    What was the stride spreads the gradient's elements, and what spread the input's is the stride.
    """
    require_length("spatial", spatial, len(sliding))
    if 0 in spatial:  # windows of padding alone
        shape = (dy.shape[0], groups * w.shape[1], *spatial)
        return expand(dy.graph.constant(0, dy.dtype), shape=shape)
    turned = []
    extents = zip(sliding, spatial, w.shape[2:], dy.shape[2:], strict=True)
    for axis, extent, taps, positions in extents:
        window = static(dilated_size(taps, axis))
        low = window - 1 - axis.low
        own, seen = spread(extent, axis.input_dilation), spread(positions, axis.stride)
        high = static(own + (window - 1) - seen - low)
        turned.append(_spreading(axis, low=low, high=high))
    return _convolve(dy, turned_kernel(w, groups), tuple(turned), groups)


def by_weight(x: Value, dy: Value, taps: Shape, sliding: Geometry, groups: int) -> Value:
    """Return the gradient of a convolution by its weights: batch and channels change places.

    The gradient is the window: its elements are a stride apart, and taps are its positions.
    """
    require_length("kernel_size", taps, len(sliding))
    turned = []
    extents = zip(sliding, x.shape[2:], dy.shape[2:], taps, strict=True)
    for axis, extent, positions, count in extents:
        own, seen = spread(extent, axis.input_dilation), spread(positions, axis.stride)
        high = static(seen - own + dilated_size(count, axis) - 1 - axis.low)
        turned.append(replace(axis, stride=axis.dilation, dilation=axis.stride, high=high))
    result = _convolve(_batch_as_channels(x, groups), swapped(dy), tuple(turned), groups)
    return swapped(result)


def turned_kernel(w: Value, groups: int) -> Value:
    """Swap the channels of each group and reverse the taps: `[C_in, C_out / groups, *taps]`."""
    outputs, inputs, *taps = w.shape
    flipped = reverse(w, axes=tuple(range(2, w.rank)))
    if groups == 1:
        return swapped(flipped)
    apart = reshape(flipped, shape=(groups, divide(outputs, groups), inputs, *taps))
    crossed = swapped(apart, at=1)
    return reshape(crossed, shape=(inputs * groups, divide(outputs, groups), *taps))


def swapped(x: Value, at: int = 0) -> Value:
    """Transpose axis `at` and the next."""
    order = (*range(at), at + 1, at, *range(at + 2, x.rank))
    return transpose(x, perm=order)


def _spreading(axis: WindowDimension, *, low: int, high: int) -> WindowDimension:
    """Return the sliding of the transpose: stride and spreading of the input change places."""
    return WindowDimension(axis.input_dilation, low, high, axis.dilation, axis.stride)


def _batch_as_channels(x: Value, groups: int) -> Value:
    """Return `[C / groups, groups * N, *spatial]`."""
    if groups == 1:
        return swapped(x)
    images, channels, *spatial = x.shape
    inner = divide(channels, groups)
    apart = reshape(x, shape=(images, groups, inner, *spatial))
    order = (2, 1, 0, *range(3, apart.rank))
    crossed = transpose(apart, perm=order)
    return reshape(crossed, shape=(inner, images * groups, *spatial))


def _convolve(x: Value, w: Value, sliding: Geometry, groups: int) -> Value:
    return conv(x, w, **attributes_of(sliding), groups=groups)
