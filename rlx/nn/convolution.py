"""Convolution and its transpose over 1, 2 or 3 spatial axes.

`layout` says where channels are. `"NCHW"` (and `"NCL"`, `"NCDHW"`): images are
`[N, C, *spatial]`, weights `[C_out, C_in / groups, *taps]` as PyTorch has them. `"NHWC"` (and
`"NLC"`, `"NDHWC"`): images are `[N, *spatial, C]`, weights `[*taps, C_in / groups, C_out]` as Flax
and JAX have them.
"""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.ops.conv_geometry import same_padding
from rlx.nn.spatial import (
    CHANNELS_LAST,
    Padding,
    PerAxis,
    each,
    pads,
    require_layout,
)
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit, function, inexact


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
) -> Array:
    """Slide the taps of `w` over `x`, without flipping them; `bias` is one number per channel.

    With `"SAME"` an axis of L elements becomes `ceil(L / stride)`, the odd zero last. `groups`
    equal to the number of channels is a depthwise convolution.
    """
    x, w = _channels_first(x, w, layout)
    axes = x.ndim - 2
    steps, spaced = each("strides", strides, axes), each("dilation", dilation, axes)
    sides = zip(x.shape[2:], w.shape[2:], steps, spaced, strict=True)
    result = emit(
        ops.conv, x, w, stride=steps, dilation=spaced, groups=groups,
        padding=pads(padding, axes, lambda: [same_padding(*side) for side in sides]),
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
) -> Array:
    """Spread every element of `x` over the taps of `w`: the gradient of `conv` by its input.

    Weights are `[C_in, C_out / groups, *taps]`, with channels last `[*taps, C_in, C_out / groups]`.
    With `"SAME"` an axis of L elements becomes `L * stride`; `output_padding` lengthens it.
    """
    x, w = _channels_first(x, w, layout, transposed=True)
    axes = x.ndim - 2
    steps, spaced = each("strides", strides, axes), each("dilation", dilation, axes)
    sides = zip(w.shape[2:], steps, spaced, strict=True)
    result = emit(
        ops.conv_transpose, x, w, stride=steps, dilation=spaced, groups=groups,
        padding=pads(padding, axes, lambda: [_same_transposed(*side) for side in sides]),
        output_padding=each("output_padding", output_padding, axes, least=0),
    )  # fmt: skip
    return _finished(result, bias, layout)


def _channels_first(x: Any, w: Any, layout: str, *, transposed: bool = False) -> Any:
    """Return both operands with their channels in front."""
    x, w = inexact(x, w)
    _require_operands(x, w, layout)
    if layout in CHANNELS_LAST:
        x = rnp.moveaxis(x, -1, 1)
        w = rnp.moveaxis(w, (-2, -1), (0, 1) if transposed else (1, 0))
    if x.shape[1] == 0:
        raise ShapeError(
            f"x has shape {x.shape} and no channels", remedy="give images at least one channel"
        )
    return x, w


def _require_operands(x: Any, w: Any, layout: str) -> None:
    require_layout(layout)
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
    return rnp.moveaxis(result, 1, -1) if layout in CHANNELS_LAST else result


def _same_transposed(taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return what is cut off so that L elements become `L * stride`."""
    surplus = (taps - 1) * dilation + 1 - stride
    low = max(surplus, 0) // 2
    return low, surplus - low
