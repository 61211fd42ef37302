"""Functions that fold axes away, running sums and products, and sorting."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import DTypeError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import Extent, normalize_axis, product
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of, count_from, static_shape
from rlx.numpy.creation import dtype_of, ones_like
from rlx.numpy.shaping import concatenate, expand_dims, moveaxis, ravel, reshape, transpose
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact, promoted


@function
def sum(
    x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None
) -> Any:
    """Sum; bools and small integers add up in i64."""
    x = _widened(x, dtype) if where is None else elementwise.where(where, _widened(x, dtype), 0)
    return _fold(ops.reduce_sum, x, axis, keepdims)


@function
def prod(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """Product; bools and small integers multiply in i64."""
    return _fold(ops.reduce_prod, _widened(x, dtype), axis, keepdims)


@function
def mean(
    x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False, where: Any = None
) -> Any:
    """Arithmetic mean."""
    (x,) = inexact(x)
    if dtype is not None:
        x = convert(x, dtype_of(dtype, DType.F64))
    if where is None:
        return _fold(ops.reduce_mean, x, axis, keepdims)
    chosen = elementwise.multiply(elementwise.astype(where, x.dtype), ones_like(x))
    return elementwise.divide(
        sum(x, axis, keepdims=keepdims, where=where), sum(chosen, axis, keepdims=keepdims)
    )


@function
def average(
    x: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: bool = False,
) -> Any:
    """Weighted mean; with `returned` also the sum of the weights."""
    (x,) = inexact(x)
    if weights is None:
        found = mean(x, axis, keepdims=keepdims)
        ones = ones_like(x)
        return (found, sum(ones, axis, keepdims=keepdims)) if returned else found
    x, weights = inexact(x, weights)
    if weights.shape != x.shape:
        weights = _aligned(weights, x, axis)
    total = sum(elementwise.multiply(x, weights), axis, keepdims=keepdims)
    weight = sum(elementwise.multiply(weights, ones_like(x)), axis, keepdims=keepdims)
    found = elementwise.divide(total, weight)
    return (found, weight) if returned else found


def _aligned(weights: Any, x: Any, axis: Any) -> Any:
    """Bring weights of the extents of `axis`, in its order, to where these axes lie in `x`."""
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
def var(x: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
    """Variance about the mean; divided by the count less `ddof`."""
    (x,) = inexact(x)
    centered = elementwise.subtract(x, mean(x, axis, keepdims=True))
    squares = (
        emit(ops.complex_norm_sq, centered)
        if x.value.dtype.is_complex
        else elementwise.square(centered)
    )
    if ddof == 0:
        return mean(squares, axis, keepdims=keepdims)
    count = _count(x, axis) - ddof
    return elementwise.divide(sum(squares, axis, keepdims=keepdims), np.maximum(count, 0).item())


@function
def std(x: Any, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
    """Standard deviation: the root of `var`."""
    return elementwise.sqrt(var(x, axis, ddof=ddof, keepdims=keepdims))


@function
def max(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest element; NaN if there is one."""
    return _extremum(ops.reduce_max, x, axis, keepdims)


