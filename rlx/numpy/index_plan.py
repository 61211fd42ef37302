"""Index plans: an index expression decomposed by axes of the operand.

Bounds of slices and single positions are checked here, where they are known.
"""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import (
    DTypeError,
    IndexOutOfRangeError,
    ShapeError,
    SymbolicExtentError,
    UnsupportedError,
)
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent, format_shape, is_at_most
from rlx.numpy import elementwise
from rlx.numpy.extent_numbers import extent_number
from rlx.tracing.apply import convert
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.trace import TracedArray, element_type, shape_of
from rlx.tracing.widths import with_wide_types

Item: TypeAlias = Any
"""One entry of an index: int, slice, None, or an array of integers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An index taken apart: what happens to each axis of the operand, in order."""

    slices: tuple[slice, ...]
    """One per axis; the whole axis where an array picks from it."""
    dropped: tuple[int, ...]
    """Axes that a number picks from."""
    arrays: tuple[tuple[int, Any], ...]
    """Axes that arrays pick from."""
    new_axes: tuple[int, ...]
    """Positions of `None` among the entries of `layout`."""
    layout: tuple[int | None, ...]
    """Axes of the operand in order, dropped ones left out, `None` where one is inserted."""


def plan_index(x: Any, index: Any) -> Plan:
    """Take `index` apart; numbers become slices of one element that are dropped after."""
    given = index if isinstance(index, tuple) else (index,)
    require_masks_fit(given, x.shape)
    items = _expanded(given, x.ndim)
    slices: list[slice] = []
    dropped: list[int] = []
    arrays: list[tuple[int, Any]] = []
    layout: list[int | None] = []
    mixes_numbers = any(_is_array(item) for item in items)
    picks_nothing = any(_is_array(item) and 0 in shape_of(item) for item in items)
    for item in items:
        axis = len(slices)
        if item is None:
            layout.append(None)
            continue
        if isinstance(item, slice):
            slices.append(_resolved(item, x.shape[axis], axis))
            layout.append(axis)
        elif _is_array(item) or mixes_numbers:
            slices.append(slice(0, x.shape[axis], 1))
            number = extent_number(item) if isinstance(item, Dim) else item
            if picks_nothing and not isinstance(number, TracedArray):
                number = np.zeros(shape_of(number), np.int64)  # not checked, as in NumPy
            arrays.append((axis, checked_static(number, x.shape[axis], axis)))
            layout.append(axis)
        else:
            position = _position(item, x.shape[axis], axis)
            slices.append(slice(position, position + 1, 1))
            dropped.append(axis)
    new_axes = tuple(place for place, entry in enumerate(layout) if entry is None)
    return Plan(tuple(slices), tuple(dropped), tuple(arrays), new_axes, tuple(layout))


def require_masks_fit(items: tuple[Item, ...], shape: tuple[Extent, ...]) -> None:
    """Refuse a mask whose shape is not that of the axes that it picks from."""
    masks = [np.asarray(item) if isinstance(item, (list, np.ndarray)) else None for item in items]
    masks = [mask if mask is not None and mask.dtype == np.bool_ else None for mask in masks]
    counts = [
        mask.ndim if mask is not None else int(item is not None and item is not Ellipsis)
        for item, mask in zip(items, masks, strict=True)
    ]
    axis = 0
    for item, mask, count in zip(items, masks, counts, strict=True):
        axis += len(shape) - sum(counts) if item is Ellipsis else 0
        if mask is not None and mask.shape != shape[axis : axis + count]:
            raise ShapeError(
                f"a mask has shape {mask.shape}; what it picks from has "
                f"{format_shape(shape[axis : axis + count])}",
                remedy="use a mask of the array's shape, or of its first axes'",
            )
        axis += count


