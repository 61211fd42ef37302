"""Sorts, and searches in sorted arrays."""

from __future__ import annotations

import math
from typing import Any

import rlx.numpy as rnp
from rlx.ir.dtype import DType
from rlx.torch.registry import rule


def _keys(x: Any) -> Any:
    return x.astype("uint8") if x.value.dtype is DType.BOOL else x


def _sorted(x: Any, axis: int, descending: bool) -> tuple[Any, Any]:
    """Values and their places; equal ones keep their order."""
    if x.ndim == 0:
        return x, rnp.zeros((), "i64")
    keys = _keys(x)
    places = rnp.argsort(keys, axis=axis, descending=descending, stable=True)
    if descending and x.value.dtype.is_float:
        places = _with_nan_first(x, axis)
    return rnp.take_along_axis(x, places, axis), places


def _with_nan_first(x: Any, axis: int) -> Any:
    """The order of falling numbers; NaN counts as the largest."""
    flipped = rnp.flip(x, axis)
    rising = rnp.argsort(flipped, axis=axis, stable=True)
    return x.shape[axis] - 1 - rnp.flip(rising, axis)


@rule("sort", "sort.stable")
def sort(x: Any, *given: Any, **named: Any) -> tuple[Any, Any]:
    rest = [each for each in given if each is not None]
    axis = named.get("dim", rest[0] if rest else -1)
    descending = named.get("descending", rest[1] if len(rest) > 1 else False)
    return _sorted(x, axis, descending)


@rule("topk")
def topk(
    x: Any, k: int, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Any, Any]:
    del sorted
    if x.ndim == 0:
        return x, rnp.zeros((), "i64")
    values, places = _sorted(x, axis, largest)
    cut = (*(slice(None),) * (axis % x.ndim), slice(0, k))
    return values[cut], places[cut]


@rule("kthvalue")
def kthvalue(x: Any, k: int, axis: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    return _at(x, k - 1, axis, keepdim)


def _at(x: Any, place: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    if x.ndim == 0:
        return x, rnp.zeros((), "i64")
    values, places = _sorted(x, axis, False)
    value, origin = rnp.take(values, place, axis), rnp.take(places, place, axis)
    if keepdim:
        return rnp.expand_dims(value, axis), rnp.expand_dims(origin, axis)
    return value, origin


@rule("median", "nanmedian")
def median(x: Any) -> Any:
    flat = rnp.reshape(x, (-1,))
    return median_dim(flat, 0)[0]


@rule("nanmedian")
def nanmedian(x: Any) -> Any:
    return nanmedian_dim(rnp.reshape(x, (-1,)), 0)[0]


@rule("median.dim")
def median_dim(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
    """The lower of two middles; NaN where there is one."""
    if x.ndim == 0:
        return x, rnp.zeros((), "i64")
    count = x.shape[axis]
    values, places = _at(x, (count - 1) // 2, axis, True)
    if x.value.dtype.is_float:
        is_nan = rnp.isnan(x)
        has_nan = rnp.any(is_nan, axis, keepdims=True)
        first = rnp.argmax(is_nan.astype("uint8"), axis, keepdims=True)
        values, places = rnp.where(has_nan, math.nan, values), rnp.where(has_nan, first, places)
    return _kept(values, places, axis, keepdim)


@rule("nanmedian.dim")
def nanmedian_dim(x: Any, axis: int, keepdim: bool = False) -> tuple[Any, Any]:
    if x.ndim == 0 or not x.value.dtype.is_float:
        lower: tuple[Any, Any] = median_dim(x, axis, keepdim)
        return lower
    values, places = _sorted(x, axis, False)
    numbers = rnp.sum(rnp.logical_not(rnp.isnan(x)).astype("i64"), axis, keepdims=True)
    middle = rnp.maximum(rnp.floor_divide(numbers - 1, 2), 0)
    value = rnp.take_along_axis(values, middle, axis)
    return _kept(value, rnp.take_along_axis(places, middle, axis), axis, keepdim)


def _kept(values: Any, places: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    if keepdim:
        return values, places
    return rnp.squeeze(values, axis), rnp.squeeze(places, axis)


@rule("mode")
def mode(x: Any, axis: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The smallest of the most frequent values, and its last place."""
    if x.ndim == 0:
        return x, rnp.zeros((), "i64")
    axis %= x.ndim
    same = rnp.equal(rnp.expand_dims(x, axis), rnp.expand_dims(x, axis + 1))
    counts = rnp.sum(same.astype("i64"), axis)
    most = rnp.max(counts, axis, keepdims=True)
    values, _ = _sorted(x, axis, False)
    order = _sorted(x, axis, False)[1]
    is_best = rnp.equal(rnp.take_along_axis(counts, order, axis), most)
    first = rnp.argmax(is_best.astype("uint8"), axis, keepdims=True)
    value = rnp.take_along_axis(values, first, axis)
    shape = tuple(-1 if i == axis else 1 for i in range(x.ndim))
    steps = rnp.reshape(rnp.arange(x.shape[axis]), shape)
    place = rnp.max(rnp.where(rnp.equal(x, value), steps, -1), axis, keepdims=True)
    return _kept(value, place, axis, keepdim)


@rule("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    rows: Any, values: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    del out_int32
    side = side or ("right" if right else "left")
    values = rnp.asarray(values)
    if sorter is not None:
        rows = rnp.take_along_axis(rows, sorter, -1)
    if rows.ndim == 1:
        return rnp.searchsorted(rows, values, side=side)
    below = rnp.expand_dims(rows, -2)
    each = rnp.expand_dims(values, -1)
    is_before = rnp.less_equal(below, each) if side == "right" else rnp.less(below, each)
    return rnp.sum(is_before.astype("i64"), -1)


@rule("bucketize.Tensor", "bucketize.Scalar")
def bucketize(values: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    del out_int32
    return rnp.searchsorted(boundaries, rnp.asarray(values), side="right" if right else "left")


@rule("histc", typed=True)
def histc(result: Any, x: Any, bins: int = 100, low: Any = 0, high: Any = 0) -> Any:
    if 0 in x.shape:
        return rnp.zeros((bins,), result.dtype)
    x = rnp.reshape(x, (-1,))
    first, last = rnp.asarray(low).astype(x.dtype), rnp.asarray(high).astype(x.dtype)
    if low == high == 0:
        first, last = rnp.min(x), rnp.max(x)
    is_same = rnp.equal(first, last)
    first, last = rnp.where(is_same, first - 1, first), rnp.where(is_same, last + 1, last)
    wide = "f64" if x.value.dtype is DType.F64 or not x.value.dtype.is_float else "f32"
    scaled = (x.astype(wide) - first.astype(wide)) * bins / (last - first).astype(wide)
    place = rnp.floor(scaled).astype("i64")
    place = rnp.where(rnp.equal(x, last), bins - 1, place)
    inside = rnp.logical_and(rnp.greater_equal(x, first), rnp.less_equal(x, last))
    counts = rnp.zeros((bins,), result.dtype)
    return counts.at[rnp.where(inside, place, 0)].add(inside.astype(result.dtype))
