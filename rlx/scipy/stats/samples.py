"""Statistics of samples: ranks, mode, standard error of the mean."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.errors import InputError
from rlx.ir.shape import normalize_axis
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact
from rlx.tracing.only import only


@function
@only(nan_policy=("propagate",))
def sem(
    a: Any,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Array:
    """The standard error of the mean."""
    (a,) = inexact(a)
    count = a.size if axis is None else a.shape[normalize_axis(axis, a.ndim)]
    return rnp.std(a, axis, ddof=ddof, keepdims=keepdims) / count**0.5


@function
@only(nan_policy=("propagate",))
def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Array:
    """Ranks from 1; equal ones share their average, min or max, or are dense or ordinal.

    NaN are the last, each of a rank of its own, as in JAX.
    """
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise InputError(f"method is {method!r}", remedy="use average, min, max, dense or ordinal")
    x = rnp.ravel(a) if axis is None else rnp.moveaxis(rnp.asarray(a), axis, -1)
    order = rnp.argsort(x, -1, stable=True)
    rows = rnp.take_along_axis(x, order, -1)
    starts = _starts(rnp.not_equal(rows[..., 1:], rows[..., :-1]), rows)
    if method == "ordinal":
        found = rnp.broadcast_to(np.arange(1, x.shape[-1] + 1), x.shape)
    elif method == "dense":
        found = rnp.cumsum(starts, -1)
    else:
        low, high = _ends(starts)
        found = {"min": low, "max": high, "average": 0.5 * (low + high)}[method]
    found = rnp.take_along_axis(found, rnp.argsort(order, -1), -1)
    return found if axis is None else rnp.moveaxis(found, -1, axis)


def _starts(differ: Any, rows: Any) -> Any:
    """Return where runs of equal elements begin, from whether each two neighbors differ."""
    return rnp.concatenate([rnp.ones_like(rows[..., :1], dtype=bool), differ], -1)


def _ends(starts: Any) -> tuple[Any, Any]:
    """Return for each element where its run begins and ends, counted from 1."""
    count = starts.shape[-1]
    low = rnp.cummax(rnp.where(starts, np.arange(1, count + 1), 0), -1)
    after = rnp.concatenate([starts[..., 1:], rnp.ones_like(starts[..., :1])], -1)
    high = rnp.cummin(rnp.where(after, np.arange(1, count + 1), count), -1, reverse=True)
    return low, high


class ModeResult(NamedTuple):
    """The most frequent values, and how often they occur."""

    mode: Any
    count: Any


@function
@only(nan_policy=("propagate",))
def mode(
    a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along an axis, the least of several; NaN is one value, the last."""
    x = rnp.ravel(a) if axis is None else rnp.moveaxis(rnp.asarray(a), axis, -1)
    rows = rnp.sort(x, -1)
    before, after = rows[..., :-1], rows[..., 1:]
    both_nan = rnp.logical_and(rnp.not_equal(before, before), rnp.not_equal(after, after))
    differ = rnp.logical_and(rnp.not_equal(before, after), rnp.logical_not(both_nan))
    low, high = _ends(_starts(differ, rows))
    counts = high - low + 1
    place = rnp.argmax(counts, -1, keepdims=True)
    found = [rnp.take_along_axis(each, place, -1) for each in (rows, counts)]
    if keepdims:
        shape = (1,) * rnp.ndim(a)
        return ModeResult(
            *(x.reshape(shape) if axis is None else rnp.moveaxis(x, -1, axis) for x in found)
        )
    return ModeResult(*(each[..., 0] for each in found))
