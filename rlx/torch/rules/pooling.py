"""Pooling, and its derivatives."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx import lax, nn
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.torch.registry import rule
from rlx.tracing.apply import emit

_MAX_TAPS = 32
"""Taps of a window up to which they are compared one by one."""


def _each(given: Sequence[int], axes: int) -> tuple[int, ...]:
    return tuple(given) * axes if len(given) == 1 else tuple(given)


def _batched(x: Any, axes: int) -> tuple[Any, bool]:
    """Return images with an axis of examples, and whether it is new."""
    return (rnp.expand_dims(x, 0), True) if x.ndim == axes + 1 else (x, False)


def _max_pool(axes: int) -> Any:
    def apply(
        x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Any, Any]:  # fmt: skip
        x, is_new = _batched(x, axes)
        kernel, padding, dilation = (_each(n, axes) for n in (kernel, padding, dilation))
        stride = _each(stride, axes) if len(stride) else kernel
        if math.prod(kernel) <= _MAX_TAPS:
            values = _max_pool_alone(axes)(x, kernel, stride, padding, dilation, ceil_mode)
            places = _places_of_largest(x, kernel, stride, padding, dilation, values.shape[2:])
        else:
            windows = _windows(x.shape[2:], kernel, stride, padding, dilation, ceil_mode)
            values, places = _largest(x, windows)
        return (rnp.squeeze(values, 0), rnp.squeeze(places, 0)) if is_new else (values, places)

    return apply


def _places_of_largest(
    x: Any, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], counts: Sequence[int],
) -> Any:  # fmt: skip
    """Return the flat place of each window's largest element: of the last NaN, of the first else.

    The elements of one tap in all windows are a strided slice; taps are compared in turn.
    """
    shape = x.shape[2:]
    spans = [(n - 1) * step + 1 for n, step in zip(counts, stride, strict=True)]
    sides = [
        (side, max(0, span + spaced * (taps - 1) - side - extent))
        for extent, taps, side, spaced, span in zip(
            shape, kernel, padding, dilation, spans, strict=True
        )
    ]
    wide = rnp.pad(x, ((0, 0), (0, 0), *sides), constant_values=_lowest(x.value.dtype))
    first, base = _first_places(shape, stride, padding, dilation, counts)
    cut = (x.shape[0], x.shape[1], *counts)
    best = rnp.full(cut, _lowest(x.value.dtype), x.value.dtype)
    chosen = rnp.broadcast_to(first, cut)
    for taps in itertools.product(*map(range, kernel)):
        starts = [spaced * tap for spaced, tap in zip(dilation, taps, strict=True)]
        cuts = [slice(a, a + n, step) for a, n, step in zip(starts, spans, stride, strict=True)]
        found = wide[(slice(None), slice(None), *cuts)]
        flat = 0
        for extent, start in zip(shape, starts, strict=True):
            flat = flat * extent + start
        is_better = (found > best) | (found != found)
        best = rnp.where(is_better, found, best)
        chosen = rnp.where(is_better, base + np.int32(flat), chosen)
    return chosen.astype("i64")


def _first_places(
    shape: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int],
    counts: Sequence[int],
) -> tuple[Any, Any]:  # fmt: skip
    """Return the flat places of each window's first tap in the image, and of its first tap."""
    inside: Any = np.zeros((1,) * len(shape), np.int32)
    all_taps: Any = inside
    for axis, (extent, step, side, spaced, count) in enumerate(
        zip(shape, stride, padding, dilation, counts, strict=True)
    ):
        form = [1] * len(shape)
        form[axis] = count
        start = np.arange(count, dtype=np.int32) * step - side
        skipped = np.maximum(0, -(start // spaced)) * spaced
        inside = inside * extent + (start + skipped).reshape(form)
        all_taps = all_taps * extent + start.reshape(form)
    return inside, all_taps


def _windows(
    shape: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], ceil_mode: bool,
) -> list[Any]:  # fmt: skip
    """Return, per axis, the place of each tap in each window, -1 in the padding."""
    found = []
    for extent, taps, step, side, spaced in zip(
        shape, kernel, stride, padding, dilation, strict=True
    ):
        count = window_count(extent, taps, step, side, spaced, ceil_mode)
        places = np.arange(taps)[:, None] * spaced + np.arange(count) * step - side
        found.append(np.where((places < 0) | (places >= extent), -1, places))
    return found


def window_count(extent: int, taps: int, step: int, side: int, spaced: int, ceil_mode: bool) -> int:
    """Return how many windows there are; none begins in the padding at the end."""
    room = extent + 2 * side - spaced * (taps - 1) - 1
    count = (room + step - 1) // step + 1 if ceil_mode else room // step + 1
    return count - 1 if ceil_mode and (count - 1) * step >= extent + side else count


def _largest(x: Any, windows: list[Any]) -> tuple[Any, Any]:
    """The largest element of each window and its flat place: of the last NaN, of the first else."""
    shape = x.shape[2:]
    flat_places, inside = _flat_windows(windows, shape)
    taps = flat_places.shape[0]
    flat = rnp.reshape(x, (*x.shape[:2], math.prod(shape)))
    candidates = flat[:, :, np.where(inside, flat_places, 0)]
    candidates = rnp.where(inside, candidates, _lowest(x.value.dtype))
    order = _place_of_largest(candidates, inside, 2)
    values = rnp.squeeze(rnp.take_along_axis(candidates, order, 2), 2)
    table = np.broadcast_to(flat_places, (1, 1, taps, flat_places.shape[1]))
    chosen = rnp.broadcast_to(table, candidates.shape)
    places = rnp.squeeze(rnp.take_along_axis(chosen, order, 2), 2)
    counts = tuple(each.shape[1] for each in windows)
    return rnp.reshape(values, (*x.shape[:2], *counts)), rnp.reshape(
        places, (*x.shape[:2], *counts)
    )


def _place_of_largest(x: Any, inside: Any, axis: int) -> Any:
    """Return where along an axis the largest element is: the last NaN, of others the first."""
    largest = rnp.max(x, axis, keepdims=True)
    is_largest = rnp.logical_and(inside, (x == largest) | (x != x))
    last = x.shape[axis] - 1 - rnp.argmax(rnp.flip(is_largest, axis), axis, keepdims=True)
    return rnp.where(largest == largest, rnp.argmax(is_largest, axis, keepdims=True), last)


def _flat_windows(windows: list[Any], shape: Sequence[int]) -> tuple[Any, Any]:
    """Return places in the flattened image, taps by windows, and which are inside of it."""
    axes = len(windows)
    flat: Any = np.zeros((1,) * (2 * axes), dtype=np.int64)
    inside: Any = np.ones((1,) * (2 * axes), dtype=bool)
    for axis, places in enumerate(windows):
        form = [1] * (2 * axes)
        form[axis], form[axes + axis] = places.shape
        wide = places.reshape(form)
        flat = flat * shape[axis] + np.maximum(wide, 0)
        inside = inside & (wide >= 0)
    taps = math.prod(each.shape[0] for each in windows)
    return flat.reshape(taps, -1), np.broadcast_to(inside, flat.shape).reshape(taps, -1)


def _lowest(dtype: DType) -> Any:
    return -math.inf if dtype.is_float else int(rnp.iinfo(dtype.numpy).min)


def _max_pool_backward(axes: int) -> Any:
    def apply(g: Any, x: Any, *given: Any) -> Any:
        places = given[-1]
        lead = x.ndim - axes
        count = math.prod(x.shape[lead:])
        rows = math.prod(x.shape[:lead])
        pooled = math.prod(g.shape[lead:])
        flat_g = rnp.reshape(g, (rows, pooled))
        flat_places = rnp.reshape(places, (rows, pooled))
        total = rnp.zeros((rows, count), g.value.dtype)
        rows_at = np.arange(rows)[:, None]
        return rnp.reshape(total.at[rows_at, flat_places].add(flat_g), x.shape)

    return apply


for _axes in (2, 3):
    rule(f"max_pool{_axes}d_with_indices")(_max_pool(_axes))
    rule(f"max_pool{_axes}d_with_indices_backward")(_max_pool_backward(_axes))
    rule(f"adaptive_max_pool{_axes}d_backward", f"fractional_max_pool{_axes}d_backward")(
        _max_pool_backward(_axes)
    )
rule("max_pool1d_with_indices")(_max_pool(1))


def _max_pool_alone(axes: int) -> Any:
    def apply(
        x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
        ceil_mode: bool = False,
    ) -> Any:  # fmt: skip
        x, is_new = _batched(x, axes)
        kernel, padding, dilation = (_each(n, axes) for n in (kernel, padding, dilation))
        stride = _each(stride, axes) if len(stride) else kernel
        sides = [(n, n) for n in padding]
        found = nn.max_pool(x, kernel, stride, sides, dilation=dilation, ceil_mode=ceil_mode)
        return rnp.squeeze(found, 0) if is_new else found

    return apply


for _axes in (1, 2, 3):
    rule(f"max_pool{_axes}d")(_max_pool_alone(_axes))


def _geometry(
    axes: int, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,),
    ceil_mode: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return windows as our pooling ops have them."""
    kernel = _each(kernel, axes)
    return {
        "kernel_size": kernel, "stride": _each(stride, axes) if len(stride) else kernel,
        "padding": _each(padding, axes), "dilation": _each(dilation, axes), "ceil_mode": ceil_mode,
    }  # fmt: skip


def _avg_pool(axes: int) -> Any:
    def apply(
        x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), ceil_mode: bool = False,
        count_include_pad: bool = True, divisor: int | None = None,
    ) -> Any:  # fmt: skip
        x, is_new = _batched(x, axes)
        geometry = _geometry(axes, kernel, stride, padding, (1,), ceil_mode)
        found = _mean_pool(x, geometry, "padded" if count_include_pad else "inside", divisor)
        return rnp.squeeze(found, 0) if is_new else found

    return apply


def _mean_pool(x: Any, geometry: dict[str, Any], counted: str, divisor: int | None) -> Any:
    is_exact = not x.value.dtype.is_differentiable
    if not (is_exact or divisor):
        return emit(ops.mean_pool, x, divisor=counted, **geometry)
    wide = x.astype("f32") if x.value.dtype.is_low_precision else x
    total = emit(ops.sum_pool, wide, **geometry)
    if not divisor:
        ones = rnp.ones(x.shape, "f64")
        mean = emit(ops.mean_pool, ones, divisor=counted, **geometry)
        count: Any = rnp.rint(emit(ops.sum_pool, ones, **geometry) / mean).astype(x.dtype)
    else:
        count = divisor
    return lax.div(total, rnp.full_like(total, count)) if is_exact else total / count


def _avg_pool_backward(axes: int) -> Any:
    forward = _avg_pool(axes)

    def apply(g: Any, x: Any, *given: Any) -> Any:
        return rlx.vjp(lambda x: forward(x, *given), x)[1](g)[0]

    return apply


for _axes in (1, 2, 3):
    rule(f"avg_pool{_axes}d")(_avg_pool(_axes))
    rule(f"avg_pool{_axes}d_backward")(_avg_pool_backward(_axes))


def adaptive_mean(x: Any, size: Sequence[int]) -> Any:
    """Means of the parts into which each axis is divided."""
    lead = x.ndim - len(size)
    for axis, count in enumerate(size):
        extent = x.shape[lead + axis]
        if count == extent:
            continue
        if isinstance(extent, int) and extent % count:
            x = _parts_means(x, lead + axis, count)
        else:
            shape = (*x.shape[: lead + axis], count, extent // count, *x.shape[lead + axis + 1 :])
            x = rnp.mean(rnp.reshape(x, shape), lead + axis + 1)
    return x


def _parts_means(x: Any, axis: int, count: int) -> Any:
    weights = np.zeros((count, x.shape[axis]))
    for part in range(count):
        low, high = part_of(part, x.shape[axis], count)
        weights[part, low:high] = 1 / (high - low)
    moved = rnp.moveaxis(x, axis, -1)
    found = rnp.matmul(moved, rnp.asarray(weights.T).astype(x.value.dtype))
    return rnp.moveaxis(found, -1, axis)


def part_of(part: int, extent: int, count: int) -> tuple[int, int]:
    """Return where part number `part` of `count` begins and ends."""
    return part * extent // count, -(-(part + 1) * extent // count)


def _backward_of(forward: Any) -> Any:
    def apply(g: Any, x: Any) -> Any:
        return rlx.vjp(lambda x: forward(x, g.shape[x.ndim - _spatial(forward) :]), x)[1](g)[0]

    return apply


def _spatial(forward: Any) -> int:
    return int(forward.__name__[-1])


def _adaptive_mean(axes: int) -> Any:
    def apply(x: Any, size: Sequence[int]) -> Any:
        return adaptive_mean(x, size)

    apply.__name__ = f"mean{axes}"
    return apply


for _axes in (1, 2, 3):
    _rule = _adaptive_mean(_axes)
    rule(f"_adaptive_avg_pool{_axes}d", f"adaptive_avg_pool{_axes}d")(_rule)
    rule(f"_adaptive_avg_pool{_axes}d_backward")(_backward_of(_rule))


def _adaptive_max(axes: int) -> Any:
    def apply(x: Any, size: Sequence[int]) -> tuple[Any, Any]:
        x, is_new = _batched(x, axes)
        windows = []
        for extent, count in zip(x.shape[2:], size, strict=True):
            bounds = [part_of(part, extent, count) for part in range(count)]
            taps = max(high - low for low, high in bounds)
            places = np.full((taps, count), -1)
            for part, (low, high) in enumerate(bounds):
                places[: high - low, part] = np.arange(low, high)
            windows.append(places)
        values, places = _largest(x, windows)
        return (rnp.squeeze(values, 0), rnp.squeeze(places, 0)) if is_new else (values, places)

    return apply


for _axes in (2, 3):
    rule(f"adaptive_max_pool{_axes}d")(_adaptive_max(_axes))


def _fractional(axes: int) -> Any:
    def apply(x: Any, kernel: Any, size: Any, samples: Any) -> tuple[Any, Any]:
        """Windows begin at places that `samples`, `[batch, channels, axes]`, decide.

        Source: B. Graham, Fractional Max-Pooling, 2014: the pseudo-random sequence.
        """
        x, is_new = _batched(x, axes)
        kernel, shape = _each(kernel, axes), x.shape[2:]
        flat: Any = 0
        for axis, (extent, taps, count) in enumerate(zip(shape, kernel, size, strict=True)):
            # PyTorch's samples name the last axis first, in two dimensions; in three, the first.
            own = samples[:, :, axes - 1 - axis if axes == 2 else axis]
            starts = _starts(own, extent, taps, count)
            steps = rnp.expand_dims(starts, -1) + np.arange(taps)
            form = [1] * (2 * axes)
            form[axis], form[axes + axis] = count, taps
            flat = flat * extent + rnp.reshape(steps, (*x.shape[:2], *form))
        rows = (*x.shape[:2], math.prod(size), math.prod(kernel))
        places = rnp.reshape(rnp.broadcast_to(flat, (*x.shape[:2], *size, *kernel)), rows)
        images = rnp.reshape(x, (*x.shape[:2], 1, math.prod(shape)))
        wide = rnp.broadcast_to(images, (*rows[:3], math.prod(shape)))
        candidates = rnp.take_along_axis(wide, places, 3)
        best = _place_of_largest(candidates, True, 3)
        out = (*x.shape[:2], *size)
        values = rnp.reshape(rnp.take_along_axis(candidates, best, 3), out)
        chosen = rnp.reshape(rnp.take_along_axis(places, best, 3), out)
        return (rnp.squeeze(values, 0), rnp.squeeze(chosen, 0)) if is_new else (values, chosen)

    return apply


def _starts(sample: Any, extent: int, taps: int, count: int) -> Any:
    """Return where windows begin; the last ends with the axis."""
    if count == 1:
        return rnp.full((*sample.shape, 1), extent - taps)
    alpha = rnp.asarray((extent - taps) / (count - 1)).astype(sample.dtype)
    sample = rnp.expand_dims(sample, -1)
    steps = rnp.arange(count - 1).astype(sample.dtype)
    first = rnp.trunc((steps + sample) * alpha) - rnp.trunc(sample * alpha)
    last = rnp.full((*first.shape[:-1], 1), extent - taps)
    return rnp.concatenate([first.astype("i64"), last], -1)


for _axes in (2, 3):
    rule(f"fractional_max_pool{_axes}d")(_fractional(_axes))
