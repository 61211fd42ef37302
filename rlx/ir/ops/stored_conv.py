"""Convolution of operands as they are stored: channels last, or in words of elements.

Passes make it of `conv`. With channels last, images are `[N, *spatial, C]` and weights
`[*taps, C_in / groups, C_out]`, as JAX names them NHWC and HWIO.
"""

from __future__ import annotations

import functools
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.declaration import op, takes
from rlx.ir.graph import Value
from rlx.ir.layout import Panels, WinogradPanels
from rlx.ir.lowering import Schedule, Windowed, Winograd, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.byte_products import BYTES
from rlx.ir.ops.conv import conv, require_direct, require_tiles, require_windowed
from rlx.ir.ops.conv_geometry import ConvAttributes, Geometry, Planes, pads_itself
from rlx.ir.ops.linalg import require_order
from rlx.ir.ops.requirements import require_dtype
from rlx.ir.ops.shape import transpose
from rlx.ir.ops.stored_products import Elements, summed_types, word_products
from rlx.ir.shape import Shape, upper
from rlx.ir.types import TensorType

__all__ = ["stored_conv"]


@dataclass(frozen=True, slots=True)
class StoredConvAttributes(ConvAttributes):
    """How the window of a convolution moves, and how its operands are stored."""

    elements: Elements = "plain"
    channels_last: bool = False


def images_first(shape: Shape) -> Shape:
    """Return the shape of images whose channels come second."""
    return (*shape[:1], *shape[-1:], *shape[1:-1])


def weights_first(shape: Shape) -> Shape:
    """Return the shape of weights whose output channels come first."""
    return (*shape[:-3:-1], *shape[:-2])


def channels_to_front(x: Value) -> Value:
    """Return images `[N, *spatial, C]` as `[N, C, *spatial]`."""
    result: Value = transpose(x, perm=images_first(tuple(range(x.rank))))
    return result


def channels_to_back(x: Value) -> Value:
    """Return images `[N, C, *spatial]` as `[N, *spatial, C]`."""
    result: Value = transpose(x, perm=(0, *range(2, x.rank), 1))
    return result


def taps_to_front(w: Value) -> Value:
    """Return weights `[C_out, C_in, *taps]` as `[*taps, C_in, C_out]`."""
    result: Value = transpose(w, perm=(*range(2, w.rank), 1, 0))
    return result


def _formula(
    x: Value, w: Value, *, elements: Elements, channels_last: bool, **window: Any
) -> Value:
    """Move channels to the front, take words apart, then convolve."""
    if not channels_last:
        return word_products(functools.partial(conv, **window), x, w, elements)
    weights = transpose(w, perm=weights_first(tuple(range(w.rank))))
    stored = {"elements": elements, "channels_last": False, **window}
    return channels_to_back(_formula(channels_to_front(x), weights, **stored))


@op(
    "conv",
    *(Trait.CONTRACTION, Trait.EPILOGUE, Trait.STORES_ONCE, Trait.LOWERED),
    decompose=_formula,
    attributes=StoredConvAttributes,
)
def stored_conv(x: TensorType, w: TensorType, window: StoredConvAttributes) -> TensorType:
    """`conv` of `x` `[N, *spatial, C_in]` and `w` `[*taps, C_in / groups, C_out]` if channels last.

    Of small integers in i32. Of words of input channels: of four bytes in i32, those of `w`
    signed, or of two bf16 in f32, as `stored_matmul`.
    """
    given = window.as_dict()
    last = given.pop("channels_last")
    x, w = summed_types(x, w, given.pop("elements"), signed=True)
    if last:
        x = x.with_shape(images_first(x.shape))
        w = w.plain.with_shape(weights_first(w.shape))
    result: TensorType = conv.infer(x, w, **given)
    images, channels, *spatial = result.shape
    return result.with_shape((images, *spatial, channels)) if last else result


def planes_of(x: Shape, w: Shape, sliding: Geometry) -> Planes:
    """Return the planes that operands of these shapes are."""
    return Planes.of(images_first(x), weights_first(w), sliding)


