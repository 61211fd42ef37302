"""Sets of elements, and elements by a condition: how many there are is known at run time only.

On arrays these functions give as many as there are. While tracing they take `size=`, how many to
give: what is missing is `fill_value`, what is too much is left out.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, overload

import numpy as np

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import normalize_axis
from rlx.ir.source_lines import calling_source
from rlx.ir.types import TensorType
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.creation import ones_like
from rlx.numpy.index_tricks import unravel_index
from rlx.numpy.indexing import take
from rlx.numpy.shaping import concatenate, ravel, reshape, stack
from rlx.numpy.sorting import argsort, searchsorted, sort
from rlx.runtime.arrays import Array, plain
from rlx.tracing.apply import as_tracer, convert, emit, function, graph, promoted, wrap
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.only import only, parameters, without_out
from rlx.tracing.trace import TracedArray, arrays_of, current_trace, shape_of


class UniqueAllResult(NamedTuple):
    """Distinct elements, their first positions, the inverse indices, and the counts."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """Distinct elements and how often each occurs."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """Distinct elements and which of them each element is."""

    values: Any
    inverse_indices: Any


def _counted(
    numpys: Callable[..., Any], *, least_rank: int = 0
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function of a given `size` be NumPy's on arrays if none is given."""

    def decorate(sized: Callable[..., Any]) -> Callable[..., Any]:
        traced, name = function(sized), sized.__name__
        first = parameters(sized)[0]

        @functools.wraps(sized)
        def call(*args: Any, size: int | None = None, fill_value: Any = None, **how: Any) -> Any:
            given = (*args, *how.values())
            operand = args[0] if args else how.get(first)
            if operand is not None and len(shape_of(operand)) < least_rank:
                raise ShapeError(
                    f"{name}: the operand has rank {len(shape_of(operand))}; it must be at least "
                    f"{least_rank}",
                    source=calling_source(),
                    remedy="pass an array, as in rlx.numpy.atleast_1d(x)",
                )
            if size is not None:
                return traced(*args, size=size, fill_value=fill_value, **how)
            if current_trace() is not None or any(isinstance(x, TracedArray) for x in given):
                raise ConcretizationError(
                    f"{name} returns a number of elements that is not known while tracing",
                    source=calling_source(),
                    remedy=f"pass the number of elements, as in {name}(x, size=8)",
                )
            return arrays_of(numpys(*plain(args), **plain(how)))

        return without_out(call)

    return decorate


def _places(mask: Any, size: int) -> tuple[Any, Any]:
    """Return the positions of the first `size` true elements of a vector, and which exist."""
    numbers = elementwise.subtract(emit(ops.cumsum, convert(mask, DType.I64), axis=0), 1)
    kept = elementwise.logical_and(mask, elementwise.less(numbers, size))
    target = elementwise.where(kept, numbers, size)
    places = emit(ops.scatter_add, _iota(mask.shape[0]), target, size=size + 1)
    places = elementwise.minimum(_first(places, size), mask.shape[0] - 1)
    total = emit(ops.reduce_sum, convert(mask, DType.I64), axes=(0,))
    return places, elementwise.less(_iota(size), total)


def _first(x: Any, count: int) -> Any:
    return emit(ops.narrow, x, axis=0, start=0, length=count)


def _iota(count: Any) -> Any:
    return wrap(graph().iota(type=TensorType(DType.I64, (count,))))


# By a condition


@_counted(np.nonzero, least_rank=1)
def nonzero(a: Any, *, size: int, fill_value: Any = None) -> Any:
    """The indices of the nonzero elements, an array for each axis."""
    a = as_tracer(a)
    places, exist = _places(ravel(elementwise.astype(a, bool)), size)
    fills = fill_value if isinstance(fill_value, tuple) else (_or_zero(fill_value),) * a.ndim
    pairs = zip(unravel_index(places, static_shape(a)), fills, strict=True)
    return tuple(elementwise.where(exist, index, fill) for index, fill in pairs)


@overload
def where(
    condition: Any, *, size: int | None = None, fill_value: Any = None
) -> tuple[Array, ...]: ...
@overload
def where(condition: Any, x: Any, y: Any) -> Array: ...
def where(
    condition: Any, x: Any = None, y: Any = None, *, size: int | None = None, fill_value: Any = None
) -> Any:
    """`x` where `condition` holds, else `y`; of the condition alone, the indices where it does."""
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if size is not None or fill_value is not None:
        raise InputError(
            "where: size and fill_value are for the indices of a condition alone",
            source=calling_source(),
            remedy="leave them out, or x and y",
        )
    return elementwise.where(condition, x, y)


@_counted(np.flatnonzero)
def flatnonzero(a: Any, *, size: int, fill_value: Any = None) -> Array:
    """The indices of the nonzero elements of the flattened array."""
    places, exist = _places(elementwise.astype(ravel(a), bool), size)
    return elementwise.where(exist, places, _or_zero(fill_value))


@_counted(np.argwhere)
def argwhere(a: Any, *, size: int, fill_value: Any = None) -> Array:
    """The indices of the nonzero elements, a row for each."""
    return stack(nonzero(a, size=size, fill_value=fill_value), 1)


@_counted(np.extract)
def extract(condition: Any, arr: Any, *, size: int, fill_value: Any = None) -> Array:
    """The elements where the condition holds."""
    places, exist = _places(ravel(elementwise.astype(condition, bool)), size)
    return _filled(exist, take(ravel(arr), places), fill_value)


