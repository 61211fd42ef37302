"""Gathers and scatters of slices, as XLA numbers their dimensions.

A start is a vector of positions; the slice that begins there is read or written. Which axes of
the operand the positions count on, and the axes of slices, is what the numbers say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.index_plan import as_index
from rlx.numpy.index_updates import IndexedUpdate, IndexUpdater
from rlx.numpy.indexing import getitem
from rlx.numpy.shaping import broadcast_to, reshape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, function
from rlx.tracing.trace import element_type

Axes = tuple[int, ...]


class GatherDimensionNumbers(NamedTuple):
    """Positions of the axes of slices in the result, and what the indices count."""

    offset_dims: Axes
    collapsed_slice_dims: Axes
    start_index_map: Axes
    operand_batching_dims: Axes = ()
    start_indices_batching_dims: Axes = ()


class ScatterDimensionNumbers(NamedTuple):
    """Positions of the axes of windows in the updates, and what the indices count."""

    update_window_dims: Axes
    inserted_window_dims: Axes
    scatter_dims_to_operand_dims: Axes
    operand_batching_dims: Axes = ()
    scatter_indices_batching_dims: Axes = ()


@dataclass(frozen=True, slots=True)
class _Slices:
    """Every element of every slice: its position on each axis of the operand."""

    positions: tuple[Any, ...]
    inside: Any
    """Which slices are in range as a whole."""


_MODES = {None: "fill", "drop": "fill", "fill": "fill", "clip": "clip", "promise_in_bounds": "clip"}


@function
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """The slices of `slice_sizes` that begin at `start_indices`.

    Slices that reach outside are moved inside; for mode fill they are `fill_value`, by default
    NaN or the least integer.
    """
    x, how = as_tracer(operand), _mode(mode or "clip")
    found = _slices(x, as_tracer(start_indices), dimension_numbers, tuple(slice_sizes))
    picked = getitem(x, found.positions)
    if how == "clip":
        return picked
    dtype = element_type(x).dtype
    return elementwise.where(found.inside, picked, convert(_fill(dtype, fill_value), dtype))


def _fill(dtype: DType, given: Any) -> Any:
    if given is not None:
        return given
    if not dtype.is_int:
        return dtype is DType.BOOL or np.nan
    limits = np.iinfo(dtype.numpy)
    return limits.min if dtype.is_signed_int else limits.max


def _scatter(name: str, doc: str) -> Callable[..., Any]:
    """Return the scatter that changes elements by the method `name` of `x.at[index]`."""

    def scatter(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        del unique_indices, indices_are_sorted
        x, updates = as_tracer(operand), as_tracer(updates)
        shape = static_shape(updates)
        positions = _written(x, scatter_indices, dimension_numbers, shape, mode)
        return getattr(IndexUpdater(x)[positions], name)(updates, mode="drop")

    scatter.__name__ = "scatter" if name == "set" else f"scatter_{name}"
    scatter.__doc__ = doc
    return function(scatter)


scatter = _scatter("set", "`operand` with windows of `updates` written at `scatter_indices`.")
scatter_add = _scatter("add", "`operand` with windows added; they may overlap.")
scatter_sub = _scatter("subtract", "`operand` with windows subtracted; they may overlap.")
scatter_mul = _scatter("multiply", "`operand` with windows multiplied in; they may overlap.")
scatter_min = _scatter("min", "`operand` with the least of its elements and those of windows.")
scatter_max = _scatter("max", "`operand` with the greatest of its elements and those of windows.")


@function
def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `func` of its elements in windows of `update_shape` at `scatter_indices`.

    `func` maps arrays element by element. Where windows overlap it is applied as often as they do;
    `unique_indices` promises that they do not, and all elements are computed at once.
    """
    del indices_are_sorted
    x = as_tracer(operand)
    positions = _written(x, scatter_indices, dimension_numbers, tuple(update_shape), mode)
    windows = IndexedUpdate(x, positions)
    if unique_indices:
        return windows.set(func(windows.get(mode="clip")), mode="drop")
    return windows.apply(func, mode="drop")


def _written(
    x: Any, indices: Any, dimension_numbers: Any, shape: tuple[Any, ...], mode: Any
) -> tuple[Any, ...]:
    """Return the positions, axis by axis, to which updates of `shape` are written.

    Those of windows that reach outside are past the end where `mode` leaves them out.
    """
    numbers = GatherDimensionNumbers(*dimension_numbers)
    found = _slices(x, as_tracer(indices), numbers, _window_sizes(shape, numbers, x.ndim))
    positions = found.positions
    if _mode(mode) == "fill":
        pairs = zip(positions, static_shape(x), strict=True)
        positions = tuple(elementwise.where(found.inside, p, extent) for p, extent in pairs)
    return tuple(broadcast_to(p, shape) for p in positions)


def _mode(mode: Any) -> str:
    name = mode if mode is None else str(getattr(mode, "name", mode)).lower()
    name = "fill" if name == "fill_or_drop" else name
    if name not in _MODES:
        raise ShapeError(f"mode is {mode!r}", remedy="use clip, fill, drop or promise_in_bounds")
    return _MODES[name]


def _window_sizes(shape: Axes, numbers: GatherDimensionNumbers, rank: int) -> Axes:
    """Return the extents of windows on the axes of the operand."""
    widths = iter([shape[axis] for axis in numbers.offset_dims])
    single = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    return tuple(1 if axis in single else next(widths) for axis in range(rank))


def _slices(x: Any, starts: Any, numbers: GatherDimensionNumbers, sizes: Axes) -> _Slices:
    """Return the positions of the elements of the slices, in the layout of the result."""
    batch = static_shape(starts)[:-1]
    rank = len(batch) + len(numbers.offset_dims)
    batch_axes = [axis for axis in range(rank) if axis not in numbers.offset_dims]
    single = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    offset_axes = iter(numbers.offset_dims)
    positions, inside = [], elementwise.astype(True, bool)
    for axis, extent in enumerate(static_shape(x)):
        start = _laid(_start(starts, numbers, axis, batch), batch, batch_axes, rank)
        last = extent - sizes[axis]
        fits = elementwise.logical_and(
            elementwise.greater_equal(start, 0), elementwise.less_equal(start, last)
        )
        inside = elementwise.logical_and(inside, fits)
        start = elementwise.clip(start, 0, max(last, 0))
        if axis not in single:
            steps = np.arange(sizes[axis])
            start = elementwise.add(start, _laid(steps, steps.shape, [next(offset_axes)], rank))
        positions.append(start)
    return _Slices(tuple(positions), inside)


def _start(starts: Any, numbers: GatherDimensionNumbers, axis: int, batch: Axes) -> Any:
    """Return where slices begin on an axis of the operand, by the axes of the batch."""
    if axis in numbers.start_index_map:
        column = starts[..., numbers.start_index_map.index(axis)]
        return convert(as_index(column), DType.I64)
    if axis in numbers.operand_batching_dims:
        place = numbers.operand_batching_dims.index(axis)
        along = numbers.start_indices_batching_dims[place]
        shape = [1] * len(batch)
        shape[along] = batch[along]
        return np.broadcast_to(np.arange(batch[along]).reshape(shape), batch)
    return np.zeros(batch, np.int64)


def _laid(x: Any, shape: Axes, axes: list[int], rank: int) -> Any:
    """Return `x` of `shape` with its axes at `axes` among `rank`."""
    spread = [1] * rank
    for axis, extent in zip(axes, shape, strict=True):
        spread[axis] = extent
    return reshape(x, tuple(spread))
