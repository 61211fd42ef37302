"""Arrays from nothing, from numbers and from lists. The dtype defaults are f64, i64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType, as_array_dtype
from rlx.ir.from_python import array_from, converted
from rlx.ir.shape import Dim, Extent, Shape, is_at_most
from rlx.ir.types import TensorType
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, require_listable, shape_from
from rlx.numpy.devices import placed, require_device
from rlx.numpy.shaping import broadcast_to, expand_dims, moveaxis, stack
from rlx.runtime.arrays import Array, frozen
from rlx.tracing.apply import as_tracer, convert, emit, function, graph, static_int, wrap
from rlx.tracing.only import only
from rlx.tracing.trace import TracedArray, concrete, current_trace, element_type, shape_of
from rlx.tracing.widths import (
    are_narrow,
    are_usual,
    canonical,
    natural,
    with_wide_types,
)


def dtype_of(dtype: Any, default: DType) -> DType:
    """Return the dtype that is named, `default` for `None`."""
    if dtype is None:
        return natural(default)
    named = {float: DType.F64, int: DType.I64, bool: DType.BOOL, complex: DType.C128}
    return canonical(named.get(dtype) or as_array_dtype(dtype))


@only(order=(None, "C", "K", "A"))
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = None,
    order: str | None = "K",
    ndmin: int = 0,
    device: Any = None,
) -> Array:
    """An array of numbers, arrays, or nested lists of them.

    What can change is copied; an `rlx.Array` of that dtype is given back as it is. `copy=False`
    refuses what would be copied. Axes of one element come first where there are less than `ndmin`.
    """
    require_device(device)
    if copy is False and not isinstance(object, (Array, TracedArray)):
        raise InputError(
            f"an object of type {type(object).__name__} cannot be taken without a copy",
            remedy="leave copy out, or pass an rlx.Array",
        )
    if ndmin:
        found = array(object, dtype, copy=copy)
        return expand_dims(found, tuple(range(ndmin - found.ndim)))
    if object.__class__ is list and dtype is None and current_trace() is None:
        plain = _of_plain_numbers(object)
        if plain is not None:
            return plain
    return _array(object, dtype)


@only(order=(None, "C", "K", "A"))
def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: bool | None = None,
) -> Array:
    """`a` as an array; see `array`."""
    return array(a, dtype, copy=copy, device=device)


def _of_plain_numbers(items: list[Any]) -> Array | None:
    """Return a list of Python's numbers as an array at once; None for any other."""
    try:
        found = np.array(items)
    except (TypeError, ValueError, RuntimeError):
        return None
    if found.dtype not in _PLAIN or not found.size or not are_usual():
        return None
    return frozen(found)


_PLAIN = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.bool_))


def _array(x: Any, dtype: Any = None) -> Any:
    if isinstance(x, range):
        x = np.arange(x.start, x.stop, x.step)
    if isinstance(x, (list, tuple)):
        x = _from_list(x)
    if x is None or isinstance(x, str):
        raise InputError(
            f"{x!r} is neither an array nor a number",
            remedy="pass numbers, arrays or nested lists; use rlx.numpy.nan for missing numbers",
        )
    return as_tracer(x) if dtype is None else convert(x, dtype_of(dtype, DType.F32))


_array.__name__ = "array"  # what its errors call it
_array = function(_array)


def _from_list(items: Any) -> Any:
    if not _contains(items, TracedArray):
        found = array_from(items)
        if found.dtype == np.int64 and are_narrow():
            return converted(items, DType.I32)  # refuses what 32 bits do not hold
        if found.dtype.kind not in "fc" and found.size:
            return found
        is_plain = not _contains(items, (np.ndarray, np.generic))
        wide = DType.C128 if found.dtype.kind == "c" else DType.F64
        return found.astype(natural(wide).numpy) if is_plain else found
    return stack([_from_list(i) if isinstance(i, (list, tuple)) else i for i in items])


