"""Order statistics, correlations and interpolation."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, product
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of, static_shape
from rlx.numpy.creation import full
from rlx.numpy.diagonals import diagonal
from rlx.numpy.indexing import take, take_along_axis
from rlx.numpy.products import matmul
from rlx.numpy.reductions import any, average, mean, of_integers, sum
from rlx.numpy.shaping import (
    atleast_2d,
    broadcast_to,
    concatenate,
    expand_dims,
    matrix_transpose,
    moveaxis,
    ravel,
    reshape,
)
from rlx.numpy.sorting import searchsorted, sort
from rlx.runtime.arrays import Array
from rlx.tracing.apply import convert, emit, function, inexact
from rlx.tracing.trace import TracedArray, element_type


@function
def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """The elements that a share `q` of all are below, along new leading axes for those of `q`.

    Between two elements `method` chooses: linear, lower, higher, midpoint or nearest.
    """
    return _quantile(a, q, axis, method, keepdims, skips_nan=False)


@function
def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile` of what is no NaN."""
    return _quantile(a, q, axis, method, keepdims, skips_nan=True)


@function
def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`quantile` of `q` in percent."""
    _require_shares(q, 100)
    return quantile(a, elementwise.divide(q, 100), axis, method=method, keepdims=keepdims)


@function
def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
) -> Array:
    """`nanquantile` of `q` in percent."""
    _require_shares(q, 100)
    return nanquantile(a, elementwise.divide(q, 100), axis, method=method, keepdims=keepdims)


@function
def nanmedian(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element of what is no NaN."""
    return nanquantile(a, 0.5, axis, keepdims=keepdims)


def _quantile(x: Any, q: Any, axis: Any, method: str, keepdims: bool, *, skips_nan: bool) -> Any:
    _require_shares(q)
    if element_type(x).dtype.is_int:
        to = inexact(x, q)[0].value.dtype
        return of_integers(_quantile, x, q, axis, method, keepdims, skips_nan=skips_nan, to=to)
    x, q = inexact(x, q)
    axes = axes_of(axis, x.ndim)
    rows = sort(_merged(x, axes))
    count = rows.shape[-1]
    if count == 0:
        return mean(rows, -1)
    missing = elementwise.isnan(rows)
    valid = sum(elementwise.logical_not(missing), -1, keepdims=True)
    last = convert(elementwise.subtract(valid, 1), x.value.dtype) if skips_nan else count - 1
    shares = elementwise.where(elementwise.isnan(q), 0.0, q)
    places = elementwise.multiply(ravel(shares), elementwise.maximum(last, 0))
    places = broadcast_to(places, (*rows.shape[:-1], places.shape[-1]))
    if isinstance(count, Dim):  # which may be 0 at a call: then there is this NaN
        rows = concatenate([rows, full((*rows.shape[:-1], 1), np.nan, rows.dtype)], -1)
    found = _between(rows, places, method)
    is_nan = elementwise.equal(valid, 0) if skips_nan else any(missing, -1, keepdims=True)
    is_nan = elementwise.logical_or(is_nan, elementwise.isnan(ravel(q)))
    found = moveaxis(elementwise.where(is_nan, np.nan, found), -1, 0)
    found = reshape(found, (*q.shape, *found.shape[1:]))
    return expand_dims(found, tuple(q.ndim + a for a in axes)) if keepdims else found


def _require_shares(q: Any, whole: int = 1) -> None:
    """Raise InputError for known numbers that are no shares; traced ones are indices later."""
    if isinstance(q, TracedArray):
        return
    numbers = np.ravel(np.asarray(q, np.float64))
    if (wrong := numbers[(numbers < 0) | (numbers > whole)]).size:
        raise InputError(
            f"q is {wrong[0]}; it must be in [0, {whole}]",
            remedy="`quantile` takes shares of 1, `percentile` percent",
        )


def _between(rows: Any, places: Any, method: str) -> Any:
    """Return the elements of sorted rows at places that may be between two."""
    if method not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise ShapeError(
            f"method is {method!r}", remedy="use linear, lower, higher, midpoint or nearest"
        )
    if method == "nearest":
        places = elementwise.round(places)
    below, above = elementwise.floor(places), elementwise.ceil(places)
    low, high = (take_along_axis(rows, convert(at, DType.I64), -1) for at in (below, above))
    if method in ("lower", "nearest"):
        return low
    if method == "higher":
        return high
    share = 0.5 if method == "midpoint" else elementwise.subtract(places, below)
    # Infinities next to each other have no difference.
    equal = elementwise.logical_and(elementwise.isinf(low), elementwise.equal(low, high))
    step = elementwise.where(equal, 0, elementwise.subtract(high, low))
    return elementwise.add(low, elementwise.multiply(step, share))


