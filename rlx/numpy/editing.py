"""Arrays cut, extended and changed in parts; functions applied along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from rlx.errors import IndexOutOfRangeError, ShapeError
from rlx.ir.dtype import DType
from rlx.ir.shape import broadcast_shapes as _broadcast
from rlx.ir.shape import normalize_axis, product
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of, lists, shape_from, static_shape
from rlx.numpy.creation import dtype_of, zeros
from rlx.numpy.diagonals import diag
from rlx.numpy.indexing import getitem, take
from rlx.numpy.shaping import (
    atleast_3d,
    concatenate,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    split,
    stack,
)
from rlx.numpy.updates import index_set
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function, promoted
from rlx.tracing.batched import of_each_row
from rlx.tracing.only import only
from rlx.tracing.trace import arrays_of, shape_of


@function
def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """`values` appended to `arr`, both flattened without an axis."""
    return concatenate([arr, values], axis)


@function
def unstack(x: Any, axis: int = 0) -> tuple[Array, ...]:
    """The slices of an axis, in a tuple."""
    x = moveaxis(x, axis, 0)
    return tuple(x[i] for i in range(static_shape(x)[0]))


@function
def dstack(tup: Sequence[Any], *, dtype: Any = None) -> Array:
    """Join along the third axis."""
    return concatenate([atleast_3d(x) for x in tup], 2, dtype=dtype)


@lists("indices_or_sections")
@function
def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Split along the second axis, or the only one."""
    return split(ary, indices_or_sections, 0 if len(shape_of(ary)) == 1 else 1)


