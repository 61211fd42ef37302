"""Functions that run along an axis: sums, products and extrema so far, differences, integrals."""

from __future__ import annotations

from typing import Any

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of, count_from, static_shape
from rlx.numpy.creation import dtype_of, full_like
from rlx.numpy.indexing import take
from rlx.numpy.reductions import sum, widest_integer
from rlx.numpy.shaping import broadcast_to, concatenate, expand_dims, flip, ravel
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact
from rlx.tracing.only import only
from rlx.tracing.trace import shape_of


def _run(definition: OpDef, x: Any, axis: int | None, dtype: Any = None, **more: Any) -> Any:
    """Emit a running fold along one axis, by default of the flattened array; bools count in i64."""
    x = as_tracer(x)
    if dtype is not None or x.value.dtype is DType.BOOL:
        x = convert(x, dtype_of(dtype, DType.I64))
    if axis is None:
        x, axis = ravel(x), 0
    (position,) = axes_of(axis, x.ndim)
    return emit(definition, x, weak=x.weak, axis=position, **more)


@function
def cumsum(
    a: Any, axis: int | None = None, dtype: Any = None, out: None = None, *, reverse: bool = False
) -> Array:
    """Running sum, from the end on if `reverse`."""
    return _run(ops.cumsum, a, axis, dtype, reverse=reverse)


@function
def cumprod(
    a: Any, axis: int | None = None, dtype: Any = None, out: None = None, *, reverse: bool = False
) -> Array:
    """Running product, from the end on if `reverse`."""
    return _run(ops.cumprod, a, axis, dtype, reverse=reverse)


@function
def cummax(x: Any, axis: int | None = None, *, reverse: bool = False) -> Array:
    """The largest element so far, NaN from the first on."""
    return _run(ops.cummax, x, axis, reverse=reverse)


@function
def cummin(x: Any, axis: int | None = None, *, reverse: bool = False) -> Array:
    """The smallest element so far, NaN from the first on."""
    return _run(ops.cummin, x, axis, reverse=reverse)


@function
def cumlogsumexp(x: Any, axis: int | None = None, *, reverse: bool = False) -> Array:
    """The logarithm of the running sum of exponentials; each of them is of a number up to 0."""
    (x,) = inexact(x)
    if axis is None:
        x, axis = ravel(x), 0
    distance, position = 1, normalize_axis(axis, x.ndim)
    extent = static_shape(x)[position]

    def part(x: Any, start: int, length: int) -> Any:
        return emit(ops.narrow, x, axis=position, start=start, length=length)

    x = flip(x, position) if reverse else x
    while distance < extent:
        late, early = part(x, distance, extent - distance), part(x, 0, extent - distance)
        joined = elementwise.logaddexp(early, late)
        x = concatenate([part(x, 0, distance), joined], position)
        distance *= 2
    return flip(x, position) if reverse else x


