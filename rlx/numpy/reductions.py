"""Reductions over axes, and those that ignore NaN (`nansum` and the like)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of
from rlx.numpy.creation import dtype_of, ones_like
from rlx.numpy.shaping import expand_dims, ravel, reshape, transpose
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact, wrap
from rlx.tracing.promotion import to_inexact
from rlx.tracing.trace import TracedArray, as_value, element_type
from rlx.tracing.widths import wide_types


@function
def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    promote_integers: bool = True,
) -> Array:
    """Sum; bools and small integers add up in i64, unless `promote_integers` is False."""
    a = _widened(a, dtype, promote_integers)
    kept = a if where is None else elementwise.where(where, a, 0)
    is_bool = a.value.dtype is DType.BOOL  # which the caller asks for
    found = _fold(ops.reduce_max if is_bool else ops.reduce_sum, kept, axis, keepdims)
    if initial is not None:
        found = elementwise.add(found, _initial_of(found, initial))
    return convert(found, DType.BOOL) if is_bool else found


@function
def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    *,
    promote_integers: bool = True,
) -> Array:
    """Product; bools and small integers multiply in i64, unless `promote_integers` is False."""
    a = _widened(a, dtype, promote_integers)
    kept = a if where is None else elementwise.where(where, a, 1)
    is_bool = a.value.dtype is DType.BOOL  # which the caller asks for
    found = _fold(ops.reduce_min if is_bool else ops.reduce_prod, kept, axis, keepdims)
    if initial is not None:
        found = elementwise.multiply(found, _initial_of(found, initial))
    return convert(found, DType.BOOL) if is_bool else found


def of_integers(
    statistic: Callable[..., Any], x: Any, *args: Any, to: DType | None = None, **how: Any
) -> Any:
    """Return a statistic of integers, computed in f64 and rounded once: `to`, or their float type.

    In f32, which holds no i32 above 2^24, differences of large integers would be lost.
    """
    with wide_types():
        found = statistic(convert(x, DType.F64), *args, **how)
    return convert(found, to or to_inexact(element_type(x)).dtype)


@function
def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Arithmetic mean; of integers it is computed in f64."""
    if dtype is None and element_type(a).dtype.is_int:
        return of_integers(mean, a, axis, keepdims=keepdims, where=where)
    (a,) = inexact(a) if dtype is None else [convert(a, dtype_of(dtype, DType.F64))]
    is_int = a.value.dtype.is_int
    if where is None and not is_int:
        return _fold(ops.reduce_mean, a, axis, keepdims)
    chosen = True if where is None else where
    total = sum(a, axis, keepdims=keepdims, where=where)
    count = sum(elementwise.where(chosen, ones_like(a), 0), axis, keepdims=keepdims)
    if is_int:  # where the caller asks for integers, it is cut off
        return convert(emit(ops.div, total, count), a.value.dtype)
    return elementwise.divide(total, count)


@function
def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Weighted mean; with `returned` also the sum of the weights."""
    if weights is None and not returned:
        return mean(a, axis, keepdims=keepdims)
    (a,) = inexact(a)
    if weights is None:
        found = mean(a, axis, keepdims=keepdims)
        ones = ones_like(a)
        return (found, sum(ones, axis, keepdims=keepdims)) if returned else found
    a, weights = inexact(a, weights)
    if weights.shape != a.shape:
        weights = _aligned(weights, a, axis)
    total = sum(elementwise.multiply(a, weights), axis, keepdims=keepdims)
    weight = sum(elementwise.multiply(weights, ones_like(a)), axis, keepdims=keepdims)
    found = elementwise.divide(total, weight)
    return (found, weight) if returned else found


def _aligned(weights: Any, x: Any, axis: Any) -> Any:
    """Move the axes of weights of the extents of `axis`, in its order, to those of `x`."""
    axes = axes_of(axis, x.ndim)
    wanted = tuple(x.shape[a] for a in axes)
    if axis is None or weights.shape != wanted:
        raise ShapeError(
            f"weights have shape {weights.shape}; x has {x.shape}, with {wanted} on axis {axis}",
            remedy="give weights of the shape of x, or of its extents on the axes",
        )
    ordered = transpose(weights, sorted(range(len(axes)), key=axes.__getitem__))
    return reshape(ordered, tuple(e if a in axes else 1 for a, e in enumerate(x.shape)))


@function
def max(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Largest element; NaN if there is one. `where` needs `initial`, which takes part."""
    initial = None if initial is None else _initial_of(a, initial)
    if where is not None:
        a = _with_initial(a, initial, where)
    found = _extremum(ops.reduce_max, a, axis, keepdims, initial)
    return found if initial is None else elementwise.maximum(found, initial)


