"""Resampling of an axis: source positions and weights of each result element.

The coordinate transformations and rounding modes are those of ONNX `Resize`. The linear and
cubic filters of an axis that shrinks are stretched with `antialias`, as in JAX and PyTorch.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass

Array: TypeAlias = NDArray[Any]

Interpolation: TypeAlias = Literal["nearest", "linear", "cubic"]
Coordinates: TypeAlias = Literal[
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
    "tf_crop_and_resize",
]  # fmt: skip
"""Coordinate in the operand of an index of the result."""
Rounding: TypeAlias = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]
"""Which neighbor is the nearest."""


@dataclass(frozen=True, slots=True)
class Resampling:
    """How one axis is resampled, whatever its extents."""

    mode: Interpolation
    coordinates: Coordinates
    rounding: Rounding
    cubic_coefficient: float
    exclude_outside: bool
    antialias: bool


@dataclass(frozen=True, slots=True)
class Taps:
    """Of each result element along an axis: the elements it is made of, and their weights."""

    indices: Array
    """`[result, taps]`, inside the operand."""
    weights: Array
    outside: Array | None
    """Where the result is outside of the operand and is extrapolated."""

    @property
    def is_copy(self) -> bool:
        """True if every result element is one of the operand's."""
        return self.indices.shape[1] == 1 and self.outside is None


def taps_of(
    extent: int, size: int, scale: float, region: tuple[float, float], how: Resampling
) -> Taps:
    """Return what `size` result elements are made of, for an axis scaled by `scale`."""
    at = _positions(extent, size, scale, region, how.coordinates)
    crops = how.coordinates == "tf_crop_and_resize"
    outside = (at < 0) | (at > extent - 1) if crops else None
    if outside is not None and not outside.any():
        outside = None
    if how.mode == "nearest":
        nearest = np.clip(_rounded(at, how.rounding), 0, extent - 1)
        return Taps(nearest[:, None], np.ones((size, 1)), outside)
    indices, weights = _filtered(at, min(scale, 1.0) if how.antialias else 1.0, how)
    inside = (indices >= 0) & (indices < extent)
    if how.exclude_outside or how.antialias:
        weights = np.where(inside, weights, 0.0)
        weights = weights / weights.sum(axis=1, keepdims=True)
    return _without_zeros(Taps(np.clip(indices, 0, extent - 1), weights, outside))


def _positions(
    extent: int, size: int, scale: float, region: tuple[float, float], coordinates: Coordinates
) -> Array:
    """Return the coordinate in the operand of each index of the result."""
    index = np.arange(size, dtype=np.float64)
    if coordinates == "asymmetric":
        return index / scale
    if coordinates == "align_corners":
        return index * ((extent - 1) / (scale * extent - 1)) if size > 1 else np.zeros(size)
    if coordinates == "tf_crop_and_resize":
        start, end = region
        if size == 1:
            return np.full(1, 0.5 * (start + end) * (extent - 1))
        return start * (extent - 1) + index * ((end - start) * (extent - 1) / (size - 1))
    if coordinates == "pytorch_half_pixel" and size == 1:
        return np.zeros(1)
    centers = (index + 0.5) / scale - 0.5
    if coordinates == "half_pixel_symmetric":
        adjustment = size / (scale * extent)
        centers = centers + extent / 2 * (1 - adjustment)
    return centers


def _rounded(at: Array, rounding: Rounding) -> Array:
    if rounding == "floor":
        return np.floor(at).astype(np.int64)
    if rounding == "ceil":
        return np.ceil(at).astype(np.int64)
    up = rounding == "round_prefer_ceil"
    return (np.floor(at + 0.5) if up else np.ceil(at - 0.5)).astype(np.int64)


def _filtered(at: Array, stretch: float, how: Resampling) -> tuple[Array, Array]:
    """Return the elements under a filter at each position, and the filter there.

    `stretch` below 1 widens the filter.
    """
    reach = (1.0 if how.mode == "linear" else 2.0) / stretch
    count = 2 * int(np.ceil(reach)) + (stretch != 1.0)
    first = np.floor(at).astype(np.int64) - (count - 1) // 2
    indices = first[:, None] + np.arange(count)
    distance = np.abs(indices - at[:, None]) * stretch
    if how.mode == "linear":
        return indices, np.maximum(1.0 - distance, 0.0) * stretch
    return indices, _cubic(distance, how.cubic_coefficient) * stretch


def _cubic(distance: Array, a: float) -> Array:
    """Keys' cubic convolution: the weight of an element at a distance."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _without_zeros(taps: Taps) -> Taps:
    """Drop taps that weigh nothing anywhere."""
    used = np.any(taps.weights != 0, axis=0)
    used[0] |= not used.any()
    return Taps(taps.indices[:, used], taps.weights[:, used], taps.outside)