def _expanded(items: tuple[Item, ...], rank: int) -> list[Item]:
    """Replace the ellipsis and masks; fill up with whole slices."""
    found: list[Item] = []
    for item in items:
        found.extend(_from_mask(item))
    ellipses = sum(item is Ellipsis for item in found)
    if ellipses > 1:
        raise ShapeError(
            "an index has two ellipses; one at most is allowed",
            remedy="keep one `...` and write `:` for other axes",
        )
    named = sum(item is not None and item is not Ellipsis for item in found)
    if named > rank:
        raise ShapeError(
            f"{named} indices for an array of rank {rank}",
            remedy="drop indices, or add axes to the array with x[..., None]",
        )
    whole = [slice(None)] * (rank - named)
    if not ellipses:
        return [*found, *whole]
    at = next(place for place, item in enumerate(found) if item is Ellipsis)
    return [*found[:at], *whole, *found[at + 1 :]]


def _from_mask(item: Item) -> list[Item]:
    """Turn lists into arrays and NumPy masks into the indices of their true elements."""
    if isinstance(item, list):
        item = np.asarray(item, dtype=None if item else np.int64)
    if isinstance(item, TracedArray) and element_type(item).dtype is DType.BOOL:
        raise ConcretizationError(
            "a traced bool mask picks a number of elements that is not known while tracing",
            remedy="use rlx.numpy.where(mask, x, other), or a NumPy mask",
        )
    if isinstance(item, (bool, np.bool_)):
        raise DTypeError("an index is a bool", remedy="use a mask of the array's shape")
    if isinstance(item, np.ndarray) and item.dtype == np.bool_:
        return list(np.nonzero(item))
    return [item]


def _is_array(item: Item) -> bool:
    if isinstance(item, (TracedArray, np.ndarray)):
        require_integer(item)
        return isinstance(item, TracedArray) or item.ndim > 0
    return False


def require_integer(item: Item) -> None:
    if not element_type(item).dtype.is_int:
        raise DTypeError(
            f"an index has dtype {element_type(item).dtype}; it must be an integer",
            remedy="convert it with .astype('i64')",
        )


def _position(item: Item, extent: Extent, axis: int) -> Extent:
    position = item if isinstance(item, Dim) else _integer(item, axis)
    if isinstance(position, int) and isinstance(extent, int):
        if not -extent <= position < extent:
            raise IndexOutOfRangeError(
                f"index {position} is out of range for axis {axis} of {extent}",
                remedy=f"use an index in [-{extent}, {extent}), or check the axis",
            )
        return position % extent
    from_back = is_at_most(position, -1)
    least = -position if from_back else position + 1
    if not (is_at_most(least, extent) and (from_back or is_at_most(0, position))):
        raise UnsupportedError(
            f"index {position} of axis {axis} is out of range in runs where {extent} is too small",
            remedy=f"bound it from below, rlx.Dim(..., min=, max=), so that it is at least {least}",
        )
    return extent + position if from_back else position


def _integer(item: Item, axis: int) -> int:
    try:
        return operator.index(item)
    except TypeError:
        raise DTypeError(
            f"index {item!r} of axis {axis} is not an integer, slice, None, ellipsis or array",
            remedy="use an integer; round numbers first with .astype('i64')",
        ) from None


_LARGEST = np.iinfo(np.int64).max


@with_wide_types
def as_index(index: Any) -> Any:
    """Convert positions to i64; those that it cannot hold become its largest or least number."""
    if isinstance(index, int):
        return np.asarray(min(max(index, -_LARGEST), _LARGEST), "i8")
    if isinstance(index, Dim):
        return extent_number(index)
    if element_type(index).dtype is DType.U64:
        n = elementwise if isinstance(index, TracedArray) else np
        index = n.minimum(index, np.uint64(_LARGEST))
    return convert(index, DType.I64) if isinstance(index, TracedArray) else np.asarray(index, "i8")


@with_wide_types
def from_front(index: Any, extent: Extent) -> Any:
    """Return positions as i64 of which negative ones, counted from the end, are counted from 0.

    Positions below `-extent` stay negative: a second call would take them for others.
    """
    places = as_index(index)
    if isinstance(places, np.ndarray):
        if isinstance(extent, int):
            return np.where(places < 0, places + extent, places)
        if (places >= 0).all():
            return places
    return elementwise.where(
        elementwise.less(places, 0), elementwise.add(places, extent_number(extent)), places
    )


