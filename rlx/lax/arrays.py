"""Arrays made, reshaped, padded, and read and written in blocks, with JAX's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import as_array_dtype
from rlx.ir.shape import Dim, normalize_axis
from rlx.ir.types import TensorType
from rlx.numpy import indexing, shaping
from rlx.numpy.axes import require_per_axis, static_shape
from rlx.numpy.index_plan import from_front
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function
from rlx.tracing.trace import shape_of
from rlx.tracing.widths import canonical


@function
def full(shape: Any, fill_value: Any, dtype: Any = None) -> Array:
    """An array of one value."""
    return rnp.full(shape, fill_value, dtype)


@function
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Array:
    """An array like `x`, of one value."""
    return rnp.full_like(x, fill_value, dtype, shape)


@function
def iota(dtype: Any, size: int) -> Array:
    """0, 1, 2, ..."""
    is_complex = as_array_dtype(dtype).is_complex
    return rnp.astype(rnp.arange(size, dtype=None if is_complex else dtype), dtype)


@function
def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Array:
    """The index on one axis, in an array of `shape`."""
    line: list[Any] = [1] * len(shape)
    line[normalize_axis(dimension, len(shape))] = -1
    extent = shape[dimension]
    if isinstance(extent, Dim):
        numbers = emit(ops.iota, type=TensorType(canonical(as_array_dtype(dtype)), (extent,)))
        places = tuple(axis for axis in range(len(shape)) if axis != dimension % len(shape))
        return rnp.broadcast_to(rnp.expand_dims(numbers, places), tuple(shape))
    return rnp.broadcast_to(rnp.reshape(iota(dtype, extent), line), shape)


@function
def reshape(operand: Any, new_sizes: Any, dimensions: Any = None) -> Array:
    """The elements in another shape, after `dimensions` reorders the axes."""
    moved = operand if dimensions is None else shaping.transpose(operand, dimensions)
    return shaping.reshape(moved, new_sizes)


@function
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """`operand` with a range of axes as one."""
    shape = shape_of(operand)
    start, stop, _ = slice_of(start_dimension, stop_dimension).indices(len(shape))
    return shaping.reshape(operand, (*shape[:start], -1, *shape[stop:]))


slice_of = slice


@function
def broadcast(operand: Any, sizes: Sequence[int]) -> Array:
    """`operand` with new leading axes."""
    return shaping.broadcast_to(operand, (*sizes, *shape_of(operand)))


@function
def broadcast_in_dim(operand: Any, shape: Any, broadcast_dimensions: Sequence[int]) -> Array:
    """`operand`, whose axes become the named ones of `shape`."""
    line: list[Any] = [1] * len(shape)
    places = [normalize_axis(axis, len(shape)) for axis in broadcast_dimensions]
    if len(places) != len(shape_of(operand)) or sorted(set(places)) != places:
        raise ShapeError(
            f"broadcast_dimensions are {tuple(broadcast_dimensions)} for shape {shape_of(operand)}",
            remedy="name an axis of the result for each axis of the operand, in ascending order",
        )
    for extent, axis in zip(shape_of(operand), places, strict=True):
        line[axis] = extent
    return shaping.broadcast_to(shaping.reshape(operand, line), shape)


@function
def transpose(operand: Any, permutation: Sequence[int]) -> Array:
    """`operand` with its axes in another order."""
    return shaping.transpose(operand, tuple(permutation))


@function
def squeeze(array: Any, dimensions: Sequence[int]) -> Array:
    """`array` without some axes of one element."""
    return shaping.squeeze(array, tuple(dimensions))


@function
def expand_dims(array: Any, dimensions: Sequence[int]) -> Array:
    """`array` with new axes of one element, at places of the result."""
    return shaping.expand_dims(array, tuple(dimensions))


@function
def concatenate(operands: Sequence[Any], dimension: int) -> Array:
    """Arrays joined along an axis."""
    return shaping.concatenate(operands, dimension)


@function
def stack(operands: Sequence[Any], axis: int = 0) -> Array:
    """Arrays of one shape along a new axis."""
    return shaping.stack(operands, axis)


@function
def tile(operand: Any, reps: Sequence[int]) -> Array:
    """The whole array repeated along each axis."""
    return rnp.tile(operand, tuple(reps))


@function
def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """The parts of an axis that have `sizes`, which add up to its extent."""
    x = as_tracer(operand)
    extent = static_shape(x)[normalize_axis(axis, x.ndim)]
    if sum(sizes) != extent:
        raise ShapeError(
            f"parts of {tuple(sizes)} of an axis of extent {extent}",
            remedy="give sizes that add up to it; rlx.numpy.split takes positions",
        )
    ends = np.cumsum([int(size) for size in sizes])[:-1].tolist()
    return list(shaping.split(operand, ends, axis))


@function
def broadcast_to_rank(x: Any, rank: int) -> Array:
    """`x` with leading axes of one element, up to `rank` axes."""
    return shaping.reshape(x, (*(1,) * (rank - len(shape_of(x))), *shape_of(x)))


@function
def broadcast_like(arr: Any, like_arr: Any) -> Array:
    """`arr` in the shape of another array."""
    return shaping.broadcast_to(arr, shape_of(like_arr))


def shape_as_value(shape: Sequence[int]) -> Array:
    """A shape as an array of integers."""
    return rnp.asarray(tuple(shape), "int32") if shape else rnp.zeros(0, "int32")


@function
def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """The slices at positions on some axes of `src`, the positions' axis first."""
    whole: list[Any] = [slice_of(None)] * len(shape_of(src))
    for axis, places in zip(axes, idxs, strict=True):
        whole[axis] = places
    return shaping.moveaxis(indexing.getitem(src, tuple(whole)), min(axes), 0)


