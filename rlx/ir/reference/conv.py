"""Convolution in NumPy: one product of matrices per tap."""

from __future__ import annotations

import itertools

import numpy as np

from rlx.ir import ops
from rlx.ir.ops.conv_geometry import (
    Geometry,
    Numbers,
    Pads,
    geometry,
    result_extents,
    spread,
    static,
)
from rlx.ir.reference.registry import Array, reference


@reference(ops.conv)
def conv(
    x: Array,
    w: Array,
    *,
    stride: Numbers,
    padding: Pads,
    dilation: Numbers,
    input_dilation: Numbers,
    groups: int,
) -> Array:
    sliding = geometry(x.ndim - 2, stride, padding, dilation, input_dilation)
    found = result_extents(x.shape[2:], w.shape[2:], sliding)
    positions = tuple(static(extent) for extent in found)
    images, channels = x.shape[:2]
    outputs, inner = w.shape[:2]
    padded = _padded(x, sliding)
    total = np.zeros((images, groups, outputs // groups, int(np.prod(positions))), x.dtype)
    for at in itertools.product(*map(range, w.shape[2:])):
        seen = padded[_steps(at, positions, sliding)]
        columns = seen.reshape(images, groups, channels // groups, total.shape[-1])
        own: tuple[slice | int, ...] = (slice(None), slice(None), *at)
        taps = w[own].reshape(groups, outputs // groups, inner)
        total += taps @ columns
    return total.reshape(images, outputs, *positions)


def _padded(x: Array, sliding: Geometry) -> Array:
    """Spread the elements, and pad with zeros or crop."""
    for axis, each in enumerate(sliding, start=2):
        extent = static(spread(x.shape[axis], each.input_dilation))
        shape = (*x.shape[:axis], extent + each.low + each.high, *x.shape[axis + 1 :])
        wide = np.zeros(shape, x.dtype)
        at = each.low + np.arange(x.shape[axis]) * each.input_dilation
        inside = (at >= 0) & (at < shape[axis])
        lead = (slice(None),) * axis
        wide[(*lead, at[inside])] = x[(*lead, inside)]
        x = wide
    return x


def _steps(at: Numbers, positions: tuple[int, ...], sliding: Geometry) -> tuple[slice, ...]:
    """Return what one tap meets at every position of every channel."""
    axes = zip(at, positions, sliding, strict=True)
    starts = [(tap * each.dilation, count, each.stride) for tap, count, each in axes]
    seen = (slice(first, first + (count - 1) * step + 1, step) for first, count, step in starts)
    return (slice(None), slice(None), *seen)