def _contains(items: Any, kinds: type | tuple[type, ...]) -> bool:
    if isinstance(items, (list, tuple)):
        return any(_contains(item, kinds) for item in items)
    return isinstance(items, kinds)


@placed
@function
@only(order=(None, "C", "K", "A"))
def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Array:
    """An array filled with one value."""
    value = as_tracer(fill_value)
    if dtype is not None:
        value = convert(fill_value, dtype_of(dtype, DType.F32))
    return broadcast_to(value, shape_from(shape))


@placed
@function
@only(order=(None, "C", "K", "A"))
def zeros(shape: Any, dtype: Any = None, order: str = "C") -> Array:
    return full(shape, 0, dtype_of(dtype, DType.F64))


@placed
@function
@only(order=(None, "C", "K", "A"))
def ones(shape: Any, dtype: Any = None, order: str = "C") -> Array:
    return full(shape, 1, dtype_of(dtype, DType.F64))


empty = zeros


@placed
@function
@only(order=(None, "C", "K", "A"))
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
) -> Array:
    """An array like `a`, filled with one value."""
    type = element_type(a)
    target = shape_of(a) if shape is None else shape
    filled = full(target, fill_value, type.dtype if dtype is None else dtype_of(dtype, type.dtype))
    return wrap(filled.value, weak=type.weak and dtype is None)


@placed
@function
@only(order=(None, "C", "K", "A"))
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Array:
    return full_like(a, 0, dtype, shape=shape)


@placed
@function
@only(order=(None, "C", "K", "A"))
def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Array:
    return full_like(a, 1, dtype, shape=shape)


empty_like = zeros_like


@placed
@function
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Array:
    """Numbers from `start` up to, and without, `stop`."""
    bounds = [0, start] if stop is None else [start, stop]
    step = 1 if step is None else step
    for bound in (*bounds, step):
        if isinstance(bound, TracedArray):
            static_int(bound, "a bound of arange")
    if bounds[0] == 0 and step == 1 and all(isinstance(bound, int) for bound in bounds):
        target = dtype_of(dtype, DType.I64)
        return _iota(max(bounds[1], 0), target)
    if step == 0:
        raise ShapeError(
            "arange: the step is 0; it must not be 0",
            remedy="give a positive or a negative step",
        )
    if any(isinstance(bound, Dim) for bound in bounds):
        return _symbolic_arange(bounds[0], bounds[1], step, dtype_of(dtype, DType.I64))
    require_listable(math.ceil((bounds[1] - bounds[0]) / step), "arange")
    found = np.arange(bounds[0], bounds[1], step)
    if found.dtype == np.float64 and not any(isinstance(b, np.generic) for b in (*bounds, step)):
        dtype = natural(DType.F64) if dtype is None else dtype
    if dtype is not None:
        return convert(found, dtype_of(dtype, DType.F64))
    if found.dtype == np.int64 and are_narrow():
        for end in found[:: max(len(found) - 1, 1)].tolist():
            concrete(end)  # refuses what 32 bits do not hold
    return as_tracer(found)


def _symbolic_arange(start: Any, stop: Any, step: Any, dtype: DType) -> Any:
    """Return `start`, `start + step`, ... before `stop`, of which one at least is symbolic."""
    if not all(isinstance(each, (int, Dim)) for each in (start, stop)) or not isinstance(step, int):
        raise ShapeError(
            f"arange from {start} to {stop} by {step}: with a symbolic extent all must be integers",
            remedy="scale rlx.numpy.arange(n): start + step * rlx.numpy.arange(n)",
        )
    distance = stop - start if step > 0 else start - stop
    count = distance if abs(step) == 1 else (distance + (abs(step) - 1)) // abs(step)
    if not is_at_most(0, count):
        raise ShapeError(
            f"arange from {start} to {stop} by {step} has {count} elements, which may be negative",
            remedy="bound the extent from below, rlx.Dim(..., min=, max=)",
        )
    found = _iota(count, DType.I64)
    return convert(elementwise.add(start, elementwise.multiply(found, step)), dtype)


