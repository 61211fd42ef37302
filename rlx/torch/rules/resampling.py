"""Resized images, and images sampled at given places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.torch.registry import rule


def _size_of(x: Any, size: Any, scales: Any, axes: int) -> tuple[int, ...]:
    if size is not None:
        return tuple(size)
    return tuple(
        math.floor(extent * scale) for extent, scale in zip(x.shape[-axes:], scales, strict=True)
    )


def _step(extent: int, size: int, scale: Any, align: bool) -> float:
    """Return how far apart samples are in the source."""
    if align:
        return (extent - 1) / (size - 1) if size > 1 else 0.0
    return 1 / scale if scale else extent / size


def _nearest(exact: bool) -> Any:
    def apply(x: Any, size: Any, *scales: Any) -> Any:
        scales = _scales(scales)
        axes = x.ndim - 2
        sizes = _size_of(x, size, scales, axes)
        for axis in range(axes):
            extent, count = x.shape[2 + axis], sizes[axis]
            step = np.float32(_step(extent, count, scales[axis] if scales else None, False))
            places = np.arange(count, dtype=np.float32)
            chosen = np.floor((places + np.float32(0.5)) * step if exact else places * step)
            index = np.minimum(chosen.astype(np.int64), extent - 1)
            x = rnp.take(x, index, 2 + axis)
        return x

    return apply


def _scales(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one scale per axis; none where they are not given."""
    flat = [n for each in given for n in (each if isinstance(each, list) else [each])]
    return tuple(flat) if any(n is not None for n in flat) else ()


def _weights(extent: int, size: int, scale: Any, align: bool, cubic: bool, single: bool) -> Any:
    """Return the matrix that resamples an axis: rows are samples.

    Source: linear and cubic convolution interpolation (a = -0.75), edges repeated.
    """
    real: Any = np.float32 if single else np.float64
    step = real(_step(extent, size, scale, align))
    places = np.arange(size, dtype=real)
    at = places * step if align else (places + real(0.5)) * step - real(0.5)
    if not (align or cubic):
        at = np.maximum(at, real(0))
    low = np.floor(at).astype(np.int64)
    if not cubic:
        low = np.minimum(low, extent - 1)
    share = (at - low).astype(np.float64)
    matrix = np.zeros((size, extent))
    taps = (-1, 0, 1, 2) if cubic else (0, 1)
    for tap in taps:
        weight = _cubic(share - tap) if cubic else (share if tap else 1 - share)
        column = np.clip(low + tap, 0, extent - 1)
        np.add.at(matrix, (np.arange(size), column), weight)
    return matrix


def _cubic(distance: Any) -> Any:
    t, a = np.abs(distance), -0.75
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return np.where(t <= 1, near, np.where(t < 2, far, 0))


def _antialiased(extent: int, size: int, scale: Any, align: bool, cubic: bool) -> Any:
    """Return the matrix of a filter that widens where an axis shrinks.

    Source: the resampling of Pillow; cubic weights with a = -0.5.
    """
    step = _step(extent, size, scale, align)
    reach = (2 if cubic else 1) * max(step, 1.0)
    matrix = np.zeros((size, extent))
    for place in range(size):
        center = step * (place + 0.5)
        first = max(int(center - reach + 0.5), 0)
        last = min(int(center + reach + 0.5), extent)
        distance = np.abs((np.arange(first, last) - center + 0.5) / max(step, 1.0))
        if cubic:
            t, a = distance, -0.5
            near = ((a + 2) * t - (a + 3)) * t * t + 1
            far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
            weights = np.where(t < 1, near, np.where(t < 2, far, 0))
        else:
            weights = np.maximum(1 - distance, 0)
        matrix[place, first:last] = weights / weights.sum()
    return matrix


def _resampled(cubic: bool, antialias: bool = False) -> Any:
    def apply(x: Any, size: Any, align: bool, *scales: Any) -> Any:
        scales = _scales(scales)
        axes = x.ndim - 2
        sizes = _size_of(x, size, scales, axes)
        dtype = x.value.dtype
        single = dtype is not DType.F64
        wide = x.astype("f32") if dtype.is_low_precision or not dtype.is_float else x
        for axis in range(axes):
            scale = scales[axis] if scales else None
            extent, count = x.shape[2 + axis], sizes[axis]
            if antialias:
                matrix = _antialiased(extent, count, scale, align, cubic)
            else:
                matrix = _weights(extent, count, scale, align, cubic, single)
            moved = rnp.moveaxis(wide, 2 + axis, -1)
            weights = rnp.asarray(matrix.T).astype(wide.value.dtype)
            wide = rnp.moveaxis(rnp.matmul(moved, weights), -1, 2 + axis)
        if not dtype.is_float:
            limits = rnp.iinfo(dtype.numpy)
            wide = rnp.clip(rnp.rint(wide), limits.min, limits.max)
        return wide

    return apply


def _backward(forward: Any) -> Any:
    def apply(g: Any, size: Any, shape: Any, *rest: Any) -> Any:
        x = rnp.zeros(tuple(shape), g.value.dtype)
        return rlx.vjp(lambda x: forward(x, size, *rest), x)[1](g)[0]

    return apply


