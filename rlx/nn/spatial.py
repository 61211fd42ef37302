"""Spatial axes of layers: where the channels are, and strides, dilation and padding per axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.ops.conv_geometry import per_axis

PerAxis: TypeAlias = int | Sequence[int]
"""One number for all spatial axes, or one for each."""
Padding: TypeAlias = Literal["SAME", "VALID"] | int | Sequence[int | tuple[int, int]]
"""`"SAME"`, `"VALID"`, or zeros before and after: for all axes, for each, or in pairs."""

CHANNELS_FIRST = ("NCL", "NCHW", "NCDHW")
CHANNELS_LAST = ("NLC", "NHWC", "NDHWC")
LAYOUTS = (*CHANNELS_FIRST, *CHANNELS_LAST)


def require_layout(layout: str) -> None:
    if layout not in LAYOUTS:
        raise ShapeError(
            f"layout is {layout!r}; it must be one of {', '.join(LAYOUTS)}",
            remedy="say where the channels are: 'NCHW' or 'NHWC'",
        )


def channel_axis(layout: str) -> int:
    """Return the axis of the channels."""
    require_layout(layout)
    return -1 if layout in CHANNELS_LAST else 1


def spatial_axes(rank: int, layout: str) -> tuple[int, ...]:
    """Return the axes between the examples and the channels, or after both."""
    last = channel_axis(layout) == -1
    if not 3 <= rank <= 5:
        raise ShapeError(
            f"x has {rank} axes; it must have examples, channels and 1 to 3 spatial axes",
            remedy="add axes of extent 1 with x[:, None], or drop some",
        )
    return tuple(range(1, rank - 1)) if last else tuple(range(2, rank))


def each(name: str, given: PerAxis, axes: int, least: int = 1) -> tuple[int, ...]:
    """Return one number per spatial axis; `padding` needs checked ones."""
    numbers = (given,) * axes if isinstance(given, (int, np.integer)) else tuple(given)
    return per_axis(name, numbers, axes, default=least, least=least)


def pads(
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
    sides = (padding,) * axes if isinstance(padding, (int, np.integer)) else tuple(padding)
    if len(sides) != axes:
        raise ShapeError(
            f"padding {padding} has {len(sides)} entries for {axes} spatial axes",
            remedy=f"give one number, or {axes} numbers or pairs",
        )
    return tuple(
        (side, side) if isinstance(side, (int, np.integer)) else (side[0], side[1])
        for side in sides
    )