@function
def cumulative_sum(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running sum of one axis; `include_initial` begins with 0."""
    return _cumulative(ops.cumsum, 0, x, axis, dtype, include_initial)


@function
def cumulative_prod(
    x: Any, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Array:
    """Running product of one axis; `include_initial` begins with 1."""
    return _cumulative(ops.cumprod, 1, x, axis, dtype, include_initial)


def _cumulative(
    definition: OpDef, start: int, x: Any, axis: int | None, dtype: Any, include_initial: bool
) -> Any:
    x = as_tracer(x)
    if dtype is None:
        dtype = widest_integer(x.value.dtype)
    axis = axis if axis is not None or x.ndim != 1 else 0
    found = _run(definition, x, axis, dtype)
    if not include_initial:
        return found
    (position,) = axes_of(0 if axis is None else axis, found.ndim)
    shape = tuple(1 if a == position else e for a, e in enumerate(found.shape))
    return concatenate([full_like(found, start, shape=shape), found], position)


@function
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Running sum, NaN counted as 0."""
    return cumsum(elementwise.where(elementwise.isnan(a), 0, a), axis, dtype)


@function
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
    """Running product, NaN counted as 1."""
    return cumprod(elementwise.where(elementwise.isnan(a), 1, a), axis, dtype)


@function
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighbors, `n` times; `prepend` and `append` are put around `a` before.

    None at all, `n=0`, gives `a` as it is: nothing is put around it.
    """
    a = as_tracer(a)
    position = normalize_axis(axis, a.ndim)
    if n == 0:
        return a
    ends = [a if end is a else _end(end, a, position) for end in (prepend, a, append)
            if end is not None]  # fmt: skip
    a = concatenate(ends, position) if len(ends) > 1 else a
    for _ in range(count_from(n, "n")):
        if a.shape[position] == 0:
            return a
        length = a.shape[position] - 1
        later = emit(ops.narrow, a, axis=position, start=1, length=length)
        earlier = emit(ops.narrow, a, axis=position, start=0, length=length)
        if a.value.dtype is DType.BOOL:
            a = elementwise.not_equal(later, earlier)
        else:
            a = elementwise.subtract(later, earlier)
    return a


def _end(end: Any, x: Any, axis: int) -> Any:
    """Return what is put before or after `x`; a number is one slice."""
    if shape_of(end):
        return end
    return broadcast_to(end, tuple(1 if a == axis else e for a, e in enumerate(x.shape)))


@function
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    """Differences of neighbors of the flattened array, between what is put at its ends."""
    parts = [to_begin, diff(ravel(ary)), to_end]
    return concatenate([ravel(part) for part in parts if part is not None])


@function
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by trapezoids, at positions `x` or `dx` apart."""
    (y,) = inexact(y)
    position = normalize_axis(axis, y.ndim)
    if x is not None and len(shape_of(x)) == 1:
        x = expand_dims(x, tuple(range(1, y.ndim - position)))
        dx = diff(x, axis=0)
    elif x is not None:
        dx = diff(x, axis=axis)
    length = y.shape[position] - 1
    later = emit(ops.narrow, y, axis=position, start=1, length=length)
    earlier = emit(ops.narrow, y, axis=position, start=0, length=length)
    means = elementwise.multiply(elementwise.add(later, earlier), 0.5)
    return sum(elementwise.multiply(means, dx), position)


@function
@only(edge_order=(1, None))
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int | None = 1) -> Any:
    """Central differences inside, one-sided ones at the ends; an array for each axis.

    `varargs` is one distance for all axes, or one for each, or the positions along each.
    """
    (f,) = inexact(f)
    axes = axes_of(axis, f.ndim)
    given = varargs if len(varargs) == len(axes) else varargs * len(axes) or (1.0,) * len(axes)
    found = [_slope(f, step, position) for step, position in zip(given, axes, strict=True)]
    return found[0] if len(axes) == 1 else found


def _slope(f: Any, spacing: Any, axis: int) -> Any:
    extent = f.shape[axis]

    def part(x: Any, start: int, length: Any) -> Any:
        return emit(ops.narrow, x, axis=axis, start=start, length=length)

    steps = diff(f, axis=axis)
    if not shape_of(spacing):
        first, last = part(steps, 0, 1), part(steps, extent - 2, 1)
        # Not a mean of steps: what is between two elements does not count
        inner = elementwise.subtract(part(f, 2, extent - 2), part(f, 0, extent - 2))
        inner = elementwise.multiply(inner, 0.5)
        return elementwise.divide(concatenate([first, inner, last], axis), spacing)
    (distances,) = inexact(diff(spacing))
    distances = expand_dims(distances, tuple(range(1, f.ndim - axis)))
    distances = broadcast_to(distances, steps.shape)
    slopes = elementwise.divide(steps, distances)
    before, after = part(distances, 0, extent - 2), part(distances, 1, extent - 2)
    # Each slope counts by the distance on the other side.
    weighted = elementwise.add(
        elementwise.multiply(part(slopes, 0, extent - 2), after),
        elementwise.multiply(part(slopes, 1, extent - 2), before),
    )
    inner = elementwise.divide(weighted, elementwise.add(before, after))
    return concatenate([part(slopes, 0, 1), inner, part(slopes, extent - 2, 1)], axis)


@function
def unwrap(
    p: Any, discont: Any = None, axis: int = -1, *, period: Any = 6.283185307179586
) -> Array:
    """Angles without jumps: each step is made less than half a `period` by whole periods."""
    (p,) = inexact(p)
    axis = normalize_axis(axis, p.ndim)
    if p.shape[axis] == 0:
        return p
    steps = diff(p, axis=axis)
    half = 0.5 * period
    wrapped = elementwise.subtract(
        elementwise.remainder(elementwise.add(steps, half), period), half
    )
    upward = elementwise.logical_and(
        elementwise.equal(wrapped, -half), elementwise.greater(steps, 0)
    )
    correction = elementwise.subtract(elementwise.where(upward, half, wrapped), steps)
    small = elementwise.less(elementwise.abs(steps), half if discont is None else discont)
    shifts = cumsum(elementwise.where(small, 0, correction), axis)
    start = expand_dims(take(p, 0, axis), axis)
    rest = emit(ops.narrow, p, axis=axis, start=1, length=p.shape[axis] - 1)
    return concatenate([start, elementwise.add(rest, shifts)], axis)