@function
def rev(operand: Any, dimensions: Sequence[int]) -> Array:
    """`operand` with some axes reversed."""
    return shaping.flip(operand, tuple(dimensions))


@function
def pad(operand: Any, padding_value: Any, padding_config: Any) -> Array:
    """`operand` with values around and between its elements: (low, high, interior) per axis.

    A negative width cuts elements off.
    """
    x = as_tracer(operand)
    if len(padding_config) != x.ndim or any(np.shape(each) != (3,) for each in padding_config):
        raise ShapeError(
            f"padding_config is {padding_config} for {x.ndim} axes",
            remedy="give (low, high, interior) for each axis",
        )
    for axis, (low, high, interior) in enumerate(padding_config):
        extent = static_shape(x)[axis]
        spread = np.full(extent + interior * (extent - 1 if extent else 0), extent)
        spread[:: interior + 1] = np.arange(extent)
        if len(spread) + low + high < 0 or interior < 0:
            raise ShapeError(
                f"padding {(low, high, interior)} of axis {axis}, which has {extent} elements",
                remedy="cut off no more elements than there are; interior is 0 or more",
            )
        before, after = np.maximum([low, high], 0)
        places = np.concatenate([np.full(before, extent), spread, np.full(after, extent)])
        places = places[-low if low < 0 else 0 : high if high < 0 else None]
        shape = tuple(1 if a == axis else e for a, e in enumerate(x.shape))
        filler = shaping.broadcast_to(convert(padding_value, x.value.dtype), shape)
        x = indexing.take(shaping.concatenate([x, filler], axis), places, axis)
    return x


@function
def slice(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Array:
    """The block from `start_indices` up to `limit_indices`, which is inside."""
    shape = shape_of(operand)
    steps = strides or (1,) * len(shape)
    require_per_axis(
        len(shape), start_indices=start_indices, limit_indices=limit_indices, strides=steps
    )
    bounds = [*zip(start_indices, limit_indices, steps, strict=True)]
    is_inside = all(
        0 <= start <= limit and step > 0 and not (isinstance(extent, int) and limit > extent)
        for (start, limit, step), extent in zip(bounds, shape, strict=True)
    )
    if not is_inside:
        raise ShapeError(
            f"a block from {tuple(start_indices)} to {tuple(limit_indices)} by {tuple(steps)} "
            f"of shape {shape}",
            remedy="give bounds of each axis inside of it and steps of 1 or more; "
            "x[start:stop] clips bounds to the axis",
        )
    return indexing.getitem(operand, tuple(slice_of(*each) for each in bounds))


@function
def slice_in_dim(
    operand: Any, start_index: Any, limit_index: Any, stride: int = 1, axis: int = 0
) -> Array:
    """A part of one axis."""
    lead = normalize_axis(axis, len(shape_of(operand)))
    extent = shape_of(operand)[lead]
    bounds = [bound for bound in (start_index, limit_index) if bound is not None]
    if isinstance(extent, int) and any(not -extent <= bound <= extent for bound in bounds):
        raise ShapeError(
            f"a slice from {start_index} to {limit_index} of an axis of {extent}",
            remedy="give bounds inside; x[start:stop] clips bounds to the axis",
        )
    whole = (slice_of(None),) * lead
    return indexing.getitem(operand, (*whole, slice_of(start_index, limit_index, stride)))


@function
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """One slice of an axis."""
    found = indexing.take(operand, index, axis)
    return shaping.expand_dims(found, axis) if keepdims else found


@function
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Any) -> Array:
    """A block at traced positions, moved inside where it sticks out."""
    if shape_of(operand) == () and len(start_indices) == len(slice_sizes) == 0:
        return as_tracer(operand)  # a number is its only block
    return indexing.dynamic_slice(operand, _starts(operand, start_indices), slice_sizes)


@function
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Array:
    """`operand` with a block at traced positions replaced."""
    if shape_of(operand) == shape_of(update) == () and len(start_indices) == 0:
        return convert(update, as_tracer(operand).value.dtype)  # a number is its only block
    return indexing.dynamic_update_slice(operand, update, _starts(operand, start_indices))


@function
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Array:
    """A part of one axis at a traced position."""
    sizes = list(shape_of(operand))
    sizes[normalize_axis(axis, len(sizes))] = slice_size
    return dynamic_slice(operand, _on_axis(operand, start_index, axis), sizes)


@function
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Array:
    """One slice of an axis at a traced position."""
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    return found if keepdims else shaping.squeeze(found, axis)


@function
def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Array:
    """`operand` with a part of one axis replaced."""
    return dynamic_update_slice(operand, update, _on_axis(operand, start_index, axis))


@function
def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Array:
    """`operand` with one slice of an axis replaced."""
    if len(shape_of(update)) < len(shape_of(operand)):
        update = shaping.expand_dims(update, axis)
    return dynamic_update_slice_in_dim(operand, update, index, axis)


def _on_axis(operand: Any, start: Any, axis: int) -> list[Any]:
    starts: list[Any] = [0] * len(shape_of(operand))
    starts[normalize_axis(axis, len(starts))] = start
    return starts


def _starts(operand: Any, starts: Any) -> Any:
    """Return positions of which negative ones count from the end, as in JAX."""
    if not isinstance(starts, (tuple, list)):
        starts = [starts[place] for place in range(static_shape(starts)[0])]
    pairs = zip(starts, static_shape(operand), strict=True)
    return [from_front(start, extent) for start, extent in pairs]