@function
def min(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Smallest element; NaN if there is one."""
    return _extremum(ops.reduce_min, x, axis, keepdims)


amax, amin = max, min


@function
def ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest less smallest."""
    return elementwise.subtract(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


@function
def any(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """True where one element is nonzero."""
    return _fold(ops.reduce_max, convert(x, DType.BOOL), axis, keepdims)


@function
def all(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """True where every element is nonzero."""
    return _fold(ops.reduce_min, convert(x, DType.BOOL), axis, keepdims)


@function
def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum(convert(x, DType.BOOL), axis, keepdims=keepdims)


@function
def argmax(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Index of the first largest element; NaN counts as largest."""
    return _search(ops.argmax, x, axis, keepdims)


@function
def argmin(x: Any, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Index of the first smallest element; NaN counts as smallest."""
    return _search(ops.argmin, x, axis, keepdims)


@function
def nansum(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return sum(elementwise.where(elementwise.isnan(x), 0, x), axis, keepdims=keepdims)


@function
def nanmean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return mean(x, axis, keepdims=keepdims, where=elementwise.logical_not(elementwise.isnan(x)))


@function
def nanmax(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Largest element that is no NaN; NaN if there is none."""
    return _nan_extremum(max, -np.inf, x, axis, keepdims)


@function
def nanmin(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """Smallest element that is no NaN; NaN if there is none."""
    return _nan_extremum(min, np.inf, x, axis, keepdims)


def _nan_extremum(fold: Any, worst: float, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_tracer(x)
    if not x.value.dtype.is_float:
        return fold(x, axis, keepdims=keepdims)
    missing = elementwise.isnan(x)
    found = fold(elementwise.where(missing, worst, x), axis, keepdims=keepdims)
    return elementwise.where(all(missing, axis, keepdims=keepdims), np.nan, found)


# Along an axis


@function
def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running sum."""
    x = as_tracer(x)
    if dtype is not None or x.value.dtype is DType.BOOL:
        x = convert(x, dtype_of(dtype, DType.I64))
    if axis is None:
        x, axis = ravel(x), 0
    return emit(ops.cumsum, x, weak=x.weak, axis=normalize_axis(axis, x.ndim))


@function
def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Running product, by doubling: each step multiplies by what lies 1, 2, 4, .. before."""
    x = as_tracer(x)
    if dtype is not None or x.value.dtype is DType.BOOL:
        x = convert(x, dtype_of(dtype, DType.I64))
    if axis is None:
        x, axis = ravel(x), 0
    position, distance = normalize_axis(axis, x.ndim), 1
    extent = static_shape(x)[position]
    while distance < extent:
        x = elementwise.multiply(x, _delayed(x, position, distance))
        distance *= 2
    return x


def _delayed(x: Any, axis: int, distance: int) -> Any:
    """Move elements `distance` further along `axis`, behind ones."""
    kept = emit(ops.narrow, x, axis=axis, start=0, length=x.shape[axis] - distance)
    low = tuple(distance if a == axis else 0 for a in range(x.ndim))
    return emit(ops.pad, kept, weak=x.weak, low=low, high=(0,) * x.ndim, value=1)


@function
def diff(x: Any, n: int = 1, axis: int = -1) -> Any:
    """Differences of neighbors, `n` times."""
    x = as_tracer(x)
    position = normalize_axis(axis, x.ndim)
    for _ in range(count_from(n, "n")):
        if x.shape[position] == 0:
            return x
        length = x.shape[position] - 1
        later = emit(ops.narrow, x, axis=position, start=1, length=length)
        x = elementwise.subtract(later, emit(ops.narrow, x, axis=position, start=0, length=length))
    return x


@function
def sort(x: Any, axis: int | None = -1) -> Any:
    """Ascending order, NaN last."""
    return _along_rows(ops.sort, x, axis)


@function
def argsort(x: Any, axis: int | None = -1) -> Any:
    """The indices that sort; equal elements keep their order."""
    return _along_rows(ops.argsort, x, axis)


def _along_rows(definition: OpDef, x: Any, axis: int | None) -> Any:
    """Emit an op on last-axis rows with `axis` there."""
    x = as_tracer(x)
    if axis is None:
        x, axis = ravel(x), 0
    position = normalize_axis(axis, x.ndim)
    if position == x.ndim - 1:
        return emit(definition, x)
    perm = (*(a for a in range(x.ndim) if a != position), position)
    rows = emit(definition, emit(ops.transpose, x, perm=perm))
    return emit(ops.transpose, rows, perm=tuple(perm.index(a) for a in range(x.ndim)))


@function
def searchsorted(a: Any, v: Any, side: str = "left") -> Any:
    """Where `v` goes into the ascending `a`: after the smaller ones, or (`right`) the equal too."""
    if side not in ("left", "right"):
        raise ShapeError(
            f"side is {side!r}; it must be 'left' or 'right'",
            remedy="pass side='left' or side='right'",
        )
    a, v = promoted([a, v])
    below = elementwise.less if side == "left" else elementwise.less_equal
    v = expand_dims(v, -1)
    before = below(a, v)
    if a.value.dtype.is_float:  # NaN is the largest, as sorting has it
        last = elementwise.isnan(v)
        if side == "left":
            last = elementwise.logical_and(last, elementwise.logical_not(elementwise.isnan(a)))
        before = elementwise.logical_or(before, last)
    return sum(before, -1)


@function
def median(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """The middle element in order, the mean of two for an even count."""
    (x,) = inexact(x)
    axes = axes_of(axis, x.ndim)
    if len(axes) != 1:
        middle = median(_merged(x, axes), -1)
        return expand_dims(middle, axes) if keepdims else middle
    (position,) = axes
    extent = static_shape(x)[position]
    if extent == 0:
        return mean(x, position, keepdims=keepdims)  # NaN
    ordered = sort(x, position)
    start = (extent - 1) // 2
    middle = emit(ops.narrow, ordered, axis=position, start=start, length=2 - extent % 2)
    # A NaN sorts last, and makes the median NaN.
    tail = emit(ops.narrow, ordered, axis=position, start=extent - 1, length=1)
    result = mean(concatenate([middle], position), position, keepdims=True)
    result = elementwise.where(elementwise.isnan(tail), np.nan, result)
    return result if keepdims else _fold(ops.reduce_sum, result, position, keepdims=False)


def _merged(x: Any, axes: tuple[int, ...]) -> Any:
    """Return `x` with `axes` as one, the last."""
    x = moveaxis(x, axes, tuple(range(-len(axes), 0)))
    return reshape(x, (*x.shape[: x.ndim - len(axes)], product(x.shape[x.ndim - len(axes) :])))


def _fold(definition: OpDef, x: Any, axis: Any, keepdims: bool) -> Any:
    return emit(definition, x, axes=axes_of(axis, x.ndim), keepdims=keepdims)


def _extremum(definition: OpDef, x: Any, axis: Any, keepdims: bool) -> Any:
    x = as_tracer(x)
    axes = axes_of(axis, x.ndim)
    if x.value.dtype.is_complex:
        raise DTypeError(
            "complex numbers have no order",
            remedy="compare rlx.numpy.abs(x), or the real parts",
        )
    if 0 in [x.shape[a] for a in axes]:
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


def _widened(x: Any, dtype: Any) -> Any:
    x = as_tracer(x)
    if dtype is not None:
        return convert(x, dtype_of(dtype, DType.F64))
    narrow = x.value.dtype.is_int or x.value.dtype is DType.BOOL
    return convert(x, DType.I64) if narrow else x


def _count(x: Any, axis: Any) -> int:
    count: Extent = product(x.shape[a] for a in axes_of(axis, x.ndim))
    if not isinstance(count, int):
        raise ShapeError(
            f"the count {count} is symbolic; ddof needs a number",
            remedy="trace it for a fixed size, or leave ddof at 0",
        )
    return count