@function
def median(
    a: Any,
    axis: Any = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element in order, the mean of two for an even count."""
    if element_type(a).dtype.is_int:
        return of_integers(median, a, axis, keepdims=keepdims)
    (a,) = inexact(a)
    axes = axes_of(axis, a.ndim)
    if len(axes) != 1:
        middle = median(_merged(a, axes), -1)
        return expand_dims(middle, axes) if keepdims else middle
    (position,) = axes
    extent = a.shape[position]
    if isinstance(extent, Dim):
        return quantile(a, 0.5, position, keepdims=keepdims)
    if extent == 0:
        return mean(a, position, keepdims=keepdims)  # NaN
    ordered = sort(a, position)
    start = (extent - 1) // 2
    middle = emit(ops.narrow, ordered, axis=position, start=start, length=2 - extent % 2)
    # A NaN sorts last, and makes the median NaN.
    tail = emit(ops.narrow, ordered, axis=position, start=extent - 1, length=1)
    result = mean(concatenate([middle], position), position, keepdims=True)
    result = elementwise.where(elementwise.isnan(tail), np.nan, result)
    return result if keepdims else sum(result, position)


def _merged(x: Any, axes: tuple[int, ...]) -> Any:
    """Return `x` with `axes` as one, the last."""
    x = moveaxis(x, axes, tuple(range(-len(axes), 0)))
    return reshape(x, (*x.shape[: x.ndim - len(axes)], product(x.shape[x.ndim - len(axes) :])))


# Correlations


@function
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
) -> Array:
    """The covariance matrix of variables in rows, or columns if not `rowvar`."""
    rows = _variables(m, rowvar)
    if y is not None:
        rows = concatenate(list(inexact(rows, _variables(y, rowvar))))
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = aweights if fweights is None else fweights
    if fweights is not None and aweights is not None:
        weights = elementwise.multiply(fweights, aweights)
    centered = elementwise.subtract(rows, expand_dims(average(rows, 1, weights), 1))
    scaled, total = centered, rows.shape[1] - ddof
    if weights is not None:
        scaled, total = elementwise.multiply(centered, weights), sum(weights)
        if aweights is None:
            total = elementwise.subtract(total, ddof)
        else:
            squares = sum(elementwise.multiply(weights, aweights))
            lost = elementwise.divide(elementwise.multiply(ddof, squares), total)
            total = elementwise.subtract(total, lost)
    products = matmul(scaled, elementwise.conj(matrix_transpose(centered)))
    found = elementwise.divide(products, total)
    return reshape(found, ()) if found.shape == (1, 1) else found


def _variables(m: Any, rowvar: bool) -> Any:
    (m,) = inexact(m)
    return atleast_2d(m) if rowvar or m.ndim < 2 else matrix_transpose(m)


@function
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Array:
    """The matrix of correlations: `cov` divided by both standard deviations."""
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return elementwise.divide(c, c)
    deviations = elementwise.sqrt(elementwise.real(diagonal(c)))
    c = elementwise.divide(elementwise.divide(c, expand_dims(deviations, 1)), deviations)
    return c if c.value.dtype.is_complex else elementwise.clip(c, -1, 1)


@function
def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Array:
    """The piecewise linear function through the points (xp, fp), whose positions ascend.

    Values may be complex. Outside it is `left` and `right`, by default the values at the ends, for
    "extrapolate" the line through the last two points; or it has a period.
    """
    (fp,) = inexact(fp)
    x, xp = inexact(x, xp) if fp.value.dtype.is_complex else inexact(x, xp, fp)[:2]
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    count = static_shape(xp)[0]
    place = elementwise.clip(searchsorted(xp, x, "right"), 1, count - 1)
    before = elementwise.subtract(place, 1)
    x0, y0, y1 = take(xp, before), take(fp, before), take(fp, place)
    width = elementwise.subtract(take(xp, place), x0)
    is_step = elementwise.equal(width, 0)
    share = elementwise.divide(elementwise.subtract(x, x0), elementwise.where(is_step, 1, width))
    inner = elementwise.add(y0, elementwise.multiply(share, elementwise.subtract(y1, y0)))
    found = elementwise.where(is_step, y0, inner)
    if period is not None:
        return found
    ends: Any = (
        (elementwise.less(x, xp[0]), left, 0),
        (elementwise.greater(x, xp[-1]), right, count - 1),
    )
    for outside, value, place in ends:
        if not isinstance(value, str):
            found = elementwise.where(outside, fp[place] if value is None else value, found)
        elif value != "extrapolate":
            raise InputError(
                f"left or right is {value!r}", remedy='pass "extrapolate", or a number'
            )
    return found


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """Bring positions into one period, and put a neighbor's point at each end of it."""
    x, xp = elementwise.remainder(x, period), elementwise.remainder(xp, period)
    order = emit(ops.argsort, xp)
    xp, fp = take(xp, order), take(fp, order)
    ends = elementwise.subtract(xp[-1:], period), elementwise.add(xp[:1], period)
    return x, concatenate([ends[0], xp, ends[1]]), concatenate([fp[-1:], fp, fp[:1]])