@_counted(np.compress)
def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    out: None = None,
    *,
    size: int,
    fill_value: Any = None,
) -> Array:
    """The slices along an axis where the condition, a vector, holds."""
    a, axis = (ravel(a), 0) if axis is None else (as_tracer(a), axis)
    places, exist = _places(elementwise.astype(condition, bool), size)
    shape = [1] * a.ndim
    shape[normalize_axis(axis, a.ndim)] = size
    return _filled(reshape(exist, shape), take(a, places, axis), fill_value)


def _filled(exist: Any, x: Any, fill_value: Any) -> Any:
    """Return `x` where elements exist, and elsewhere `fill_value`, by default 0, in its dtype."""
    return elementwise.where(exist, x, convert(_or_zero(fill_value), x.value.dtype))


def _or_zero(fill_value: Any) -> Any:
    return 0 if fill_value is None else fill_value


# Sets


def _unique_of_arrays(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """NumPy's, ascending; versions before 2.3 have no `sorted`, 1.26 returns a flat inverse."""
    del sorted
    numpys: Callable[..., Any] = np.unique
    found = numpys(ar, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan)
    if not (return_inverse and axis is None):
        return found
    place = 2 if return_index else 1
    return (*found[:place], found[place].reshape(np.shape(ar)), *found[place + 1 :])


@_counted(_unique_of_arrays)
@only(axis=(None,))
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
    size: int,
    fill_value: Any = None,
) -> Any:
    """The distinct elements in ascending order; missing ones are filled with the least.

    They are in that order also where `sorted` is False, which asks for any.
    """
    found = _unique(as_tracer(ar), size, fill_value, equal_nan)
    chosen = (True, return_index, return_inverse, return_counts)
    results = tuple(each for each, wanted in zip(found, chosen, strict=True) if wanted)
    return results if len(results) > 1 else results[0]


def _unique(x: Any, size: int, fill_value: Any, equal_nan: bool) -> UniqueAllResult:
    flat = ravel(x)
    order = argsort(flat)
    ordered = take(flat, order)
    begins = _begins(ordered, equal_nan=equal_nan)
    group = elementwise.subtract(emit(ops.cumsum, convert(begins, DType.I64), axis=0), 1)
    starts, exist = _places(begins, size)
    fill = ordered[0] if fill_value is None else convert(fill_value, flat.value.dtype)
    kept = elementwise.minimum(group, size)
    counts = emit(ops.scatter_add, ones_like(group), kept, size=size + 1)
    inverse = reshape(take(group, argsort(order)), x.shape)
    values = elementwise.where(exist, take(ordered, starts), fill)
    return UniqueAllResult(values, take(order, starts), inverse, _first(counts, size))


def _begins(ordered: Any, *, equal_nan: bool = True) -> Any:
    """Return where elements of a sorted vector differ from the one before."""
    after, before = ordered[1:], ordered[:-1]
    differs = elementwise.not_equal(after, before)
    if equal_nan and ordered.value.dtype.is_float:
        both = elementwise.logical_and(elementwise.isnan(after), elementwise.isnan(before))
        differs = elementwise.logical_and(differs, elementwise.logical_not(both))
    return concatenate([elementwise.astype(ones_like(ordered[:1]), bool), differs])


def unique_values(x: Any, *, size: int | None = None, fill_value: Any = None) -> Array:
    """The distinct elements; each NaN is one."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(x: Any, *, size: int | None = None, fill_value: Any = None) -> UniqueCountsResult:
    """The distinct elements and their counts."""
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCountsResult(*found)


def unique_inverse(
    x: Any, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """The distinct elements and which of them each element is."""
    found = unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverseResult(*found)


def unique_all(x: Any, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The distinct elements, their first places, which each element is, and their counts."""
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


@_counted(np.union1d)
def union1d(ar1: Any, ar2: Any, *, size: int, fill_value: Any = None) -> Array:
    """The distinct elements of both."""
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


@_counted(np.intersect1d)
@only(return_indices=(False,))
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int,
    fill_value: Any = None,
) -> Array:
    """The distinct elements that are in both."""
    ar1, ar2 = promoted([ar1, ar2])
    return _distinct_where(ar1, isin(ar1, ar2), size, fill_value)


@_counted(np.setdiff1d)
def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int, fill_value: Any = None
) -> Array:
    """The distinct elements of `ar1` that are not in `ar2`."""
    return _distinct_where(ar1, isin(ar1, ar2, invert=True), size, fill_value)


@_counted(np.setxor1d)
def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int, fill_value: Any = None
) -> Array:
    """The distinct elements that are in one of both."""
    chosen = concatenate([ravel(isin(ar1, ar2, invert=True)), ravel(isin(ar2, ar1, invert=True))])
    return _distinct_where(concatenate([ravel(ar1), ravel(ar2)]), chosen, size, fill_value)


def _distinct_where(x: Any, chosen: Any, size: int, fill_value: Any) -> Any:
    """Return the distinct elements of those that are chosen, in ascending order."""
    flat = ravel(x)
    order = argsort(flat)
    ordered = take(flat, order)
    picked = elementwise.logical_and(_begins(ordered), take(ravel(chosen), order))
    places, exist = _places(picked, size)
    return elementwise.where(exist, take(ordered, places), _or_zero(fill_value))


@function
def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str | None = None,
) -> Array:
    """True where an element is one of the test elements."""
    element, tests = promoted([element, ravel(test_elements)])
    count = math.prod(static_shape(tests))
    if count == 0:
        found = elementwise.logical_and(elementwise.equal(element, element), False)
    else:
        ordered = sort(tests)
        places = elementwise.minimum(searchsorted(ordered, element), count - 1)
        found = elementwise.equal(take(ordered, places), element)
    return elementwise.logical_not(found) if invert else found
