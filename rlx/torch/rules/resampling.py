"""Resized images, and images sampled at given places."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.onnx.operators import sampling
from rlx.torch.registry import rule
from rlx.tracing.apply import emit


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
        if not scales and all(_repeats(n, m) for n, m in zip(x.shape[2:], sizes, strict=True)):
            return emit(
                ops.resize, x, size=sizes, coordinates="asymmetric", rounding="floor"
            )  # fmt: skip
        for axis in range(axes):
            extent, count = x.shape[2 + axis], sizes[axis]
            step = np.float32(_step(extent, count, scales[axis] if scales else None, False))
            places = np.arange(count, dtype=np.float32)
            chosen = np.floor((places + np.float32(0.5)) * step if exact else places * step)
            index = np.minimum(chosen.astype(np.int64), extent - 1)
            x = rnp.take(x, index, 2 + axis)
        return x

    return apply


def _repeats(extent: Any, size: Any) -> bool:
    """True if an axis grows by a whole factor: each element is repeated."""
    numbers = isinstance(extent, int) and isinstance(size, int) and extent > 0
    return numbers and size >= extent and size % extent == 0


def _scales(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one scale per axis; none where they are not given."""
    flat = [n for each in given for n in (each if isinstance(each, list) else [each])]
    return tuple(flat) if any(n is not None for n in flat) else ()


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
        wide = x.astype("f32") if not dtype.is_float else x
        if antialias:
            wide = _filtered(wide, sizes, scales, align, cubic)
        else:
            wide = emit(
                ops.resize, wide, size=sizes, scale=() if align else scales,
                mode="cubic" if cubic else "linear",
                coordinates="align_corners" if align else "half_pixel",
            )  # fmt: skip
        if not dtype.is_float:
            limits = rnp.iinfo(dtype.numpy)
            wide = rnp.clip(rnp.rint(wide), limits.min, limits.max)
        return wide

    return apply


def _filtered(x: Any, sizes: Any, scales: Any, align: bool, cubic: bool) -> Any:
    wide = x.astype("f32") if x.value.dtype.is_low_precision else x
    for axis, count in enumerate(sizes):
        scale = scales[axis] if scales else None
        matrix = _antialiased(x.shape[2 + axis], count, scale, align, cubic)
        moved = rnp.moveaxis(wide, 2 + axis, -1)
        weights = rnp.asarray(matrix.T).astype(wide.value.dtype)
        wide = rnp.moveaxis(rnp.matmul(moved, weights), -1, 2 + axis)
    return wide


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


def grid_sample(x: Any, grid: Any, mode: int, padding: int, align: bool) -> Any:
    """Images sampled at places in [-1, 1]: by the function that ONNX's GridSample is, too."""
    modes, paddings = ("linear", "nearest", "cubic"), ("zeros", "border", "reflection")
    return sampling.grid_sample(
        x, grid, mode=modes[mode], padding_mode=paddings[padding], align_corners=int(align)
    )


rule("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")(grid_sample)


@rule("grid_sampler_2d_backward", "grid_sampler_3d_backward")
def grid_sample_backward(
    g: Any, x: Any, grid: Any, mode: int, padding: int, align: bool, wanted: Any
) -> tuple[Any, Any]:
    by_image, _ = wanted
    dx, dgrid = rlx.vjp(lambda x, grid: grid_sample(x, grid, mode, padding, align), x, grid)[1](g)
    return (dx if by_image else None), dgrid
