"""Functions that repeat elements: whole arrays, single elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.shape import Dim, normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, lists, static_shape
from rlx.numpy.creation import arange
from rlx.numpy.cumulative import cumsum
from rlx.numpy.indexing import take
from rlx.numpy.shaping import broadcast_to, expand_dims, ravel, reshape
from rlx.numpy.sorting import searchsorted
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function


@function
def tile(A: Any, reps: Any) -> Array:
    """Repeat the whole array along each axis."""
    A = as_tracer(A)
    counts = (reps,) if isinstance(reps, (int, np.integer, Dim)) else tuple(reps)
    counts = tuple(
        count if isinstance(count, Dim) else count_from(count, "a number of repeats")
        for count in counts
    )
    rank = max(len(counts), A.ndim)
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - A.ndim) + A.shape
    paired = [e for count, extent in zip(counts, shape, strict=True) for e in (1, extent)]
    spread = [e for count, extent in zip(counts, shape, strict=True) for e in (count, extent)]
    grown = tuple(count * extent for count, extent in zip(counts, shape, strict=True))
    return reshape(broadcast_to(reshape(A, paired), spread), grown)


@lists("repeats")
@function
def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Array:
    """Repeat each element along an axis.

    The counts are known when tracing, or there are `total_repeat_length` elements: those that
    are too many are left out, and the last is repeated for those that lack.
    """
    a = as_tracer(a)
    if axis is None:
        a, axis = ravel(a), 0
    if total_repeat_length is not None:
        extent = static_shape(a)[normalize_axis(axis, a.ndim)]
        counts = np.asarray(repeats) if isinstance(repeats, Sequence) else repeats
        ends = cumsum(broadcast_to(counts, (extent,)))
        places = searchsorted(ends, arange(total_repeat_length), side="right")
        return take(a, elementwise.minimum(places, extent - 1), axis)
    position = normalize_axis(axis, a.ndim)
    if isinstance(repeats, (int, Dim)) and not isinstance(repeats, bool):
        count = repeats if isinstance(repeats, Dim) else count_from(repeats, "a number of repeats")
        before, extent, after = a.shape[:position], a.shape[position], a.shape[position + 1 :]
        spread = broadcast_to(expand_dims(a, position + 1), (*before, extent, count, *after))
        return reshape(spread, (*before, extent * count, *after))
    extent = static_shape(a)[position]
    each = [count_from(count, "a number of repeats") for count in np.atleast_1d(repeats)]
    if len(each) not in (1, extent):
        raise ShapeError(
            f"{len(each)} numbers of repeats for an axis of extent {extent}",
            remedy="give one number for all elements, or one for each",
        )
    return take(a, np.repeat(np.arange(extent), each), axis)
