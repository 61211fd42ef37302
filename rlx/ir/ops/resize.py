"""Resizing of spatial axes, and blocks of space as channels.

Spatial axes are the last ones but `inner`, as for pooling. Everything here is a formula over
reads at fixed positions.
"""

from __future__ import annotations

import functools
import operator
from typing import Literal, TypeAlias

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.op import Trait
from rlx.ir.ops.elementwise import where
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.ops.resample import resample
from rlx.ir.ops.resampling import (
    Array,
    Coordinates,
    Interpolation,
    Resampling,
    Rounding,
    Taps,
    taps_of,
)
from rlx.ir.ops.resize_at_run_time import resampled_at_run_time, whole_factor
from rlx.ir.ops.shape import concat, expand, narrow, reshape, slice, transpose
from rlx.ir.shape import Extent, Shape, divide, format_shape, upper

_FAMILY = "resize"
_MOST_PHASES = 4
"""Whole factors by which an axis grows without a table of positions."""
_MOST_TAPS = 8
"""Terms of a sum that one kernel adds."""
_SAMPLE = 8
"""An extent that shows how an axis of any extent grows by a whole factor."""

BlockOrder: TypeAlias = Literal["dcr", "crd"]
"""Whether the place within a block or the channel varies slowest: depth, column, row or column,
row, depth in the words of ONNX."""


@composite(_FAMILY, Trait.ALL_ELEMENTS)
@in_single_precision
def resize(
    x: Value,
    *,
    size: Shape,
    mode: Interpolation = "nearest",
    coordinates: Coordinates = "half_pixel",
    rounding: Rounding = "round_prefer_floor",
    scale: tuple[float, ...] = (),
    region: tuple[tuple[float, float], ...] = (),
    cubic_coefficient: float = -0.75,
    exclude_outside: bool = False,
    extrapolation: float = 0.0,
    antialias: bool = False,
    inner: int = 0,
) -> Value:
    """Resample the spatial axes to `size`, one after another.

    `scale` is what positions are computed with, by default the quotient of the extents. Where an
    extent is symbolic, positions are computed by the program, unless it grows by a whole factor.
    `region` and `extrapolation` serve `tf_crop_and_resize`.
    """
    first = _first_axis(x, size, inner)
    scales: tuple[float | None, ...] = scale or (None,) * len(size)
    regions = region or ((0.0, 1.0),) * len(size)
    if not len(scales) == len(regions) == len(size) or (scale and min(scale) <= 0):
        raise ShapeError(
            f"scale {scale} and region {region} do not fit size {size}",
            remedy="give one positive scale and one region per spatial axis",
        )
    how = Resampling(mode, coordinates, rounding, cubic_coefficient, exclude_outside, antialias)
    times: dict[int, int] = {}
    for number in _in_order(x.shape[first:], size):
        extent = size[number]
        axis, factor = first + number, scales[number]
        if not isinstance(extent, int) or not isinstance(x.shape[axis], int):
            x = _symbolic(x, axis, extent, factor, how, times)
            continue
        exact = _quotient(x, axis, extent) if factor is None else factor
        taps = taps_of(_static(x, axis), extent, exact, regions[number], how)
        repeats = _repeats(taps, _static(x, axis))
        if repeats is None:
            x = _resampled(x, axis, taps, extrapolation)
        else:
            times[axis] = repeats
    return _repeated(x, times)


def _in_order(shape: Shape, size: Shape) -> list[int]:
    """Return the axes so that few elements are computed: growing ones last, innermost first."""
    pairs = list(zip(shape, size, strict=False))
    grows = [isinstance(a, int) and isinstance(b, int) and b >= a for a, b in pairs]
    others = [number for number, grown in enumerate(grows) if not grown]
    return [*others, *(n for n in reversed(range(len(grows))) if grows[n])]


