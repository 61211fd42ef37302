"""Indices out of range that are no error: moved inside (clip), read as a fill, or not written.

An array gets one more slice after each axis that is indexed; indices out of range go there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import Dim, Extent, Shape
from rlx.numpy import elementwise
from rlx.numpy.index_plan import as_index, from_front
from rlx.numpy.indexing import getitem
from rlx.tracing.apply import as_tracer, emit, function
from rlx.tracing.trace import TracedArray, element_type
from rlx.tracing.widths import with_wide_types

MODES = ("clip", "fill", "drop", "promise_in_bounds", "wrap")


def items_of(index: Any, rank: int) -> list[Any]:
    """Return one entry per axis, and those for new axes; the ellipsis is spelled out."""
    items = list(index) if isinstance(index, tuple) else [index]
    items = [np.asarray(item) if isinstance(item, list) else item for item in items]
    named = sum(item is not None and item is not Ellipsis for item in items)
    whole = [slice(None)] * (rank - named)
    at = next((place for place, item in enumerate(items) if item is Ellipsis), len(items))
    return [*items[:at], *whole, *items[at + 1 :]]


def in_range(shape: Shape, index: Any, mode: str) -> tuple[tuple[Any, ...], list[int]]:
    """Return an index whose positions are inside, or at the extents, and the axes that it indexes.

    Positions outside are clipped to the ends for mode clip, else they become the extent.
    """
    items, picked, axis = items_of(index, len(shape)), [], 0
    for place, item in enumerate(items):
        if item is None:
            continue
        if _is_position(item):
            picked.append(axis)
            items[place] = _moved(item, shape[axis], mode)
        axis += 1
    return tuple(items), picked


def _is_position(item: Any) -> bool:
    if isinstance(item, (slice, bool, np.bool_)):
        return False
    return bool(element_type(item).dtype.is_int)


@with_wide_types
def _moved(item: Any, extent: Extent, mode: str) -> Any:
    known = isinstance(extent, int) and not isinstance(item, (TracedArray, Dim))
    n: Any = np if known else elementwise
    if mode == "wrap" and isinstance(item, int) and isinstance(extent, int):
        return item % extent
    if mode == "wrap":
        wide = item if element_type(item).dtype is DType.U64 else as_index(item)
        return n.remainder(wide, extent)
    counted = from_front(item, extent)
    if mode == "clip":
        return n.clip(counted, 0, extent - 1)
    outside = n.logical_or(n.less(counted, 0), n.greater_equal(counted, extent))
    return n.where(outside, extent, counted)


def require_mode(mode: str) -> str:
    """Return the mode, which must be one of JAX's."""
    name = getattr(mode, "name", mode).lower()
    aliases = {"fill_or_drop": "fill", "promise_in_bounds": "clip"}
    if name not in MODES and name not in aliases:
        raise ShapeError(f"mode is {mode!r}", remedy=f"use one of {', '.join(MODES)}")
    return aliases.get(name, name)


def padded(x: Any, axes: list[int], value: Any) -> Any:
    """Return `x` with one more slice of `value` after each of `axes`."""
    high = tuple(1 if a in axes else 0 for a in range(x.ndim))
    return emit(ops.pad, x, low=(0,) * x.ndim, high=high, value=value)


def unpadded(x: Any, axes: list[int]) -> Any:
    """Return `x` without the last slice of each of `axes`."""
    return getitem(x, tuple(slice(None, -1) if a in axes else slice(None) for a in range(x.ndim)))


@function
def take_at(x: Any, index: Any, mode: str, fill_value: Any = None) -> Any:
    """`x[index]` where positions outside are clipped, wrapped or read as `fill_value`."""
    x, mode = as_tracer(x), require_mode(mode)
    moved, axes = in_range(x.shape, index, mode)
    if mode in ("clip", "wrap"):
        return getitem(x, moved)
    if fill_value is None:
        fill_value = _missing(x.dtype)
    return getitem(padded(x, axes, float(fill_value)), moved)


def _missing(dtype: np.dtype[Any]) -> Any:
    """Return what JAX reads outside: NaN, or the least signed or greatest unsigned integer."""
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if dtype.kind == "i" else limits.max
    return np.nan


@function
def updated_at(x: Any, index: Any, values: Any, update: Any, mode: str) -> Any:
    """`update(x, index, values)` where positions outside are clipped, wrapped or left out."""
    x, mode = as_tracer(x), require_mode(mode)
    moved, axes = in_range(x.shape, index, mode)
    if mode in ("clip", "wrap"):
        return update(x, moved, values)
    return unpadded(update(padded(x, axes, 0.0), moved, values), axes)
