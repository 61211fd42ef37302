"""Convolution over 1, 2 or 3 spatial axes.

Images are `[N, C, *spatial]` and weights `[C_out, C_in / groups, *taps]`. Geometry lists have one
entry per spatial axis; an empty list means stride 1, no padding, dilation 1. Padding is a pair per
axis; negative padding crops.

There is one primitive. With elements of the input spread apart (`input_dilation`) it is also its
own transpose: the gradients of a convolution by either operand are convolutions, to any order.
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op, takes
from rlx.ir.layout import ChannelPanels, Layout
from rlx.ir.lowering import Schedule, Windowed, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.conv_geometry import (
    ConvAttributes,
    Geometry,
    Planes,
    padded_shape,
    pads_itself,
    result_extents,
    undilated,
)
from rlx.ir.ops.linalg import require_order
from rlx.ir.ops.requirements import require_dtype, require_same_dtype
from rlx.ir.shape import Shape, upper
from rlx.ir.types import TensorType

__all__ = ["conv"]

_FAMILY = "conv"
_MOST_AXES = 3


@op(
    _FAMILY,
    *(Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, Trait.BILINEAR, Trait.PROMOTES),
    attributes=ConvAttributes,
)
def conv(x: TensorType, w: TensorType, window: ConvAttributes) -> TensorType:
    """Sum of products of every window of `x` with the taps of `w`; no tap is flipped.

    `x` `[N, C_in, *spatial]`, `w` `[C_out, C_in / groups, *taps]`; outside of `x` there are zeros.
    Group `g` of the output channels sees group `g` of the input channels. Taps are `dilation`
    apart, elements of `x` `input_dilation`, with zeros between. No channels give zeros; integers
    wrap; f16 and bf16 accumulate in f32.
    """
    dtype = require_same_dtype(x, w)
    require_dtype(x, "float int")
    spatial_axes(x, w)
    _require_channels(x, w, window.groups)
    sliding = window.sliding(x.rank)
    spatial = result_extents(x.shape[2:], w.shape[2:], sliding)
    return TensorType(dtype, (x.shape[0], w.shape[0], *spatial))


@lowered_by(conv, Schedule, layouts=(1,))
@takes(ConvAttributes)
def _conv_direct(schedule: Schedule, x: TensorType, w: TensorType, window: ConvAttributes) -> None:
    """Register tiles over an input that is padded already, and weights in panels of channels."""
    require_dtype(x, "f32 f64")
    require_direct(schedule, x, w, window)


def require_direct(
    schedule: Schedule, x: TensorType, w: TensorType, window: ConvAttributes
) -> None:
    """Raise a ShapeError unless tiles fit the positions, and `w` is packed in panels for them."""
    planes = _bare_planes(x, w, window.sliding(x.rank))
    require_tiles(schedule, w, planes.positions, ChannelPanels(schedule.columns, window.groups))


def require_tiles(schedule: Schedule, w: TensorType, positions: Shape, layout: Layout) -> None:
    """Raise a ShapeError unless tiles of vectors fit the positions, and `w` has their panels."""
    require_order(schedule, "image", "group", "layer")
    _, rows, columns = map(upper, positions)
    fits = schedule.rows <= rows and schedule.across <= columns and schedule.lanes >= 2
    if not (fits and w.layout == layout and (schedule.depth, schedule.right) == (0, "panels")):
        raise ShapeError(
            f"tiles of {schedule.rows} by {schedule.across} positions and {schedule.columns} "
            f"channels in vectors of {schedule.lanes} do not fit w of type {w} and positions "
            f"{positions}",
            remedy="choose tiles that do, or leave the choice to the passes",
        )


@lowered_by(conv, Windowed)
@takes(ConvAttributes)
def _conv_windowed(
    windowed: Windowed, x: TensorType, w: TensorType, window: ConvAttributes
) -> None:
    """Rows of positions in vectors, over an input that is padded already, or is small."""
    require_dtype(x, "f32 f64")
    require_windowed(windowed, x, w, window)


def require_windowed(
    windowed: Windowed, x: TensorType, w: TensorType, window: ConvAttributes
) -> None:
    """Raise a ShapeError unless each group has one channel, and vectors fit the stride."""
    sliding = window.sliding(x.rank)
    if pads_itself(x.shape, sliding, x.dtype.size):
        x, sliding = x.with_shape(padded_shape(x.shape, sliding)), undilated(sliding)
    planes = _bare_planes(x, w, sliding)
    power = windowed.lanes >= 1 and windowed.lanes & (windowed.lanes - 1) == 0
    if not power or planes.channels != 1 or planes.strides[2] > 2 or x.shape[1] != window.groups:
        raise ShapeError(
            f"rows in vectors of {windowed.lanes} lanes do not fit w of type {w} with strides "
            f"{planes.strides}: groups of one channel, and every first or second position",
            remedy="leave the choice to the passes",
        )


def _bare_planes(x: TensorType, w: TensorType, sliding: Geometry) -> Planes:
    """Return the planes of a convolution whose input is stored as the kernel reads it."""
    sides = ((axis.low, axis.high, axis.input_dilation) for axis in sliding)
    if any(side != (0, 0, 1) for side in sides):
        raise ShapeError(
            "kernels read the input in place: pad and dilate it first",
            remedy="leave the choice to the passes",
        )
    return Planes.of(x.shape, w.shape, sliding)


def spatial_axes(x: TensorType, w: TensorType) -> int:
    """Return the number of spatial axes; both operands have it, and the window has taps."""
    axes = x.rank - 2
    if not 1 <= axes <= _MOST_AXES or w.rank != x.rank:
        raise ShapeError(
            f"operands have shapes {x.describe_shape()} and {w.describe_shape()}; both must have "
            f"two axes and the same 1 to {_MOST_AXES} spatial axes",
            remedy="add axes of extent 1 with reshape",
        )
    if 0 in w.shape[2:]:
        raise ShapeError(
            f"operand 1 has shape {w.describe_shape()}; a window needs an element",
            remedy="give every spatial axis an extent of 1 or more",
        )
    return axes


def _require_channels(x: TensorType, w: TensorType, groups: int) -> None:
    outputs = w.shape[0]
    if groups < 1 or (isinstance(outputs, int) and outputs % groups):
        raise ShapeError(
            f"groups is {groups} and w has {outputs} output channels; "
            "groups must be 1 or more and divide the channels",
            remedy="choose groups that divide both numbers of channels",
        )
    if x.shape[1] != w.shape[1] * groups:
        raise ShapeError(
            f"x has {x.shape[1]} channels and w {w.shape[1]} in each of {groups} groups; "
            f"{w.shape[1]} * {groups} must be {x.shape[1]}",
            remedy="w is [C_out, C_in / groups, *taps]",
        )
