"""Indexing: `x[i]`, `x.at[i].set(v)`, `take` and their relatives.

An index out of range is an error, at trace time where it is known and at run time else.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from rlx.errors import DTypeError, IndexOutOfRangeError, ShapeError, UnsupportedError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent, broadcast_shapes, format_shape, is_at_most, normalize_axis
from rlx.ir.types import TensorType
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.extent_numbers import extent_number
from rlx.numpy.shaping import (
    concatenate,
    expand_dims,
    flip,
    moveaxis,
    ravel,
    reshape,
    transpose,
)
from rlx.tracing.apply import as_tracer, convert, emit, function, graph, promoted, wrap
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


@function
def getitem(x: Any, index: Any) -> Any:
    """`x[index]`."""
    x = as_tracer(x)
    plan = plan_index(x, index)
    if _reads_block(x, plan):
        return read_block(x, plan)
    cut = _sliced(x, plan.slices)
    if not plan.arrays:
        return reshape(cut, _laid_out(cut.shape, plan.layout))
    return _picked(cut, plan)


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
            arrays.append((axis, _checked_static(number, x.shape[axis], axis)))
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
            "an index has two ellipses; one at most may stand in it",
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
        _require_integer(item)
        return isinstance(item, TracedArray) or item.ndim > 0
    return False


def _require_integer(item: Item) -> None:
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
            f"index {item!r} of axis {axis} is no integer, slice, None, ellipsis or array",
            remedy="use an integer; round numbers first with .astype('i64')",
        ) from None


@with_wide_types
def _checked_static(item: Item, extent: Extent, axis: int) -> Any:
    """Bring an index array into [0, extent): now if it is known, else in the graph."""
    if isinstance(item, TracedArray):
        wide = convert(item, DType.I64)
        lowest = elementwise.add(wide, extent_number(extent))
        return elementwise.where(elementwise.less(wide, 0), lowest, wide)
    places = np.asarray(item, dtype=np.int64)
    if (
        isinstance(extent, int)
        and places.size
        and not (-extent <= places.min() and places.max() < extent)
    ):
        worst = places.min() if places.min() < -extent else places.max()
        raise IndexOutOfRangeError(
            f"index {worst} is out of range for axis {axis} of {extent}",
            remedy=f"use indices in [-{extent}, {extent}), or clip them",
        )
    if isinstance(extent, int):
        return np.where(places < 0, places + extent, places)
    if (places >= 0).all():
        return places
    return elementwise.where(places < 0, elementwise.add(places, extent_number(extent)), places)


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
            "a slice has step 0; it must move",
            remedy="use a positive or a negative step",
        )
    if isinstance(step, Dim):
        raise UnsupportedError(
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
    high = extent if item.start is None else _bound_behind(item.start, extent, axis)
    low = 0 if item.stop is None else _bound_behind(item.stop, extent, axis)
    high = _not_before(low, high, item)
    return slice(high - 1, low - 1, step)


def _bound_behind(place: Extent, extent: Extent, axis: int) -> Extent:
    """Return how many elements lie up to a place and with it."""
    return extent if place == -1 else bound_within(place + 1, extent, axis)


def _not_before(low: Extent, high: Extent, item: slice) -> Extent:
    """Return the end of a slice, its start where it takes nothing."""
    if is_at_most(low, high):
        return high
    if is_at_most(high, low):
        return low
    raise UnsupportedError(
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


def _sliced(x: Any, slices: tuple[slice, ...]) -> Any:
    """Apply slices with known bounds: one op, a reversal before it for negative steps."""
    backward = tuple(a for a, s in enumerate(slices) if s.step < 0)
    if backward:
        x = flip(x, backward)
    forward = tuple(
        _mirrored(s, x.shape[a]) if s.step < 0 else slice(s.start, max_of(s.start, s.stop), s.step)
        for a, s in enumerate(slices)
    )
    x, forward = _narrowed(x, forward)
    cut = [a for a, s in enumerate(forward) if (s.start, s.stop, s.step) != (0, x.shape[a], 1)]
    if not cut:
        return x
    if len(cut) == 1 and forward[cut[0]].step == 1:
        one = forward[cut[0]]
        return emit(
            ops.narrow, x, weak=x.weak, axis=cut[0], start=one.start, length=one.stop - one.start
        )
    return emit(
        ops.slice, x, weak=x.weak,
        start=tuple(s.start for s in forward),
        stop=tuple(s.stop for s in forward),
        step=tuple(s.step for s in forward),
    )  # fmt: skip


def _narrowed(x: Any, slices: tuple[slice, ...]) -> tuple[Any, tuple[slice, ...]]:
    """Cut the axes where something is symbolic; return what is left to do from their start on."""
    left = list(slices)
    for axis, each in enumerate(slices):
        whole = (each.start, each.stop) == (0, x.shape[axis])
        if whole or not any(isinstance(e, Dim) for e in (each.start, each.stop, x.shape[axis])):
            continue
        length = each.stop - each.start
        x = emit(ops.narrow, x, weak=x.weak, axis=axis, start=each.start, length=length)
        left[axis] = slice(0, length, each.step)
    return x, tuple(left)


def max_of(start: Any, stop: Any) -> Any:
    both = isinstance(start, int) and isinstance(stop, int)
    return max(start, stop) if both else stop


def _mirrored(item: slice, extent: Extent) -> slice:
    """Return the slice of the reversed axis that takes what `item` takes."""
    if any(isinstance(each, Dim) for each in (item.start, item.stop, extent)):
        return slice(extent - 1 - item.start, extent - 1 - item.stop, -item.step)
    count = len(range(item.start, item.stop, item.step))
    start = extent - 1 - item.start if count else 0
    stop = start + (count - 1) * -item.step + 1 if count else 0
    return slice(start, stop, -item.step)


def _laid_out(shape: tuple[Any, ...], layout: tuple[int | None, ...]) -> tuple[Any, ...]:
    return tuple(1 if axis is None else shape[axis] for axis in layout)


def _picked(x: Any, plan: Plan) -> Any:
    """Apply index arrays to an array whose plain slices are done."""
    axes = tuple(axis for axis, _ in plan.arrays)
    indices = [array for _, array in plan.arrays]
    kept = tuple(a for a in range(x.ndim) if a not in plan.dropped)
    x = reshape(x, tuple(x.shape[a] for a in kept))
    axes = tuple(kept.index(axis) for axis in axes)
    count = len(broadcast_shapes(*(shape_of(i) for i in indices)))
    places = [place for place, entry in enumerate(plan.layout) if entry in dict(plan.arrays)]
    together = places == list(range(places[0], places[0] + len(places)))
    if len(axes) == 1:
        result = emit(ops.gather, x, as_index(indices[0]), weak=x.weak, axis=axes[0])
        front = axes[0]
    else:
        result, front = _gathered_together(x, axes, indices), 0
    # NumPy: the axes of the indices stand where they were, or first if they were apart.
    target = places[0] if together else 0
    new_before = sum(entry is None for entry in plan.layout[:target])
    destination = target - new_before
    if front != destination and count:
        moved = range(front, front + count)
        result = moveaxis(result, tuple(moved), tuple(range(destination, destination + count)))
    inserted = (
        [place if place < target else place - len(places) + count for place in plan.new_axes]
        if together
        else [count + place - sum(p < place for p in places) for place in plan.new_axes]
    )
    return expand_dims(result, tuple(inserted)) if inserted else result


def _gathered_together(x: Any, axes: tuple[int, ...], indices: list[Any]) -> Any:
    """Pick with one index array per axis: flatten the axes, then pick with one."""
    extents = [static_shape(x)[axis] for axis in axes]
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    rows = transpose(x, axes + rest)
    flat = reshape(rows, (int(np.prod(extents)), *(x.shape[a] for a in rest)))
    return emit(ops.gather, flat, as_index(flat_index(indices, extents)), weak=x.weak, axis=0)


@with_wide_types
def flat_index(indices: list[Any], extents: list[int]) -> Any:
    """Combine one index array per axis into one over the flattened axes.

    Traced indices out of range become the least integer, so that the pick fails as it should.
    """
    if not any(isinstance(index, TracedArray) for index in indices):
        return np.ravel_multi_index(np.broadcast_arrays(*indices), extents)
    combined: Any = 0
    valid: Any = True
    for index, extent in zip(indices, extents, strict=True):
        combined = elementwise.add(elementwise.multiply(combined, extent), index)
        inside = elementwise.logical_and(
            elementwise.greater_equal(index, 0), elementwise.less(index, extent)
        )
        valid = elementwise.logical_and(valid, inside)
    return elementwise.where(valid, combined, np.iinfo(np.int64).min)


@with_wide_types
def as_index(index: Any) -> Any:
    return convert(index, DType.I64)


# Blocks


def is_block(plan: Plan) -> bool:
    """True for one block: slices without steps, and single positions that may be traced."""
    single = all(math.prod(shape_of(array)) == 1 for _, array in plan.arrays)
    return single and all(s.step == 1 for s in plan.slices)


def block_sizes(plan: Plan) -> tuple[Extent, ...]:
    sizes = [max_of(0, s.stop - s.start) for s in plan.slices]
    for axis, _ in plan.arrays:
        sizes[axis] = 1
    return tuple(sizes)


@with_wide_types
def block_starts(x: Any, plan: Plan) -> Any:
    """Return the first position of a block on every axis; one out of range fails when it runs."""
    starts: list[Any] = [extent_number(s.start) for s in plan.slices]
    for axis, array in plan.arrays:
        starts[axis] = _in_range(array, static_shape(x)[axis])
    if not any(isinstance(start, TracedArray) for start in starts):
        return np.asarray(starts, np.int64)
    return concatenate([reshape(as_index(start), (1,)) for start in starts])


@with_wide_types
def _in_range(position: Any, extent: int) -> Any:
    """Return one position after a check that it is in [0, extent)."""
    if not isinstance(position, TracedArray):
        return int(np.asarray(position).item())
    numbers = wrap(graph().iota(type=TensorType(DType.I64, (extent,))))
    return emit(ops.gather, numbers, reshape(as_index(position), (1,)), axis=0)


def _reads_block(x: Any, plan: Plan) -> bool:
    """True if a block is read at once, where else all that slices leave would be copied first."""
    if not any(isinstance(array, TracedArray) for _, array in plan.arrays) or not is_block(plan):
        return False
    picked = {axis for axis, _ in plan.arrays}
    cut = any(plan.slices[a] != slice(0, x.shape[a], 1) for a in range(x.ndim) if a not in picked)
    return (cut or len(picked) > 1) and all(isinstance(extent, int) for extent in x.shape)


def read_block(x: Any, plan: Plan) -> Any:
    """Return the elements that a plan picks, a block, in their shape."""
    sizes = block_sizes(plan)
    block = emit(ops.dynamic_slice, x, block_starts(x, plan), weak=x.weak, sizes=sizes)
    return reshape(block, _picked_shape(plan, sizes))


def _picked_shape(plan: Plan, sizes: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Return the shape of a block: NumPy puts the axes of arrays that stand apart first."""
    picking = dict(plan.arrays)
    axes = (1,) * len(broadcast_shapes(*(shape_of(array) for array in picking.values())))
    places = [place for place, entry in enumerate(plan.layout) if entry in picking]
    together = places == list(range(places[0], places[0] + len(places)))
    shape: list[Extent] = [] if together else [*axes]
    for place, entry in enumerate(plan.layout):
        if entry is None or entry not in picking:
            shape.append(1 if entry is None else sizes[entry])
        elif together and place == places[0]:
            shape.extend(axes)
    return tuple(shape)


