"""Reading and writing at indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import FormatError, UnsupportedError
from rlx.ir import ops
from rlx.ir.shape import Dim, normalize_axis, upper
from rlx.numpy.index_plan import from_front
from rlx.onnx.operators.shape import integers, listable, positions, positions_along
from rlx.onnx.registry import Static, operator
from rlx.tracing.apply import as_tracer, emit, graph, wrap


@operator("Gather")
def gather(data: Any, indices: Any, *, axis: int = 0) -> Any:
    position = normalize_axis(axis, data.ndim)
    if isinstance(indices, np.ndarray) and not indices.ndim:
        index, extent = int(indices), data.shape[position]
        if isinstance(extent, Dim):
            start = extent + index if index < 0 else index
            one = emit(ops.narrow, data, axis=position, start=start, length=1)
            return rnp.squeeze(one, position)
        return rnp.getitem(data, (*(slice(None),) * position, index))
    return emit(ops.gather, data, from_front(indices, data.shape[position]), axis=position)


@operator("GatherElements")
def gather_elements(data: Any, indices: Any, *, axis: int = 0) -> Any:
    return rnp.getitem(data, _element_index(data, indices, axis))


def _element_index(data: Any, indices: Any, axis: int) -> tuple[Any, ...]:
    """Return the index of the elements that `indices` names along `axis`, in place."""
    position = normalize_axis(axis, data.ndim)
    if indices.ndim != data.ndim:
        raise FormatError(
            f"indices of rank {indices.ndim} for data of rank {data.ndim}; the ranks are equal",
            remedy="the model is malformed: export it again",
        )
    places = [positions_along(extent, a, data.ndim) for a, extent in enumerate(indices.shape)]
    places[position] = indices
    return tuple(places)


@operator("GatherND")
def gather_nd(data: Any, indices: Any, *, batch_dims: int = 0) -> Any:
    return rnp.getitem(data, _tuple_index(indices, batch_dims))


def _tuple_index(indices: Any, batch_dims: int = 0) -> tuple[Any, ...]:
    """Return the index that rows of `indices` spell, after `batch_dims` shared axes."""
    shape = indices.shape[:-1]
    batch = [
        positions_along(extent, axis, len(shape)) for axis, extent in enumerate(shape[:batch_dims])
    ]
    columns: list[Any] = [rnp.getitem(indices, (..., i)) for i in range(indices.shape[-1])]
    if isinstance(indices, np.ndarray):
        columns = [indices[..., i] for i in range(indices.shape[-1])]
    return (*batch, *columns)


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda target, updates: target.set(updates),
    "add": lambda target, updates: target.add(updates),
    "mul": lambda target, updates: target.multiply(updates),
    "max": lambda target, updates: target.max(updates),
    "min": lambda target, updates: target.min(updates),
}


def _updated(data: Any, index: tuple[Any, ...], updates: Any, reduction: str) -> Any:
    if reduction not in _UPDATES:
        raise UnsupportedError(
            f"reduction {reduction!r} is not in the standard",
            remedy=f"use one of: {', '.join(_UPDATES)}",
        )
    return _UPDATES[reduction](rnp.asarray(data).at[index], updates)


@operator("ScatterElements", "Scatter")
def scatter_elements(
    data: Any, indices: Any, updates: Any, *, axis: int = 0, reduction: str = "none"
) -> Any:
    return _updated(data, _element_index(data, indices, axis), updates, reduction)


@operator("ScatterND")
def scatter_nd(data: Any, indices: Any, updates: Any, *, reduction: str = "none") -> Any:
    return _updated(data, _tuple_index(indices), updates, reduction)


@operator("OneHot")
def one_hot(indices: Any, depth: Static, values: Any, *, axis: int = -1) -> Any:
    (count,) = integers(depth)
    listable(upper(count), "the axis of classes")
    position = axis if axis >= 0 else axis + indices.ndim + 1
    wide = rnp.expand_dims(rnp.astype(indices, "i64"), position)
    places = rnp.reshape(positions(count), (count, *(1,) * (indices.ndim - position)))
    off, on = rnp.getitem(values, 0), rnp.getitem(values, 1)
    return emit(ops.where, rnp.equal(from_front(wide, count), places), on, off)


@operator("TensorScatter")
def tensor_scatter(
    past: Any, update: Any, starts: Any = None, *, axis: int = -2, mode: str = "linear"
) -> Any:
    """Write rows of a cache from a position on, one position per batch."""
    position = normalize_axis(axis, past.ndim)
    batch, count, extent = past.shape[0], update.shape[position], past.shape[position]
    first = rnp.zeros(batch, "i64") if starts is None else starts
    steps = rnp.add(rnp.expand_dims(first, 1), positions(count))
    steps = rnp.remainder(steps, extent) if mode == "circular" else steps
    rows = positions_along(batch, 0, 2)
    target = rnp.asarray(rnp.moveaxis(past, position, 1))
    written = target.at[rows, steps].set(rnp.moveaxis(update, position, 1))
    return rnp.moveaxis(written, 1, position)


@operator("NonZero")
def non_zero(x: Static) -> Any:
    return np.stack(np.nonzero(np.atleast_1d(x))).astype(np.int64)


@operator("Compress")
def compress(x: Any, condition: Static, *, axis: int | None = None) -> Any:
    flat = rnp.ravel(x) if axis is None else x
    position = 0 if axis is None else normalize_axis(axis, x.ndim)
    return emit(ops.gather, flat, np.flatnonzero(condition), axis=position)


@operator("Unique")
def unique(x: Static, *, axis: int | None = None, sorted: int = 1) -> Any:
    """Elements or slices in ascending order, or in that in which they come."""
    found = np.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    values, first, inverse, counts = found
    inverse = inverse.ravel()
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=0 if axis is None else axis)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, *(each.astype(np.int64) for each in (first, inverse, counts))


@operator("TopK")
def top_k(x: Any, k: Static, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    del sorted  # they are
    position = normalize_axis(axis, x.ndim)
    rows = rnp.moveaxis(x, position, -1)
    count = int(np.reshape(k, ()))
    if largest:
        values, places = _largest(rows, count)
    else:
        places = rnp.getitem(rnp.argsort(rows, -1), (..., slice(0, count)))
        values = rnp.take_along_axis(rows, places, -1)
    return rnp.moveaxis(values, -1, position), rnp.moveaxis(places, -1, position)


def _largest(rows: Any, count: int) -> tuple[Any, Any]:
    values, places = graph().topk(as_tracer(rows).value, k=count)
    return wrap(values), wrap(places)