_FORWARD = {
    **{f"upsample_nearest{n}d": _nearest(False) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": _nearest(True) for n in (1, 2, 3)},
    "upsample_linear1d": _resampled(False), "upsample_bilinear2d": _resampled(False),
    "upsample_trilinear3d": _resampled(False), "upsample_bicubic2d": _resampled(True),
    "_upsample_bilinear2d_aa": _resampled(False, True),
    "_upsample_bicubic2d_aa": _resampled(True, True),
}  # fmt: skip
for _name, _apply in _FORWARD.items():
    rule(_name, f"{_name}.vec")(_apply)
    rule(f"{_name}_backward")(_backward(_apply))


def _unnormalized(at: Any, extent: int, align: bool) -> Any:
    return (at + 1) / 2 * (extent - 1) if align else ((at + 1) * extent - 1) / 2


def _reflected(at: Any, low: float, high: float) -> Any:
    """Return places reflected at `low / 2` and `high / 2` until they are between them."""
    if low == high:
        return rnp.zeros_like(at)
    start, span = low / 2, (high - low) / 2
    distance = rnp.abs(at - start)
    turns = rnp.floor(distance / span)
    rest = distance - turns * span
    is_even = rnp.equal(rnp.remainder(turns, 2), 0)
    return rnp.where(is_even, rest + start, span - rest + start)


def _placed(at: Any, extent: int, padding: int, align: bool) -> Any:
    """Return places as the padding has them: 0 zeros, 1 border, 2 reflection."""
    if padding == 1:
        return _clipped(at, extent)
    if padding == 2:
        ends = (0, 2 * (extent - 1)) if align else (-1, 2 * extent - 1)
        return _clipped(_reflected(at, *ends), extent)
    return at


def _clipped(at: Any, extent: int) -> Any:
    return rnp.minimum(rnp.maximum(at, 0), extent - 1)


def grid_sample(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    """Images sampled at places in [-1, 1]; modes are linear, nearest and cubic."""
    shape = x.shape[2:]
    raw = [
        _unnormalized(grid[..., len(shape) - 1 - axis], extent, align)
        for axis, extent in enumerate(shape)
    ]
    if mode == 2:
        return _cubic_sample(x, raw, padding, align)
    places = [_placed(at, n, padding, align) for at, n in zip(raw, shape, strict=True)]
    if mode == 1:
        return _read(x, [rnp.rint(at).astype("i64") for at in places])
    lows = [rnp.floor(at) for at in places]
    total: Any = 0
    for corner in np.ndindex(*(2,) * len(shape)):
        weight: Any = 1
        index = []
        for at, low, up in zip(places, lows, corner, strict=True):
            weight = weight * ((at - low) if up else (low + 1 - at))
            index.append(low.astype("i64") + up)
        total = total + _read(x, index) * rnp.expand_dims(weight, 1)
    return total


def _read(x: Any, index: Sequence[Any]) -> Any:
    """Return elements at places of each image, 0 outside."""
    batch, channels, *shape = x.shape
    inside: Any = True
    flat: Any = 0
    for at, extent in zip(index, shape, strict=True):
        inside = rnp.logical_and(
            inside, rnp.logical_and(rnp.greater_equal(at, 0), rnp.less(at, extent))
        )
        flat = flat * extent + rnp.clip(at, 0, extent - 1)
    places = rnp.reshape(flat, (batch, 1, -1))
    images = rnp.reshape(x, (batch, channels, math.prod(shape)))
    wide = rnp.broadcast_to(places, (batch, channels, places.shape[-1]))
    found = rnp.reshape(rnp.take_along_axis(images, wide, 2), (batch, channels, *flat.shape[1:]))
    return rnp.where(rnp.expand_dims(inside, 1), found, 0)


def _cubic_sample(x: Any, raw: Sequence[Any], padding: int, align: bool) -> Any:
    shape = x.shape[2:]
    lows = [rnp.floor(at) for at in raw]
    total: Any = 0
    for taps in np.ndindex(*(4,) * len(shape)):
        weight: Any = 1
        index = []
        for at, low, extent, tap in zip(raw, lows, shape, taps, strict=True):
            weight = weight * _cubic_weight(at - low - (tap - 1))
            index.append(_placed(low + (tap - 1), extent, padding, align).astype("i64"))
        total = total + _read(x, index) * rnp.expand_dims(weight, 1)
    return total


def _cubic_weight(distance: Any) -> Any:
    t, a = rnp.abs(distance), -0.75
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
    return rnp.where(rnp.less_equal(t, 1), near, far)


rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")(grid_sample)


@rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sample_backward(
    g: Any, x: Any, grid: Any, mode: int, padding: int, align: bool, wanted: Any
) -> tuple[Any, Any]:
    by_image, _ = wanted
    dx, dgrid = rlx.vjp(lambda x, grid: grid_sample(x, grid, mode, padding, align), x, grid)[1](g)
    return (dx if by_image else None), dgrid