@function
def min(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Smallest element; NaN if there is one. `where` needs `initial`, which takes part."""
    initial = None if initial is None else _initial_of(a, initial)
    if where is not None:
        a = _with_initial(a, initial, where)
    found = _extremum(ops.reduce_min, a, axis, keepdims, initial)
    return found if initial is None else elementwise.minimum(found, initial)


amax, amin = max, min


@function
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Array:
    """Largest less smallest."""
    return elementwise.subtract(max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


@function
def any(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """True where one element is nonzero."""
    chosen = convert(a, DType.BOOL)
    if where is not None:
        chosen = elementwise.where(where, chosen, False)
    return _fold(ops.reduce_max, chosen, axis, keepdims)


@function
def all(
    a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Array:
    """True where every element is nonzero."""
    chosen = convert(a, DType.BOOL)
    if where is not None:
        chosen = elementwise.where(where, chosen, True)
    return _fold(ops.reduce_min, chosen, axis, keepdims)


@function
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    return sum(convert(a, DType.BOOL), axis, keepdims=keepdims)


@function
def argmax(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Index of the first largest element; NaN counts as largest."""
    return _search(ops.argmax, a, axis, keepdims)


@function
def argmin(a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Index of the first smallest element; NaN counts as smallest."""
    return _search(ops.argmin, a, axis, keepdims)


@function
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Sum of what is no NaN."""
    kept = elementwise.where(elementwise.isnan(a), 0, a)
    return sum(kept, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@function
def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Product of what is no NaN."""
    kept = elementwise.where(elementwise.isnan(a), 1, a)
    return prod(kept, axis, dtype, keepdims=keepdims, initial=initial, where=where)


@function
def nanargmax(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Index of the first largest element that is no NaN; -1 where there is none."""
    return _nan_search(ops.argmax, -np.inf, a, axis, keepdims)


@function
def nanargmin(
    a: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False
) -> Array:
    """Index of the first smallest element that is no NaN; -1 where there is none."""
    return _nan_search(ops.argmin, np.inf, a, axis, keepdims)


def _nan_search(definition: OpDef, worst: float, x: Any, axis: Any, keepdims: bool) -> Any:
    missing = elementwise.isnan(x)
    kept = x if not as_tracer(x).value.dtype.is_float else elementwise.where(missing, worst, x)
    found = _search(definition, kept, axis, keepdims)
    return elementwise.where(all(missing, axis, keepdims=keepdims), -1, found)


@function
def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Array:
    """Mean of what is no NaN."""
    return mean(a, axis, dtype, keepdims=keepdims, where=present(a, where))


def present(x: Any, where: Any) -> Any:
    """Return where elements are no NaN, and chosen."""
    valid = elementwise.logical_not(elementwise.isnan(x))
    return valid if where is None else elementwise.logical_and(valid, where)


@function
def nanmax(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Largest element that is no NaN; NaN if there is none. `where` needs `initial`."""
    if initial is None and where is None:
        return _nan_extremum(max, -np.inf, a, axis, keepdims)
    return max(a, axis, keepdims=keepdims, initial=initial, where=present(a, where))


@function
def nanmin(
    a: Any,
    axis: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Array:
    """Smallest element that is no NaN; NaN if there is none. `where` needs `initial`."""
    if initial is None and where is None:
        return _nan_extremum(min, np.inf, a, axis, keepdims)
    return min(a, axis, keepdims=keepdims, initial=initial, where=present(a, where))


def _nan_extremum(fold: Any, worst: float, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_tracer(x)
    if not x.value.dtype.is_float:
        return fold(x, axis, keepdims=keepdims)
    missing = elementwise.isnan(x)
    found = fold(elementwise.where(missing, worst, x), axis, keepdims=keepdims)
    return elementwise.where(all(missing, axis, keepdims=keepdims), np.nan, found)


def _fold(definition: OpDef, x: Any, axis: Any, keepdims: bool) -> Any:
    return emit(definition, x, axes=axes_of(axis, x.ndim), keepdims=keepdims)


def _with_initial(x: Any, initial: Any, where: Any) -> Any:
    """Return `x` with `initial` where the mask is false."""
    if initial is None:
        raise ShapeError(
            "an extremum over a mask has no result where the mask is false everywhere",
            remedy="pass initial= as well",
        )
    return elementwise.where(where, x, initial)


def _initial_of(x: Any, initial: Any) -> Any:
    """Return the initial value in the dtype of what it takes part in, as in NumPy."""
    type, given = element_type(x), element_type(initial).dtype
    if given.is_complex and not type.dtype.is_complex:
        raise DTypeError(
            f"initial is a complex number and the elements are {type.dtype}",
            remedy="convert the array to complex numbers, or pass the real part",
        )
    is_known = not isinstance(initial, TracedArray)
    if is_known and given.is_float and type.dtype.is_int and not np.all(np.isfinite(initial)):
        raise DTypeError(
            f"initial is {initial} and the elements are {type.dtype}",
            remedy="convert the array to floats, or pass an integer",
        )
    return wrap(as_value(initial, type.dtype), weak=type.weak)


def _extremum(definition: OpDef, x: Any, axis: Any, keepdims: bool, initial: Any = None) -> Any:
    x = as_tracer(x)
    axes = axes_of(axis, x.ndim)
    if x.value.dtype.is_complex:
        raise DTypeError(
            "complex numbers have no order",
            remedy="compare rlx.numpy.abs(x), or the real parts",
        )
    if initial is None and 0 in [x.shape[a] for a in axes]:
        raise ShapeError(
            f"an empty axis of shape {x.shape} has no largest or smallest element",
            remedy="check for empty arrays before the call, or reduce another axis",
        )
    return emit(definition, x, axes=axes, keepdims=keepdims)


def _search(definition: OpDef, x: Any, axis: int | None, keepdims: bool) -> Any:
    x = as_tracer(x)
    if axis is not None:
        return emit(definition, x, axis=normalize_axis(axis, x.ndim), keepdims=keepdims)
    found = emit(definition, ravel(x), axis=0)
    return expand_dims(found, tuple(range(x.ndim))) if keepdims else found


def _widened(x: Any, dtype: Any, promote_integers: bool) -> Any:
    x = as_tracer(x)
    if dtype is not None:
        return convert(x, dtype_of(dtype, DType.F64))
    widest = widest_integer(x.value.dtype) if promote_integers else None
    return x if widest is None else convert(x, widest)


def widest_integer(dtype: DType) -> DType | None:
    """Return the dtype in which integers of `dtype` are summed and multiplied; None for floats."""
    if dtype.is_unsigned_int:
        return DType.U64
    return DType.I64 if dtype.is_int or dtype is DType.BOOL else None
