"""NumPy's `pad`: elements around each axis, given, repeated, mirrored or computed."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rlx.errors import InputError, ShapeError
from rlx.ir import ops
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.creation import asarray, linspace
from rlx.numpy.editing import apply_along_axis
from rlx.numpy.indexing import take
from rlx.numpy.reductions import max, mean, min
from rlx.numpy.shaping import broadcast_to, concatenate, reshape
from rlx.numpy.statistics import median
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, static_int
from rlx.tracing.trace import concrete

_PLACED = ("edge", "wrap")
_MIRRORED = ("reflect", "symmetric")
_FOLDS: Mapping[str, Callable[..., Any]] = {
    "maximum": max, "mean": mean, "median": median, "minimum": min
}  # fmt: skip
_KEYWORDS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    **dict.fromkeys(_FOLDS, "stat_length"),
    **dict.fromkeys(_MIRRORED, "reflect_type"),
}
_MODES = ("constant", "empty", "linear_ramp", *_PLACED, *_MIRRORED, *_FOLDS)


@function
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Array:
    """Add elements around each axis; modes are NumPy's, each with its keyword.

    `constant` (`constant_values=`), `linear_ramp` down to `end_values=`, `maximum`, `mean`,
    `median` and `minimum` of the `stat_length=` elements nearest, `reflect` and `symmetric`
    (`reflect_type="even"` or "odd"), `edge`, `wrap`, `empty` (zeros), or a function of a vector,
    its two widths, its axis and the other keywords, which returns the vector as it shall be.
    Widths and values are one, or one for each side, or for each side of each axis.
    """
    array = as_tracer(array)
    widths = _widths(pad_width, array.ndim)
    if callable(mode):
        return _by_function(array, widths, mode, kwargs)
    _require_known(mode, kwargs)
    if mode in ("constant", "empty"):
        return _constant(array, widths, kwargs.get("constant_values", 0))
    for axis, (before, after) in enumerate(widths.tolist()):
        if before or after:
            array = _around(array, axis, (before, after), mode, kwargs)
    return array


def _widths(given: Any, rank: int) -> Any:
    """Return the widths as an array of a row an axis."""
    if isinstance(given, Mapping):
        rows = np.zeros((rank, 2), int)
        for axis, each in given.items():
            place = normalize_axis(static_int(axis, "an axis of pad_width"), rank)
            rows[place] = _counts(each, (2,), "pad_width")
        given = rows
    widths = _counts(given, (rank, 2), "pad_width")
    if (widths < 0).any():
        raise ShapeError(f"pad_width is {given!r}", remedy="give widths that are not negative")
    return widths


def _counts(given: Any, shape: tuple[int, ...], name: str) -> Any:
    """Return integers, one or a pair or more of them, as an array of `shape`."""
    try:
        counts = np.asarray(given)
    except ValueError:  # of rows that differ in length
        counts = np.asarray(None)
    if counts.dtype.kind not in "iu":
        raise InputError(f"{name} is {given!r}", remedy="give integers, one or in pairs")
    try:
        return np.broadcast_to(counts, shape)
    except ValueError:
        raise ShapeError(
            f"{name} of shape {counts.shape} where shape {shape} is needed",
            remedy="give one integer, a pair (before, after), or a pair for each axis",
        ) from None


def _require_known(mode: Any, kwargs: Mapping[str, Any]) -> None:
    if mode not in _MODES:
        raise ShapeError(f"pad mode is {mode!r}", remedy=f"use one of {', '.join(_MODES)}")
    for name in kwargs:
        if name != _KEYWORDS.get(mode):
            takes = f"takes {_KEYWORDS[mode]}=" if mode in _KEYWORDS else "takes no keyword"
            raise InputError(
                f"`{name}=` with pad mode {mode!r}", remedy=f"leave it out; the mode {takes}"
            )


def _around(x: Any, axis: int, widths: tuple[int, int], mode: str, given: Any) -> Any:
    """Pad one axis. What it is padded with surrounds the axes before it, too."""
    if mode in _MIRRORED:
        kind = given.get("reflect_type", "even")
        if kind not in ("even", "odd"):
            raise InputError(f"reflect_type is {kind!r}", remedy="use 'even' or 'odd'")
        if kind == "odd":
            return _turned(x, axis, widths, mode)
    if mode in (*_PLACED, *_MIRRORED):
        places = np.arange(_extent(x, axis, mode))
        return take(x, np.pad(places, widths, mode=mode), axis)  # type: ignore[call-overload]
    if mode == "linear_ramp":
        ends = _sides(given.get("end_values", 0), x)[axis]
        low, high = (_ramp(x, axis, side, widths[side], ends[side]) for side in (0, 1))
    else:
        low, high = (_folded(x, axis, side, widths[side], mode, given) for side in (0, 1))
    return concatenate([low, x, high], axis)


def _extent(x: Any, axis: int, mode: str) -> int:
    extent = static_shape(x)[axis]
    if not extent:
        raise ShapeError(
            f"pad mode {mode!r} of axis {axis}, which is empty", remedy="use mode 'constant'"
        )
    return extent


def _sides(values: Any, x: Any) -> Any:
    """Return values as an array of a row an axis, a column a side."""
    return broadcast_to(convert(values, x.value.dtype), (x.ndim, 2))


def _constant(x: Any, widths: Any, values: Any) -> Any:
    if isinstance(values, (int, float, np.number)) and not isinstance(values, np.complexfloating):
        dtype = x.value.dtype
        values = concrete(values, dtype).item() if dtype.is_int else values
        if not dtype.is_int or int(float(values)) == values:
            low, high = (tuple(map(int, widths[:, side])) for side in (0, 1))
            return emit(ops.pad, x, weak=x.weak, low=low, high=high, value=float(values))
        # The op has its value in f64, which does not hold this one
    given = _sides(values, x)
    for axis in range(x.ndim):
        low, high = (
            _filled(x, axis, int(widths[axis, side]), given[axis, side]) for side in (0, 1)
        )
        x = concatenate([low, x, high], axis)
    return x


def _filled(x: Any, axis: int, width: int, value: Any) -> Any:
    return broadcast_to(value, (*x.shape[:axis], width, *x.shape[axis + 1 :]))


def _edge(x: Any, axis: int, side: int) -> Any:
    """Return the first or the last elements along `axis`, with an extent of 1."""
    return take(x, np.array([-side % x.shape[axis]]), axis)


def _ramp(x: Any, axis: int, side: int, width: int, end: Any) -> Any:
    """Return `width` steps from the edge to `end`, which is the outermost."""
    _extent(x, axis, "linear_ramp")
    edge = take(x, -side % static_shape(x)[axis], axis)
    steps = linspace(end, edge, width, endpoint=False, axis=axis, dtype=x.dtype)
    return take(steps, np.arange(width)[::-1], axis) if side else steps


def _folded(x: Any, axis: int, side: int, width: int, mode: str, given: Any) -> Any:
    """Return the fold of the next elements, `width` times."""
    extent = _extent(x, axis, mode)
    lengths = given.get("stat_length")
    if lengths is not None:
        lengths = _counts(lengths, (x.ndim, 2), "stat_length")
    length = extent if lengths is None else int(lengths[axis, side])
    if length < 1:
        raise InputError(f"stat_length is {length}", remedy="give 1 or more")
    length = builtins.min(length, extent)
    first = extent - length if side else 0
    found = _FOLDS[mode](take(x, np.arange(first, first + length), axis), axis=axis, keepdims=True)
    if mode in ("mean", "median") and x.value.dtype.is_int:
        found = elementwise.rint(found)
    return _filled(x, axis, width, elementwise.astype(found, x.dtype))


def _turned(x: Any, axis: int, widths: tuple[int, int], mode: str) -> Any:
    """Continue by half turns about the edges: `2 * edge - mirrored`, again and again.

    Two turns are a shift by two periods: values grow by twice the difference of the edges.
    """
    extent = _extent(x, axis, mode)
    period = extent if mode == "symmetric" else builtins.max(extent - 1, 1)
    turns, place = np.divmod(np.arange(-widths[0], extent + widths[1]), period)
    if mode == "reflect" and extent > 1:  # the last element is no new turn
        inside = slice(widths[0], widths[0] + extent)
        turns[inside], place[inside] = 0, np.arange(extent)
    elif extent == 1:
        turns, place = np.zeros_like(turns), np.zeros_like(place)
    odd = turns % 2 == 1
    mirrored = (extent if mode == "symmetric" else period + 1) - 1 - place
    first, last = _edge(x, axis, 0), _edge(x, axis, 1)
    along = [-1 if each == axis else 1 for each in range(x.ndim)]
    signs, steps, starts = (
        reshape(asarray(each.astype(x.dtype)), along)
        for each in (np.where(odd, -1, 1), turns + odd, np.where(odd, 2, 0))
    )
    found = take(x, np.where(odd, mirrored, place), axis)
    rising = elementwise.multiply(steps, elementwise.subtract(last, first))
    begins = elementwise.multiply(starts, first)
    return elementwise.add(elementwise.multiply(signs, found), elementwise.add(rising, begins))


def _by_function(x: Any, widths: Any, function: Callable[..., Any], given: Any) -> Any:
    """Let `function` fill the zeros around each vector, an axis after the other."""
    x = _constant(x, widths, 0)
    for axis in range(x.ndim):
        x = apply_along_axis(function, axis, x, tuple(map(int, widths[axis])), axis, given)
    return x