def _symbolic(
    x: Value, axis: int, size: Extent, scale: float | None, how: Resampling, times: dict[int, int]
) -> Value:
    """Return `x` with a symbolic axis resampled, or enter into `times` how often it repeats."""
    factor = whole_factor(x.shape[axis], size, scale, how)
    if factor is not None:
        taps = taps_of(_SAMPLE, _SAMPLE * factor, factor, (0.0, 1.0), how)
        repeats, phases = _repeats(taps, _SAMPLE), _phases(taps, _SAMPLE)
        if repeats is not None:
            times[axis] = repeats
            return x
        if phases is not None and all(map(_is_even, phases)):
            middle = [[(s, w[_SAMPLE // 2, None]) for s, w in phase] for phase in phases]
            return _interleaved(x, axis, middle)
    return resampled_at_run_time(x, axis, size, scale, how)


def _is_even(phase: list[tuple[int, Array]]) -> bool:
    """True if results of a phase weigh their elements alike, wherever they are."""
    return all(np.allclose(weights, weights[0], rtol=0, atol=1e-12) for _, weights in phase)


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def resize_nearest_2x(x: Value) -> Value:
    """Double height and width of `[N, C, H, W]`: each element four times."""
    if x.rank != 4:
        raise ShapeError(
            f"x has shape {format_shape(x.shape)}; it must be [N, C, H, W]",
            remedy="reshape it to four axes",
        )
    return _repeated(x, {2: 2, 3: 2})


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def depth_to_space(x: Value, *, block: int, order: BlockOrder = "dcr") -> Value:
    """Spread channels over blocks of `block` positions along each axis after axis 1."""
    channels, *spatial = _channels_and_space(x, block)
    places = (block,) * len(spatial)
    depth = divide(channels, block ** len(spatial))
    rank = len(spatial)
    split = (*places, depth) if order == "dcr" else (depth, *places)
    apart = reshape(x, shape=(x.shape[0], *split, *spatial))
    place, kept = (1, 1 + rank) if order == "dcr" else (2, 1)
    pairs = [axis for n in range(rank) for axis in (2 + rank + n, place + n)]
    moved = transpose(apart, perm=(0, kept, *pairs))
    wide: Shape = tuple(extent * block for extent in spatial)
    return reshape(moved, shape=(x.shape[0], depth, *wide))


@composite(_FAMILY, Trait.ALL_ELEMENTS)
def space_to_depth(x: Value, *, block: int, order: BlockOrder = "dcr") -> Value:
    """Gather blocks of `block` positions along each axis after axis 1 as channels."""
    channels, *spatial = _channels_and_space(x, block)
    rank = len(spatial)
    blocks: Shape = tuple(divide(extent, block) for extent in spatial)
    pairs: Shape = tuple(each for extent in blocks for each in (extent, block))
    apart = reshape(x, shape=(x.shape[0], channels, *pairs))
    places = [3 + 2 * n for n in range(rank)]
    front = (*places, 1) if order == "dcr" else (1, *places)
    moved = transpose(apart, perm=(0, *front, *(2 + 2 * n for n in range(rank))))
    return reshape(moved, shape=(x.shape[0], channels * block**rank, *blocks))


def _resampled(x: Value, axis: int, taps: Taps, extrapolation: float) -> Value:
    """Return one axis made of `taps`: as few reads as say the same."""
    if taps.is_copy:
        return _copied(x, axis, taps.indices[:, 0])
    require_dtype(x.type, "float", "x")
    phases = _phases(taps, _static(x, axis))
    if phases is not None:
        return _interleaved(x, axis, phases)
    total = _weighted(x, axis, taps)
    if taps.outside is None:
        return total
    column = (-1, *(1,) * (x.rank - 1 - axis))
    outside = x.graph.constant(taps.outside.reshape(column), "bool")
    return where(outside, extrapolation, total)


def _weighted(x: Value, axis: int, taps: Taps) -> Value:
    """Return sums of a few taps at a time, for a kernel names each of them."""
    parts = []
    for first in range(0, taps.indices.shape[1], _MOST_TAPS):
        stop = first + _MOST_TAPS
        indices = x.graph.constant(taps.indices[:, first:stop].T.astype(np.int32))
        weights = x.graph.constant(taps.weights[:, first:stop].T, x.dtype)
        parts.append(resample(x, indices, weights, axis=axis))
    total: Value = functools.reduce(operator.add, parts)
    return total


def _copied(x: Value, axis: int, indices: Array) -> Value:
    """Return the elements of one axis at fixed positions."""
    own, count = _static(x, axis), len(indices)
    if np.array_equal(indices, np.arange(own)):
        return x
    step = int(indices[1] - indices[0]) if count > 1 else 1
    if step > 0 and np.array_equal(indices, indices[0] + step * np.arange(count)):
        return _strided(x, axis, int(indices[0]), int(indices[-1]) + 1, step)
    return gather(x, x.graph.constant(indices.astype(np.int32)), axis=axis)


def _strided(x: Value, axis: int, start: int, stop: int, step: int) -> Value:
    starts, stops, steps = [0] * x.rank, list(x.shape), [1] * x.rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice(x, start=tuple(starts), stop=tuple(stops), step=tuple(steps))


def _phases(taps: Taps, extent: int) -> list[list[tuple[int, Array]]] | None:
    """Return shifts and weights of each phase of an axis that grows by a small whole factor.

    Results that are a factor apart read the operand shifted by the same distances, with its ends
    repeated. None where that is not so.
    """
    factor, rest = divmod(len(taps.indices), extent)
    if rest or not 2 <= factor <= _MOST_PHASES or taps.outside is not None:
        return None
    found = []
    for phase in range(factor):
        indices, weights = taps.indices[phase::factor].T, taps.weights[phase::factor].T
        shifts = [int(row[extent // 2]) - extent // 2 for row in indices]
        shifted = [np.clip(np.arange(extent) + shift, 0, extent - 1) for shift in shifts]
        if not all(map(np.array_equal, indices, shifted)):
            return None
        found.append(list(zip(shifts, weights, strict=True)))
    return found


def _interleaved(x: Value, axis: int, phases: list[list[tuple[int, Array]]]) -> Value:
    """Compute each phase from shifts of `x` along `axis`, and lay them between each other."""
    extent = x.shape[axis]
    shifts = [shift for phase in phases for shift, _ in phase]
    before, after = max(0, -min(shifts)), max(0, max(shifts))
    ends = [_end(x, axis, 0, before), x, _end(x, axis, extent - 1, after)]
    padded = concat(*(part for part in ends if part is not None), axis=axis)
    column = (-1, *(1,) * (x.rank - 1 - axis))
    parts = []
    for phase in phases:
        terms = [
            narrow(padded, axis=axis, start=before + shift, length=extent)
            * x.graph.constant(weights.reshape(column), x.dtype)
            for shift, weights in phase
        ]
        total: Value = functools.reduce(operator.add, terms)
        parts.append(reshape(total, shape=(*x.shape[: axis + 1], 1, *x.shape[axis + 1 :])))
    wide = (*x.shape[:axis], extent * len(phases), *x.shape[axis + 1 :])
    return reshape(concat(*parts, axis=axis + 1), shape=wide)


def _end(x: Value, axis: int, at: Extent, times: int) -> Value | None:
    """Return one position of an axis, repeated."""
    if times == 0:
        return None
    shape = (*x.shape[:axis], times, *x.shape[axis + 1 :])
    return expand(narrow(x, axis=axis, start=at, length=1), shape=shape)


def _repeats(taps: Taps, extent: int) -> int | None:
    """Return how often every element is repeated in place, or None if that is not all."""
    times, rest = divmod(len(taps.indices), extent)
    ordered = np.arange(len(taps.indices)) // max(times, 1)
    same = taps.is_copy and rest == 0 and np.array_equal(taps.indices[:, 0], ordered)
    return times if same else None


def _repeated(x: Value, times: dict[int, int]) -> Value:
    """Repeat every element along some axes, all in one pass."""
    apart: list[Extent] = []
    wide: list[Extent] = []
    for axis, extent in enumerate(x.shape):
        apart += [extent, 1] if times.get(axis, 1) > 1 else [extent]
        wide += [extent, times[axis]] if times.get(axis, 1) > 1 else [extent]
    if len(apart) == x.rank:
        return x
    spread = expand(reshape(x, shape=tuple(apart)), shape=tuple(wide))
    joined = tuple(extent * times.get(axis, 1) for axis, extent in enumerate(x.shape))
    return reshape(spread, shape=joined)


def _first_axis(x: Value, size: Shape, inner: int) -> int:
    first = x.rank - inner - len(size)
    if not size or first < 0 or inner < 0 or min(map(upper, size)) < 1:
        raise ShapeError(
            f"size {size} with {inner} inner axes does not fit shape {format_shape(x.shape)}",
            remedy="give one positive extent per spatial axis",
        )
    return first


def _quotient(x: Value, axis: int, extent: int) -> float:
    return extent / max(_static(x, axis), 1)


def _static(x: Value, axis: int) -> int:
    extent = x.shape[axis]
    if not isinstance(extent, int) or extent == 0:
        raise ShapeError(
            f"axis {axis} of shape {format_shape(x.shape)} has extent {extent}; "
            "what is resized must have a known extent of 1 or more",
            remedy="bind the extent before compiling",
        )
    return extent


def _channels_and_space(x: Value, block: int) -> tuple[Extent, ...]:
    require_rank(x.type, 3, "x")
    if block < 1:
        raise ShapeError(f"block is {block}; it must be positive", remedy="give 1 or more")
    return x.shape[1:]
