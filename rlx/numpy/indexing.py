"""Indexing: `x[i]`, `take` and their relatives, by index plans.

An index out of range is an error, at trace time where it is known and at run time else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.ops.indexing import NO_INDEX
from rlx.ir.shape import Dim, Extent, broadcast_shapes, normalize_axis, product, upper
from rlx.ir.types import TensorType
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.extent_numbers import extent_number
from rlx.numpy.index_plan import Plan, as_index, checked_static, plan_index, require_integer
from rlx.numpy.shaping import (
    concatenate,
    expand_dims,
    flip,
    moveaxis,
    ravel,
    reshape,
    transpose,
)
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, function, graph, promoted, wrap
from rlx.tracing.trace import TracedArray, shape_of
from rlx.tracing.widths import with_wide_types


@function
def getitem(x: Any, index: Any) -> Array:
    """`x[index]`."""
    x = as_tracer(x)
    return pick(x, plan_index(x, index))


def pick(x: Any, plan: Plan) -> Any:
    """Return what a plan picks from `x`, or from another array of its leading extents.

    The arrays of a plan count from the front already: as an index they would be wrapped again.
    """
    if _reads_block(x, plan):
        return read_block(x, plan)
    cut = _sliced(x, plan.slices)
    if not plan.arrays:
        return reshape(cut, tuple(1 if axis is None else cut.shape[axis] for axis in plan.layout))
    return _picked(cut, plan)


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
    # NumPy: the axes of the indices are where they were, or first if they were apart.
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
    extents = [x.shape[axis] for axis in axes]
    rest = tuple(a for a in range(x.ndim) if a not in axes)
    rows = transpose(x, axes + rest)
    flat = reshape(rows, (product(extents), *(x.shape[a] for a in rest)))
    return emit(ops.gather, flat, as_index(flat_index(indices, extents)), weak=x.weak, axis=0)


@with_wide_types
def flat_index(indices: list[Any], extents: Sequence[Extent]) -> Any:
    """Combine one index array per axis into one over the flattened axes.

    Traced indices out of range become the least integer, so that the pick fails as it should.
    """
    if not any(isinstance(each, (TracedArray, Dim)) for each in (*indices, *extents)):
        known = [upper(extent) for extent in extents]
        return np.ravel_multi_index(np.broadcast_arrays(*indices), known)
    combined: Any = 0
    valid: Any = True
    for index, extent in zip(indices, extents, strict=True):
        combined = elementwise.add(elementwise.multiply(combined, extent), index)
        inside = elementwise.logical_and(
            elementwise.greater_equal(index, 0), elementwise.less(index, extent)
        )
        valid = elementwise.logical_and(valid, inside)
    return elementwise.where(valid, combined, NO_INDEX)


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
    """Return the shape of a block: NumPy puts the axes of separated arrays first."""
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
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: str | None = "raise",
    *,
    fill_value: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
) -> Array:
    """The elements or slices of `a` at `indices` along an axis.

    An index out of range is an error. Mode clip takes the first element for a negative one, as in
    NumPy, and the last one beyond; modes wrap and fill are those of `a.at[index].get`.
    """
    a = as_tracer(a)
    if axis is None:
        a, axis = ravel(a), 0
    position = normalize_axis(axis, a.ndim)
    places = np.asarray(indices) if isinstance(indices, (list, tuple)) else indices
    if mode == "clip":
        last = elementwise.subtract(extent_number(a.shape[position]), 1)
        places = elementwise.clip(as_index(places), 0, last)
    elif mode is not None and mode != "raise":
        index = (*(slice(None),) * position, places)
        return a.at[index].get(mode=mode, fill_value=fill_value)
    require_integer(places)
    checked = checked_static(places, a.shape[position], position)
    return emit(ops.gather, a, as_index(checked), weak=a.weak, axis=position)


@function
def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: str | None = None, fill_value: Any = None
) -> Array:
    """For every position the element of `arr` at the index there; modes as in `take`."""
    arr = as_tracer(arr)
    if axis is None:
        return take(arr, indices, mode=mode, fill_value=fill_value)
    position = normalize_axis(axis, arr.ndim)
    shape = shape_of(indices)
    if len(shape) != arr.ndim:
        raise ShapeError(
            f"indices have rank {len(shape)}; x has rank {arr.ndim}, they must agree",
            remedy="expand the indices to the rank of x, or use rlx.numpy.take",
        )
    index: list[Any] = []
    for a in range(arr.ndim):
        if a == position:
            index.append(indices)
        elif arr.shape[a] == 1:
            index.append(np.zeros((1,) * arr.ndim, np.int64))
        else:
            aligned = [1] * arr.ndim
            aligned[a] = arr.shape[a]
            index.append(_numbered(arr.shape[a]).reshape(aligned))
    if mode is None or mode == "raise":
        return getitem(arr, tuple(index))
    return arr.at[tuple(index)].get(mode=mode, fill_value=fill_value)


def _numbered(extent: Extent) -> Any:
    """Return the indices of an axis."""
    if isinstance(extent, int):
        return np.arange(extent)
    return wrap(graph().iota(type=TensorType(DType.I64, (extent,))))


@function
def dynamic_slice(x: Any, starts: Any, sizes: Any) -> Array:
    """The block of shape `sizes` at traced positions; it is moved inside where it sticks out."""
    x = as_tracer(x)
    return emit(ops.dynamic_slice, x, _starts(starts), weak=x.weak, sizes=tuple(sizes))


@function
def dynamic_update_slice(x: Any, update: Any, starts: Any) -> Array:
    """`x` with the block at traced positions replaced; the positions as in `dynamic_slice`."""
    x, update = promoted([x, update])
    return emit(ops.dynamic_update_slice, x, update, _starts(starts))


@with_wide_types
def _starts(starts: Any) -> Any:
    if isinstance(starts, (tuple, list)):
        return concatenate([reshape(as_index(start), (1,)) for start in starts])
    return as_index(starts)