def _iota(count: Extent, dtype: DType) -> Any:
    value = graph().iota(type=TensorType(dtype, (count,)))
    return wrap(value)


@placed
@function
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` evenly spaced numbers from `start` to `stop`; with `retstep` also their distance."""
    start, stop = (elementwise.multiply(each, 1.0) for each in (start, stop))
    counts: Any
    if isinstance(num, Dim):
        counts = _iota(num, DType.I64)
    else:
        num = count_from(num, "num")
        require_listable(num, "linspace")
        counts = np.arange(num)
    counts = counts.reshape(num, *(1,) * max(start.ndim, stop.ndim))
    intervals = num - 1 if endpoint else num
    if dtype is not None and as_array_dtype(dtype).is_int:
        result = elementwise.floor(_stepped(start, stop, counts, intervals))
    else:
        weights, kind = counts / _at_least_one(intervals), natural(DType.F64).numpy
        result = elementwise.add(
            elementwise.multiply(start, (1 - weights).astype(kind)),
            elementwise.multiply(stop, weights.astype(kind)),
        )
    result = result if axis == 0 else moveaxis(result, 0, axis)
    floats = result.dtype
    result = result if dtype is None else elementwise.astype(result, dtype)
    if not retstep:
        return result
    step = elementwise.divide(elementwise.subtract(stop, start), _or_nan(intervals))
    is_whole = as_array_dtype(result.dtype).is_int  # of which a step may be a part
    return result, elementwise.astype(step, floats if is_whole else result.dtype)


def _stepped(start: Any, stop: Any, counts: Any, intervals: int) -> Any:
    """Return whole multiples of a step from `start` on: whole numbers where the step is one."""
    step = elementwise.divide(elementwise.subtract(stop, start), _at_least_one(intervals))
    found = elementwise.add(start, elementwise.multiply(counts, step))
    if isinstance(intervals, int) and not intervals:
        return found
    is_last = elementwise.logical_and(elementwise.equal(counts, intervals), counts)
    return elementwise.where(is_last, stop, found)


def _at_least_one(count: Extent) -> Any:
    return elementwise.maximum(count, 1) if isinstance(count, Dim) else max(count, 1)


def _or_nan(count: Extent) -> Any:
    """Return a number of steps, NaN for none."""
    if isinstance(count, Dim):
        return elementwise.where(elementwise.equal(count, 0), np.nan, count)
    return count or np.nan


@function
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    """`base` to the power of `linspace`."""
    found = elementwise.power(base, linspace(start, stop, num, endpoint, axis=axis))
    return found if dtype is None else elementwise.astype(found, dtype)


@function
def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Array:
    """`num` numbers from `start` to `stop`, each the same multiple of the one before.

    Complex ones are on a spiral, real ones have one sign (NaN otherwise).
    """
    signs = elementwise.sign(start)
    first, last = (elementwise.log2(elementwise.divide(each, signs)) for each in (start, stop))
    sizes = elementwise.exp2(linspace(first, last, num, endpoint, axis=axis))
    signs = expand_dims(signs, axis) if shape_of(signs) else signs
    found = elementwise.multiply(signs, sizes)
    return found if dtype is None else elementwise.astype(found, dtype)


@function
@only(order=(None, "C", "K", "A"))
def copy(a: Any, order: str = "K", subok: bool = False) -> Array:
    """An array of the same elements."""
    return as_tracer(a)


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """The numbers stored in bytes."""
    return array(np.frombuffer(buffer, _as_named(dtype), count, offset))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Array:
    """The numbers of an iterable."""
    return array(np.fromiter(iter, _as_named(dtype), count))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """The numbers of a text."""
    return array(np.fromstring(string, _as_named(dtype), count, sep=sep))


@with_wide_types
def _as_named(dtype: Any) -> np.dtype[Any]:
    """Return the storage dtype of numbers, which need not be that of an array of them."""
    return dtype_of(dtype, DType.F64).numpy


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of another library, without a copy where it is in this machine's memory."""
    require_device(device)
    found = np.from_dlpack(x)
    return frozen(found.copy() if copy else found)


@placed
@function
@only(order=(None, "C", "K", "A"))
def eye(
    N: Extent, M: Extent | None = None, k: int = 0, dtype: Any = None, order: str = "C"
) -> Array:
    """Ones on diagonal number `k`, zeros elsewhere."""
    target = dtype_of(dtype, DType.F64)
    if isinstance(N, Dim) or isinstance(M, Dim):
        shape = (N, N if M is None else M)
        return convert(elementwise.equal(*_positions(shape, k)), target)
    rows, columns = _rows_and_columns(N, M)
    return as_tracer(np.eye(rows, columns, k, dtype=target.numpy))


@function
def identity(n: Extent, dtype: Any = None) -> Array:
    return eye(n, dtype=dtype)


@function
def tri(N: Extent, M: Extent | None = None, k: int = 0, dtype: Any = None) -> Array:
    """Ones on and below diagonal number `k`."""
    target = dtype_of(dtype, DType.F64)
    if isinstance(N, Dim) or isinstance(M, Dim):
        return convert(_below((N, N if M is None else M), k), target)
    return convert(np.tri(*_rows_and_columns(N, M), k), target)


def _rows_and_columns(rows: int, columns: int | None) -> tuple[int, int]:
    """Return the extents of a matrix; it has as many columns as rows by default."""
    height = count_from(rows, "the number of rows")
    width = height if columns is None else count_from(columns, "the number of columns")
    require_listable(height * width, f"a matrix of {height} rows and {width} columns")
    return height, width


@function
def meshgrid(
    *xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    """Coordinate arrays of the grid over coordinate vectors; sparse ones broadcast to it."""
    if indexing not in ("xy", "ij"):
        raise ShapeError(
            f"indexing is {indexing!r}; it must be 'xy' or 'ij'",
            remedy="use 'xy' for Cartesian order or 'ij' for matrix order",
        )
    tracers = [as_tracer(x) for x in xi]
    order = list(range(len(tracers)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = [1, 0]
    shape: list[Extent] = [0] * len(tracers)
    for x, axis in zip(tracers, order, strict=True):
        shape[axis] = x.shape[0]
    along = [_along(x, axis, len(shape)) for x, axis in zip(tracers, order, strict=True)]
    return along if sparse else [broadcast_to(x, shape) for x in along]


def _along(x: Any, axis: int, rank: int) -> Any:
    aligned: list[Extent] = [1] * rank
    aligned[axis] = x.shape[0]
    return emit(ops.reshape, x, shape=tuple(aligned))


@function
def tril(m: Any, k: int = 0) -> Array:
    """`m` with zeros above diagonal number `k` of its last two axes."""
    m = as_tracer(m)
    return elementwise.where(_below(m.shape, k), m, elementwise.zero_of(m))


@function
def triu(m: Any, k: int = 0) -> Array:
    """`m` with zeros below diagonal number `k` of its last two axes."""
    m = as_tracer(m)
    return elementwise.where(_below(m.shape, k - 1), elementwise.zero_of(m), m)


def _below(shape: Shape, k: int) -> Any:
    """True on and below diagonal `k`: computed from indices, not stored."""
    if len(shape) < 2:
        raise ShapeError(
            f"an array of rank {len(shape)} has no diagonal; the rank must be 2 up",
            remedy="give it two axes with x[None, :] or x[:, None]",
        )
    columns, rows = _positions(shape, k)
    return elementwise.less_equal(columns, rows)


def _positions(shape: Shape, k: int) -> tuple[Any, Any]:
    """Return the columns of a matrix, and for each row the column of diagonal number `k`."""
    rows = wrap(graph().iota(type=TensorType(DType.I64, (shape[-2], 1)), axis=0))
    return _iota(shape[-1], DType.I64), elementwise.add(rows, k)