# Functions


@function
def take(
    x: Any, indices: Any, axis: int | None = None, *, mode: str | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """The elements or slices of `x` at `indices` along an axis.

    An index out of range is an error; for mode clip or fill, as for `x.at[index].get`, it is not.
    """
    x = as_tracer(x)
    if axis is None:
        x, axis = ravel(x), 0
    position = normalize_axis(axis, x.ndim)
    places = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    if mode == "wrap":
        places = elementwise.remainder(places, x.shape[position])
    elif mode is not None and mode != "raise":
        index = (*(slice(None),) * position, places)
        return x.at[index].get(mode=mode, fill_value=fill_value)
    _require_integer(places)
    checked = _checked_static(places, x.shape[position], position)
    return emit(ops.gather, x, as_index(checked), weak=x.weak, axis=position)


@function
def take_along_axis(
    x: Any, indices: Any, axis: int | None = -1, mode: str | None = None, fill_value: Any = None
) -> Any:
    """For every position the element of `x` at the index that stands there."""
    x = as_tracer(x)
    if axis is None:
        return take(x, indices, mode=mode, fill_value=fill_value)
    position = normalize_axis(axis, x.ndim)
    shape = shape_of(indices)
    if len(shape) != x.ndim:
        raise ShapeError(
            f"indices have rank {len(shape)}; x has rank {x.ndim}, they must agree",
            remedy="expand the indices to the rank of x, or use rlx.numpy.take",
        )
    index: list[Any] = []
    for a in range(x.ndim):
        if a == position:
            index.append(indices)
        elif x.shape[a] == 1:
            index.append(np.zeros((1,) * x.ndim, np.int64))
        else:
            aligned = [1] * x.ndim
            aligned[a] = x.shape[a]
            index.append(np.arange(x.shape[a]).reshape(aligned))
    return getitem(x, tuple(index))


@function
def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Any:
    """The block of shape `sizes` at traced positions; it is moved inside where it sticks out."""
    x = as_tracer(x)
    return emit(ops.dynamic_slice, x, _starts(starts), weak=x.weak, sizes=tuple(sizes))


@function
def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Any:
    """`x` with the block at traced positions replaced; the positions as in `dynamic_slice`."""
    x, update = promoted([x, update])
    return emit(ops.dynamic_update_slice, x, update, _starts(starts))


@with_wide_types
def _starts(starts: Any) -> Any:
    if isinstance(starts, (tuple, list)):
        numbers = [reshape(convert(start, DType.I64), (1,)) for start in starts]
        return concatenate(numbers)
    return convert(starts, DType.I64)