@lists("indices_or_sections")
@function
def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Split along the first axis."""
    return split(ary, indices_or_sections, 0)


@lists("indices_or_sections")
@function
def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """Split along the third axis."""
    return split(ary, indices_or_sections, 2)


@function
def rollaxis(a: Any, axis: int, start: int = 0) -> Array:
    """Move an axis to before position `start`."""
    a = as_tracer(a)
    source = normalize_axis(axis, a.ndim)
    target = start + a.ndim if start < 0 else start
    return moveaxis(a, source, target - 1 if source < target else target)


def broadcast_shapes(*args: Any) -> tuple[Any, ...]:
    """The shape to which arrays of `args` broadcast."""
    return _broadcast(*(shape_from(shape) for shape in args))


@function
def resize(a: Any, new_shape: Any) -> Array:
    """The elements of `a`, over and over, in a new shape."""
    a, shape = ravel(a), shape_from(new_shape)
    count, extent = math.prod(static_shape(zeros(shape))), a.shape[0]
    if extent == 0:
        return zeros(shape, a.dtype)
    return reshape(take(a, np.arange(count) % extent), shape)


@function
def delete(
    arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False
) -> Array:
    """`arr` without the slices at positions that are known while tracing."""
    arr, axis = _along(arr, axis)
    extent = static_shape(arr)[axis]
    with _positions(obj, axis, extent):
        kept = np.delete(np.arange(extent), obj)
    return take(arr, kept, axis)


@function
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """`arr` with `values` before the slices at positions that are known while tracing."""
    arr, axis = _along(arr, axis)
    extent = static_shape(arr)[axis]
    values = as_tracer(values)
    if values.ndim < arr.ndim:
        single = np.ndim(obj) == 0 and not isinstance(obj, slice)
        values = (
            expand_dims(values, axis)
            if values.ndim == arr.ndim - 1 and single and values.ndim
            else values
        )
    new = -1 - np.arange(_count(obj, values, axis, arr.ndim))
    with _positions(obj, axis, extent):
        wanted = np.insert(np.arange(extent), obj, new)
    added = int((wanted < 0).sum())
    shape = tuple(added if a == axis % arr.ndim else e for a, e in enumerate(arr.shape))
    from_values = np.where(wanted < 0, extent - 1 - wanted, wanted)
    spread = elementwise.add(elementwise.astype(zeros(shape, bool), values.dtype), values)
    return take(concatenate([arr, elementwise.astype(spread, arr.dtype)], axis), from_values, axis)


def _along(x: Any, axis: int | None) -> tuple[Array, int]:
    """Return what is edited along which axis: without one, the elements in their order."""
    if axis is None:
        return ravel(x), 0
    x = as_tracer(x)
    return x, normalize_axis(axis, x.ndim)


@contextmanager
def _positions(obj: Any, axis: int, extent: int) -> Iterator[None]:
    """Say which positions NumPy found out of range for an axis."""
    try:
        yield
    except IndexError:
        raise IndexOutOfRangeError(
            f"position {obj} is out of range for axis {axis} of {extent}",
            remedy=f"count from 0 to {extent}, or back from -1 to -{extent}",
        ) from None


def _count(obj: Any, values: Any, axis: int, rank: int) -> int:
    """Return how many slices are inserted."""
    listed = 1 if isinstance(obj, slice) or np.ndim(obj) == 0 else len(obj)
    own = values.shape[axis] if values.ndim == rank else 1
    return int(np.maximum(listed, own))


@only(axis=(None,))
def trim_zeros(filt: Any, trim: Literal["f", "b", "fb", "bf"] = "fb", axis: Any = None) -> Array:
    """A known vector without the zeros at its front (f) and back (b)."""
    return arrays_of(np.trim_zeros(np.array(filt), trim))


@function
def diagflat(v: Any, k: int = 0) -> Array:
    """The matrix with the flattened array on diagonal `k`."""
    return diag(ravel(v), k)


@function
def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = False) -> Array:
    """A copy of `a` with `val` on its main diagonal."""
    _require_copy("fill_diagonal", inplace or wrap)
    a = as_tracer(a)
    count = np.min(static_shape(a)).item()
    places = (np.arange(count),) * a.ndim
    if shape_of(val):
        val = resize(val, (count,))
    return index_set(a, places, val)


@function
def put(a: Any, ind: Any, v: Any, mode: str = "raise", *, inplace: bool = False) -> Array:
    """A copy of `a` with `v`, over and over, at flat positions."""
    _require_copy("put", inplace)
    a, ind = as_tracer(a), ravel(ind)
    if 0 in ind.shape or 0 in shape_of(v):
        return a
    total = product(static_shape(a))
    if mode == "clip":
        ind = elementwise.clip(ind, 0, total - 1)
    elif mode == "wrap":
        ind = elementwise.remainder(ind, total)
    return reshape(index_set(ravel(a), ind, resize(v, ind.shape)), a.shape)


@function
def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None,
    *,
    inplace: bool = False,
    mode: str | None = None,
) -> Array:
    """A copy of `arr` with `values` at the given positions along an axis.

    `mode` is that of `arr.at[index].set`.
    """
    _require_copy("put_along_axis", inplace)
    arr = as_tracer(arr)
    if axis is None:
        return reshape(ravel(arr).at[indices].set(values, mode=mode), arr.shape)
    position = normalize_axis(axis, arr.ndim)
    indices = as_tracer(indices)
    index = [
        indices
        if a == position
        else np.arange(e).reshape([-1 if b == a else 1 for b in range(arr.ndim)])
        for a, e in enumerate(static_shape(arr))
    ]
    return arr.at[tuple(index)].set(values, mode=mode)


def _require_copy(name: str, inplace: bool) -> None:
    if inplace:
        raise ShapeError(f"{name} changes no array in place", remedy="use the copy it returns")


# Choices


@function
def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Array:
    """At each position the element of the choice with that number."""
    parts = promoted([as_tracer(choice) for choice in choices])
    shape = _broadcast(shape_of(a), *(part.shape for part in parts))
    a = elementwise.add(a, zeros(shape, as_tracer(a).dtype))
    if mode != "raise":
        last = len(parts) - 1
        a = elementwise.clip(a, 0, last) if mode == "clip" else elementwise.remainder(a, last + 1)
    whole = stack([elementwise.add(part, zeros(shape, part.dtype)) for part in parts])
    grid = np.indices(static_shape(a), sparse=True)
    return getitem(whole, (a, *grid))


@function
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    """At each position the element of the first choice whose condition holds there."""
    *parts, found = promoted([*choicelist, default])
    for condition, part in zip(reversed(list(condlist)), reversed(parts), strict=True):
        found = elementwise.where(condition, part, found)
    return found


@function
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """At each position the function whose condition holds there, the last one where none does."""
    x = as_tracer(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    functions = list(funclist)
    default = functions.pop() if len(functions) == len(conditions) + 1 else 0
    values = [f(x, *args, **kw) if callable(f) else f for f in (*functions, default)]
    found = elementwise.astype(elementwise.add(zeros(x.shape), values[-1]), x.dtype)
    for condition, value in zip(conditions, values, strict=False):  # of several the last one holds
        found = elementwise.where(condition, elementwise.astype(value, x.dtype), found)
    return found


# Functions along axes


@function
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any
) -> Array:
    """`func1d` of each vector along an axis, which its result replaces."""
    arr = as_tracer(arr)
    position = normalize_axis(axis, arr.ndim)
    rows = moveaxis(arr, position, -1)
    flat = reshape(rows, (-1, rows.shape[-1]))
    results = of_each_row(lambda row: as_tracer(func1d(row, *args, **kwargs)), flat)
    rank = results.ndim - 1
    found = reshape(results, (*rows.shape[:-1], *results.shape[1:]))
    lead = arr.ndim - 1
    targets = tuple(range(position, position + rank))
    return moveaxis(found, tuple(range(lead, lead + rank)), targets) if rank else found


@function
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    """`func(a, axis)` over one axis after the other; axes that it folds stay, with extent 1."""
    a = as_tracer(a)
    for axis in axes_of(axes, a.ndim):
        found = func(a, axis)
        a = found if found.ndim == a.ndim else expand_dims(found, axis)
    return a


def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """`function` of the index arrays of a shape."""
    return function(*np.indices(tuple(shape), dtype_of(dtype, DType.F64).numpy), **kwargs)
