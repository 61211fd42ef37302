"""Convolution in NumPy: one product of matrices per tap."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.declaration import takes
from rlx.ir.ops.conv_geometry import ConvAttributes, WindowDimension, result_extents, static
from rlx.ir.reference.registry import Array, reference


@reference(ops.conv)
@takes(ConvAttributes)
def conv(x: Array, w: Array, window: ConvAttributes) -> Array:
    sliding = window.sliding(x.ndim)
    found = result_extents(x.shape[2:], w.shape[2:], sliding)
    positions = tuple(static(extent) for extent in found)
    images, outputs, inner = x.shape[0], *w.shape[:2]
    groups = window.groups
    each = outputs // groups
    split = x.reshape(images, groups, inner, *x.shape[2:])
    total = np.zeros((images, groups, each, *positions), x.dtype)
    for at in itertools.product(*map(range, w.shape[2:])):
        axes = zip(at, positions, x.shape[2:], sliding, strict=True)
        overlaps = [_elements(*axis) for axis in axes]
        seen = split[_after_channels([elements for _, elements in overlaps])]
        own: tuple[slice | int, ...] = (slice(None), slice(None), *at)
        taps = w[own].reshape(groups, each, inner)
        columns = seen.reshape(images, groups, inner, math.prod(seen.shape[3:]))
        sums = (taps @ columns).reshape(images, groups, each, *seen.shape[3:])
        total[_after_channels([found for found, _ in overlaps])] += sums
    return total.reshape(images, outputs, *positions)


def _elements(tap: int, count: int, extent: int, axis: WindowDimension) -> tuple[Array, Array]:
    """Return the positions at which a tap reads an element of an axis, and those elements."""
    at = np.arange(count) * axis.stride + tap * axis.dilation - axis.low
    inside = (at >= 0) & (at < extent * axis.input_dilation) & (at % axis.input_dilation == 0)
    return np.flatnonzero(inside), at[inside] // axis.input_dilation


def _after_channels(spatial: list[Array]) -> tuple[Any, ...]:
    """Return an index of the elements at all combinations of spatial indices."""
    return (slice(None), slice(None), slice(None), *np.ix_(*spatial))