@lowered_by(stored_conv, Schedule, layouts=(1,))
@takes(StoredConvAttributes)
def _scheduled(
    schedule: Schedule, x: TensorType, w: TensorType, window: StoredConvAttributes
) -> None:
    """Register tiles over an input that is padded already, and weights in panels of channels.

    With channels last, where each is a group, both are read in place, borders too.
    """
    if window.elements not in (("plain",) if window.channels_last else ("bytes", "bf16")):
        order = "channels last" if window.channels_last else "channels first"
        raise ShapeError(
            f"no tiles multiply {window.elements} of a stored convolution with {order}",
            remedy="convolve floats with conv, or leave the choice to the passes",
        )
    if not window.channels_last:
        require_direct(schedule, x, w, window)
        return
    if schedule.border == "in_place":
        _require_depthwise(schedule, x, w, window)
        return
    planes = _bare_planes(x, w, window.sliding(x.rank))
    require_tiles(schedule, w, planes.positions, Panels(schedule.columns))
    if window.groups != 1:
        raise ShapeError(
            f"tiles of channels take one group, not {window.groups}",
            remedy="leave the choice to the passes",
        )


@lowered_by(stored_conv, Windowed)
@takes(StoredConvAttributes)
def _by_rows(
    windowed: Windowed, x: TensorType, w: TensorType, window: StoredConvAttributes
) -> None:
    """Rows of positions in vectors, four taps of bytes in a word, over an image that is small."""
    sliding, taps = window.sliding(x.rank), w.shape[-1]
    small = pads_itself(x.shape, sliding, x.dtype.size) and sliding[-1].dilation == 1
    integers = window.elements == "integers" and not window.channels_last
    if not (small and integers) or windowed.lanes < BYTES or upper(taps) % BYTES:
        raise ShapeError(
            f"rows in vectors of {windowed.lanes} lanes do not fit {window.elements} of x {x} and "
            f"w {w}: the kernel pads images, and neighboring taps are a multiple of {BYTES}",
            remedy="leave the choice to the passes",
        )
    require_dtype(x, "i8 u8")
    require_dtype(w, "i8")
    require_windowed(windowed, x, w, window)


@lowered_by(stored_conv, Winograd, layouts=(1,))
@takes(StoredConvAttributes)
def _by_points(
    winograd: Winograd, x: TensorType, w: TensorType, window: StoredConvAttributes
) -> None:
    """Blocks of tiles, whose points are multiplied in register tiles by those of the weights."""
    dense = all(
        (axis.stride, axis.input_dilation) == (1, 1) and min(axis.low, axis.high) >= 0
        for axis in window.sliding(x.rank)
    )
    known = all(isinstance(extent, int) for extent in (*x.shape[1:], *w.shape))
    whole = winograd.tiles % winograd.rows == 0 and winograd.columns % winograd.lanes == 0
    packed = w.layout == WinogradPanels(winograd.step, winograd.columns)
    last = window.channels_last and window.elements == "plain"
    if not (dense and known and whole and packed and last) or window.groups != 1:
        raise ShapeError(
            f"blocks of {winograd.tiles} tiles, {winograd.rows} rows and {winograd.columns} "
            f"columns do not fit x of type {x} and w of type {w}",
            remedy="leave the choice to the passes",
        )


def _require_depthwise(
    schedule: Schedule, x: TensorType, w: TensorType, window: ConvAttributes
) -> None:
    """Raise unless vectors of channels, each of which is a group, fit."""
    require_dtype(x, "f32 f64")
    require_order(schedule, "image", "layer")
    sliding = window.sliding(x.rank)
    known = all(isinstance(extent, int) for extent in (*x.shape[1:], *w.shape))
    cropped = any(min(axis.low, axis.high) < 0 or axis.input_dilation > 1 for axis in sliding)
    alone = x.shape[-1] == w.shape[-1] == window.groups and w.shape[-2] == 1
    fits = known and alone and schedule.columns <= window.groups
    whole = schedule.rows == 1 and schedule.left == schedule.right == "in_place"
    if not (fits and whole) or schedule.depth or cropped:
        raise ShapeError(
            f"vectors of {schedule.lanes} channels do not fit x of type {x} and w of type {w} in "
            f"{window.groups} groups: each channel is one, extents are known, nothing is cropped",
            remedy="leave the choice to the passes",
        )


def _bare_planes(x: TensorType, w: TensorType, sliding: Geometry) -> Planes:
    """Return the planes of a convolution whose input is stored as the kernel reads it."""
    require_dtype(x, "f32 f64")
    if any((axis.low, axis.high, axis.input_dilation) != (0, 0, 1) for axis in sliding):
        raise ShapeError("kernels read the input in place", remedy="pad and dilate it first")
    return planes_of(x.shape, w.shape, sliding)
