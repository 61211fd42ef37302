"""Reductions, running sums and softmax in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.reference.registry import Array, reference
from rlx.ir.reference.weights import weight

_sum: Any = np.add.reduce  # what np.sum calls, without its dispatch
_prod: Any = np.multiply.reduce
_max: Any = np.maximum.reduce
_min: Any = np.minimum.reduce


@reference(ops.reduce_sum)
def reduce_sum(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _sum(x, axis=_axes(x, axes), keepdims=keepdims, dtype=x.dtype)


@reference(ops.reduce_mean)
def reduce_mean(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    folded = _axes(x, axes)
    count = math.prod(x.shape[axis] for axis in folded)
    return _sum(x, axis=folded, keepdims=keepdims, dtype=x.dtype) / x.dtype.type(count)


@reference(ops.reduce_prod)
def reduce_prod(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _prod(x, axis=_axes(x, axes), keepdims=keepdims, dtype=x.dtype)


@reference(ops.reduce_max)
def reduce_max(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _max(x, axis=_axes(x, axes), keepdims=keepdims, initial=bounds(x.dtype)[0])


@reference(ops.reduce_min)
def reduce_min(x: Array, *, axes: tuple[int, ...], keepdims: bool) -> Array:
    return _min(x, axis=_axes(x, axes), keepdims=keepdims, initial=bounds(x.dtype)[1])


@reference(ops.argmax)
def argmax(x: Array, *, axis: int, keepdims: bool) -> Array:
    return np.argmax(x, axis=axis, keepdims=keepdims).astype(np.int64)


@reference(ops.argmin)
def argmin(x: Array, *, axis: int, keepdims: bool) -> Array:
    return np.argmin(x, axis=axis, keepdims=keepdims).astype(np.int64)


@reference(ops.cumsum)
def cumsum(x: Array, *, axis: int, exclusive: bool, reverse: bool) -> Array:
    forward = np.moveaxis(x, axis, 0)[:: -1 if reverse else 1]
    if exclusive:
        forward = np.concatenate([np.zeros_like(forward[:1]), forward[:-1]])
    running = np.cumsum(forward, axis=0, dtype=x.dtype)[:: -1 if reverse else 1]
    return np.moveaxis(running, 0, axis)


def _running(ufunc: np.ufunc) -> Callable[..., Array]:
    def accumulate(x: Array, *, axis: int, reverse: bool) -> Array:
        given = np.flip(x, axis) if reverse else x
        found = ufunc.accumulate(given, axis, dtype=x.dtype)
        if ufunc is not np.multiply and x.dtype.kind not in "biu":
            found = _first_zero_kept(given, found, axis)
        return np.flip(found, axis) if reverse else found

    return accumulate


def _first_zero_kept(x: Array, extrema: Array, axis: int) -> Array:
    """Return running extrema whose zeros, one after the other, have the sign of the first."""
    if not x.shape[axis]:
        return extrema
    zero = extrema == 0
    first = np.take_along_axis(x, np.argmax(zero, axis=axis, keepdims=True), axis)
    return np.where(zero, first, extrema)


reference.register(ops.cumprod, _running(np.multiply))
reference.register(ops.cummax, _running(np.maximum))
reference.register(ops.cummin, _running(np.minimum))


@reference(ops.softmax)
def softmax(x: Array, *, axis: int) -> Array:
    weights = weight(x - _largest(x, axis))
    return weights / np.sum(weights, axis=axis, keepdims=True)


@reference(ops.log_softmax)
def log_softmax(x: Array, *, axis: int) -> Array:
    shifted = x - _largest(x, axis)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _largest(x: Array, axis: int) -> Array:
    """Nothing has none; what is taken from it stays nothing."""
    found: Array = np.max(x, axis=axis, keepdims=True) if x.shape[axis] else np.zeros((), x.dtype)
    return found


def _axes(x: Array, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple({axis % x.ndim for axis in axes})


def bounds(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the least and the greatest value of a dtype."""
    if dtype == np.bool_:
        return False, True
    if dtype.kind not in "iu":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max
