"""Functions that repeat elements: whole arrays, single elements, borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.shape import normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, lists, static_shape
from rlx.numpy.creation import arange
from rlx.numpy.cumulative import cumsum
from rlx.numpy.indexing import take
from rlx.numpy.shaping import broadcast_to, concatenate, ravel, reshape
from rlx.numpy.sorting import searchsorted
from rlx.tracing.apply import as_tracer, convert, emit, function


@function
def tile(x: Any, reps: Any) -> Any:
    """Repeat the whole array along each axis."""
    x = as_tracer(x)
    counts = (reps,) if isinstance(reps, (int, np.integer)) else tuple(reps)
    counts = tuple(count_from(count, "a number of repeats") for count in counts)
    rank = max(len(counts), x.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - x.ndim) + x.shape
    paired = [e for count, extent in zip(counts, shape, strict=True) for e in (1, extent)]
    spread = [e for count, extent in zip(counts, shape, strict=True) for e in (count, extent)]
    grown = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return reshape(broadcast_to(reshape(x, paired), spread), grown)


@lists("repeats")
@function
def repeat(
    x: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Any:
    """Repeat each element along an axis.

    The counts are known when tracing, or there are `total_repeat_length` elements: those that
    are too many are left out, and the last is repeated for those that lack.
    """
    x = as_tracer(x)
    if axis is None:
        x, axis = ravel(x), 0
    if total_repeat_length is not None:
        extent = static_shape(x)[normalize_axis(axis, x.ndim)]
        counts = np.asarray(repeats) if isinstance(repeats, Sequence) else repeats
        ends = cumsum(broadcast_to(counts, (extent,)))
        places = searchsorted(ends, arange(total_repeat_length), side="right")
        return take(x, elementwise.minimum(places, extent - 1), axis)
    extent = static_shape(x)[normalize_axis(axis, x.ndim)]
    each = [count_from(count, "a number of repeats") for count in np.atleast_1d(repeats)]
    if len(each) not in (1, extent):
        raise ShapeError(
            f"{len(each)} numbers of repeats for an axis of extent {extent}",
            remedy="give one number for all elements, or one for each",
        )
    return take(x, np.repeat(np.arange(extent), each), axis)


@function
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """Add elements around each axis; modes: constant, edge, reflect, wrap, symmetric.

    `constant_values` is one value, or one for each side, or for each side of each axis.
    """
    x = as_tracer(x)
    widths = np.broadcast_to(np.asarray(pad_width, dtype=int), (x.ndim, 2))
    if mode == "constant":
        return _padded(x, widths, constant_values)
    if mode not in ("edge", "reflect", "wrap", "symmetric"):
        raise ShapeError(
            f"pad mode is {mode!r}", remedy="use constant, edge, reflect, wrap or symmetric"
        )
    for axis, (before, after) in enumerate(widths.tolist()):
        places = np.arange(static_shape(x)[axis])
        if before or after:
            x = take(x, np.pad(places, (before, after), mode=mode), axis)  # type: ignore[call-overload]
    return x


def _padded(x: Any, widths: Any, values: Any) -> Any:
    if isinstance(values, (int, float, np.number)) and not isinstance(values, np.complexfloating):
        low, high = (tuple(map(int, widths[:, side])) for side in (0, 1))
        return emit(ops.pad, x, weak=x.weak, low=low, high=high, value=float(values))
    given = broadcast_to(convert(values, x.value.dtype), (x.ndim, 2))
    for axis, (before, after) in enumerate(widths.tolist()):
        # What an axis is padded with surrounds the axes before it, too.
        sides = [
            broadcast_to(given[axis, side], (*x.shape[:axis], width, *x.shape[axis + 1 :]))
            for side, width in enumerate((before, after))
        ]
        x = concatenate([sides[0], x, sides[1]], axis)
    return x
