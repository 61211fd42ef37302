"""Convolution and its transpose over 1, 2 or 3 spatial axes.

`layout` says where channels are. `"NCHW"` (and `"NCL"`, `"NCDHW"`): images are
`[N, C, *spatial]`, weights `[C_out, C_in / groups, *taps]` as PyTorch has them. `"NHWC"` (and
`"NLC"`, `"NDHWC"`): images are `[N, *spatial, C]`, weights `[*taps, C_in / groups, C_out]` as Flax
and JAX have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.ops.conv_geometry import per_axis
from rlx.ir.shape import Extent
from rlx.tracing.apply import emit, function, inexact

PerAxis: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = Literal["SAME", "VALID"] | int | Sequence[int | tuple[int, int]]
"""`"SAME"`, `"VALID"`, or zeros before and behind: for all axes, for each, or in pairs."""

_CHANNELS_FIRST = ("NCL", "NCHW", "NCDHW")
_CHANNELS_LAST = ("NLC", "NHWC", "NDHWC")


@function
def conv(
    x: Any,
    w: Any,
    strides: PerAxis = 1,
    padding: Padding = "SAME",
    *,
    bias: Any = None,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Any:
    """Slide the taps of `w` over `x`, without flipping them; `bias` is one number per channel.

    With `"SAME"` an axis of L elements becomes `ceil(L / stride)`, the odd zero behind. `groups`
    equal to the number of channels is a depthwise convolution.
    """
    x, w = _channels_first(x, w, layout)
    axes = x.ndim - 2
    steps, spaced = _each("strides", strides, axes), _each("dilation", dilation, axes)
    sides = zip(x.shape[2:], w.shape[2:], steps, spaced, strict=True)
    result = emit(
        ops.conv, x, w, stride=steps, dilation=spaced, groups=groups,
        padding=_pads(padding, axes, lambda: [_same(*side) for side in sides]),
    )  # fmt: skip
    return _finished(result, bias, layout)


@function
def conv_transpose(
    x: Any,
    w: Any,
    strides: PerAxis = 1,
    padding: Padding = "SAME",
    *,
    bias: Any = None,
    output_padding: PerAxis = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
    layout: str = "NCHW",
) -> Any:
    """Spread every element of `x` over the taps of `w`: the gradient of `conv` by its input.

    Weights are `[C_in, C_out / groups, *taps]`, with channels last `[*taps, C_in, C_out / groups]`.
    With `"SAME"` an axis of L elements becomes `L * stride`; `output_padding` lengthens it.
    """
    x, w = _channels_first(x, w, layout, transposed=True)
    axes = x.ndim - 2
    steps, spaced = _each("strides", strides, axes), _each("dilation", dilation, axes)
    sides = zip(w.shape[2:], steps, spaced, strict=True)
    result = emit(
        ops.conv_transpose, x, w, stride=steps, dilation=spaced, groups=groups,
        padding=_pads(padding, axes, lambda: [_same_transposed(*side) for side in sides]),
        output_padding=_each("output_padding", output_padding, axes, least=0),
    )  # fmt: skip
    return _finished(result, bias, layout)


def _channels_first(x: Any, w: Any, layout: str, *, transposed: bool = False) -> Any:
    """Return both operands with their channels in front."""
    x, w = inexact(x, w)
    _require_layout(x, w, layout)
    if layout in _CHANNELS_LAST:
        x = rnp.moveaxis(x, -1, 1)
        w = rnp.moveaxis(w, (-2, -1), (0, 1) if transposed else (1, 0))
    if x.shape[1] == 0:
        raise ShapeError(
            f"x has shape {x.shape} and no channels", remedy="give images at least one channel"
        )
    return x, w


def _require_layout(x: Any, w: Any, layout: str) -> None:
    known = (*_CHANNELS_FIRST, *_CHANNELS_LAST)
    if layout not in known:
        raise ShapeError(
            f"layout is {layout!r}; it must be one of {', '.join(known)}",
            remedy="say where the channels are: 'NCHW' or 'NHWC'",
        )
    if x.ndim != w.ndim or not 3 <= x.ndim <= 5:
        raise ShapeError(
            f"x has shape {x.shape} and w has {w.shape}; both must have two axes and the same 1 "
            "to 3 spatial axes",
            remedy="add axes of extent 1 with x[:, None], or drop some",
        )


def _finished(result: Any, bias: Any, layout: str) -> Any:
    """Add the bias, and put channels where the layout has them."""
    if bias is not None:
        result = rnp.add(result, rnp.reshape(bias, (-1,) + (1,) * (result.ndim - 2)))
    return rnp.moveaxis(result, 1, -1) if layout in _CHANNELS_LAST else result


def _each(name: str, given: PerAxis, axes: int, least: int = 1) -> tuple[int, ...]:
    """Return one number per spatial axis; `padding` needs checked ones."""
    numbers = (given,) * axes if isinstance(given, int) else tuple(given)
    return per_axis(name, numbers, axes, default=least, least=least)


def _pads(
    padding: Padding, axes: int, same: Callable[[], list[tuple[int, int]]]
) -> tuple[tuple[int, int], ...]:
    if padding == "SAME":
        return tuple(same())
    if padding == "VALID":
        return ((0, 0),) * axes
    if isinstance(padding, str):
        raise ShapeError(
            f"padding is {padding!r}; it must be 'SAME', 'VALID' or numbers",
            remedy="give 'SAME', 'VALID', a number, or a pair for each spatial axis",
        )
    sides = (padding,) * axes if isinstance(padding, int) else tuple(padding)
    if len(sides) != axes:
        raise ShapeError(
            f"padding {padding} has {len(sides)} entries for {axes} spatial axes",
            remedy=f"give one number, or {axes} numbers or pairs",
        )
    return tuple((side, side) if isinstance(side, int) else (side[0], side[1]) for side in sides)


def _same(extent: Extent, taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the zeros with which `extent` elements become `ceil(extent / stride)`."""
    window = (taps - 1) * dilation + 1
    if stride == 1:
        return (window - 1) // 2, window // 2
    if not isinstance(extent, int):
        raise ShapeError(
            f"padding 'SAME' with stride {stride} depends on {extent}, which is symbolic",
            remedy="give the padding in numbers",
        )
    missing = max((-(-extent // stride) - 1) * stride + window - extent, 0)
    return missing // 2, missing - missing // 2


def _same_transposed(taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return what is cut off so that L elements become `L * stride`."""
    surplus = (taps - 1) * dilation + 1 - stride
    low = max(surplus, 0) // 2
    return low, surplus - low