def checked_static(item: Item, extent: Extent, axis: int) -> Any:
    """Bring an index array into [0, extent): now if it is known, else in the graph."""
    if isinstance(item, TracedArray) or not isinstance(extent, int):
        return from_front(item, extent)
    places = as_index(item)
    if places.size and not (-extent <= places.min() and places.max() < extent):
        worst = places.min() if places.min() < -extent else places.max()
        raise IndexOutOfRangeError(
            f"index {worst} is out of range for axis {axis} of {extent}",
            remedy=f"use indices in [-{extent}, {extent}), or clip them",
        )
    return from_front(places, extent)


def _resolved(item: slice, extent: Extent, axis: int) -> slice:
    for bound in (item.start, item.stop, item.step):
        if isinstance(bound, TracedArray):
            raise ConcretizationError(
                "a slice has a traced bound, but the extent of the result must be known",
                remedy="use rlx.numpy.dynamic_slice(x, starts, sizes)",
            )
    start, stop, step = (_bound(bound, axis) for bound in (item.start, item.stop, item.step))
    if step == 0:
        raise ShapeError(
            "a slice has step 0; steps must not be 0",
            remedy="use a positive or a negative step",
        )
    if isinstance(step, Dim):
        raise SymbolicExtentError(
            f"a slice has step {step}, which differs between runs", remedy="use a number"
        )
    if isinstance(start, Dim) or isinstance(stop, Dim) or isinstance(extent, Dim):
        return _resolved_symbolic(slice(start, stop, step), extent, axis)
    return slice(*slice(start, stop, step).indices(extent))


def _bound(bound: Any, axis: int) -> Extent | None:
    """Return a bound or the step of a slice as a plain number: NumPy's integers are such too."""
    if bound is None or isinstance(bound, Dim):
        return bound
    try:
        return operator.index(bound)
    except TypeError:
        raise DTypeError(
            f"a slice of axis {axis} has the bound {bound!r}; it must be an integer",
            remedy="use integers; round numbers first with int()",
        ) from None


def _resolved_symbolic(item: slice, extent: Extent, axis: int) -> slice:
    """Bring the bounds of a slice into an axis, as `slice.indices` does for a number."""
    step: int = 1 if item.step is None else item.step
    if step > 0:
        low = 0 if item.start is None else bound_within(item.start, extent, axis)
        high = extent if item.stop is None else bound_within(item.stop, extent, axis)
        return slice(low, _not_before(low, high, item), step)
    high = extent if item.start is None else _count_through(item.start, extent, axis)
    low = 0 if item.stop is None else _count_through(item.stop, extent, axis)
    high = _not_before(low, high, item)
    return slice(high - 1, low - 1, step)


def _count_through(place: Extent, extent: Extent, axis: int) -> Extent:
    """Return how many elements there are up to a place, inclusive."""
    return extent if place == -1 else bound_within(place + 1, extent, axis)


def _not_before(low: Extent, high: Extent, item: slice) -> Extent:
    """Return the end of a slice, its start where it takes nothing."""
    if is_at_most(low, high):
        return high
    if is_at_most(high, low):
        return low
    raise SymbolicExtentError(
        f"whether the slice {item.start}:{item.stop} is empty differs between runs",
        remedy="give bounds that decide it, rlx.Dim(..., min=, max=), or a number for the extent",
    )


def bound_within(bound: Extent, extent: Extent, axis: int) -> Extent:
    """Return a bound of a slice as a number of elements from the front, and no more than all."""
    from_back = is_at_most(bound, -1)
    count = -bound if from_back else bound
    if is_at_most(count, extent):
        return extent - count if from_back else count
    if is_at_most(extent, count):
        return 0 if from_back else extent
    raise UnsupportedError(
        f"whether {count} elements are more than the extent {extent} of axis {axis} differs "
        "between runs",
        remedy="give bounds that decide it, rlx.Dim(..., min=, max=), or a number for the extent",
    )
