"""Pooling in NumPy: every window is written out, then folded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.ops.pool_geometry import WindowAxis, window_axes
from rlx.ir.reference.registry import Array, reference


@reference(ops.max_pool)
def max_pool(x: Array, **geometry: Any) -> Array:
    return np.max(_windows(x, _least(x), **geometry), axis=-1)


@reference(ops.min_pool)
def min_pool(x: Array, **geometry: Any) -> Array:
    return np.min(_windows(x, _greatest(x), **geometry), axis=-1)


@reference(ops.sum_pool)
def sum_pool(x: Array, **geometry: Any) -> Array:
    return np.sum(_windows(x, 0, **geometry), axis=-1, dtype=x.dtype)


@reference(ops.prod_pool)
def prod_pool(x: Array, **geometry: Any) -> Array:
    return np.prod(_windows(x, 1, **geometry), axis=-1, dtype=x.dtype)


@reference(ops.max_pool_take)
def max_pool_take(x: Array, values: Array, **geometry: Any) -> Array:
    taps = _windows(x, -np.inf, **geometry)
    chosen = np.argmax(taps, axis=-1)[..., None]
    taken = np.take_along_axis(_windows(values, 0, **geometry), chosen, axis=-1)[..., 0]
    return np.where(_has_maximum(taps, chosen), taken, np.zeros((), values.dtype))


@reference(ops.max_pool_backward)
def max_pool_backward(x: Array, dy: Array, **geometry: Any) -> Array:
    taps = _windows(x, -np.inf, **geometry)
    chosen = np.argmax(taps, axis=-1)[..., None]
    places = np.arange(x.size).reshape(x.shape)
    at = np.take_along_axis(_windows(places, 0, **geometry), chosen, axis=-1)[..., 0]
    found = _has_maximum(taps, chosen)
    dx = np.zeros(x.size, dy.dtype)
    np.add.at(dx, at[found], dy[found])
    return dx.reshape(x.shape)


def _windows(x: Array, fill: Any, *, inner: int, **geometry: Any) -> Array:
    """Return the elements of every window along a new last axis, `fill` for padding."""
    axes = window_axes(x.shape, inner=inner, **geometry)
    first = x.ndim - inner - len(axes)
    widths = [(0, 0)] * x.ndim
    for position, axis in enumerate(axes, start=first):
        widths[position] = (axis.low, max(_static(axis.span) - axis.low - x.shape[position], 0))
    padded = np.pad(x, widths, constant_values=np.asarray(fill).astype(x.dtype))
    for position, axis in enumerate(axes, start=first):
        padded = np.stack(_taps(padded, position, axis), axis=-1)
    return padded.reshape(*padded.shape[: x.ndim], math.prod(axis.size for axis in axes))


def _taps(x: Array, position: int, axis: WindowAxis) -> list[Array]:
    lines = np.arange(_static(axis.count)) * axis.stride
    return [np.take(x, lines + tap * axis.dilation, position) for tap in range(axis.size)]


def _has_maximum(taps: Array, chosen: Array) -> Array:
    largest = np.take_along_axis(taps, chosen, axis=-1)[..., 0]
    return (largest > -np.inf) | np.isnan(largest)


def _static(extent: Any) -> int:
    return int(extent)


def _least(x: Array) -> Any:
    return -np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).min


def _greatest(x: Array) -> Any:
    return np.inf if x.dtype.kind not in "iu" else np.iinfo(x.dtype).max
