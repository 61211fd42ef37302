"""Padding, dilation and cropping of images ahead of a convolution."""

from __future__ import annotations

from rlx.ir.graph import Value
from rlx.ir.ops.conv_geometry import Geometry, spread
from rlx.ir.ops.shape import narrow, pad, reshape


def padded(x: Value, sliding: Geometry, first: int = 2) -> Value:
    """Return `x` as its windows see it; its spatial axes start at `first`."""
    for number, axis in enumerate(sliding, start=first):
        x = spread_axis(x, number, axis.input_dilation)
    leading, trailing = (0,) * first, (0,) * (x.rank - first - len(sliding))
    low = (*leading, *(max(axis.low, 0) for axis in sliding), *trailing)
    high = (*leading, *(max(axis.high, 0) for axis in sliding), *trailing)
    wide = pad(x, low=low, high=high) if any((*low, *high)) else x
    for number, axis in enumerate(sliding, start=first):
        before, after = max(-axis.low, 0), max(-axis.high, 0)
        if before or after:
            length = wide.shape[number] - (before + after)
            wide = narrow(wide, axis=number, start=before, length=length)
    return wide


def spread_axis(x: Value, axis: int, step: int) -> Value:
    """Put `step - 1` zeros between the elements of one axis."""
    if step == 1 or x.shape[axis] == 0:
        return x
    apart = reshape(x, shape=(*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    after = tuple(step - 1 if number == axis + 1 else 0 for number in range(apart.rank))
    wide = pad(apart, low=(0,) * apart.rank, high=after)
    long = reshape(wide, shape=(*x.shape[:axis], x.shape[axis] * step, *x.shape[axis + 1 :]))
    return narrow(long, axis=axis, start=0, length=spread(x.shape[axis], step))
