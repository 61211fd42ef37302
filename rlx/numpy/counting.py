"""How many elements there are of each kind: bin counts and histograms."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import product
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, static_shape
from rlx.numpy.creation import linspace, ones_like
from rlx.numpy.reductions import max, min, sum
from rlx.numpy.shaping import ravel
from rlx.numpy.sorting import searchsorted
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.trace import TracedArray, current_trace, shape_of


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """How often each of 0, 1, 2, .. occurs, or the sums of the weights where they do.

    Of traced numbers `length` must be given; what is outside is not counted.
    """
    return _bincount(x, weights, _bin_count(x, minlength) if length is None else length)


def _bin_count(x: Any, minlength: int) -> int:
    if isinstance(x, TracedArray) or current_trace() is not None:
        raise ConcretizationError(
            "bincount of traced numbers, whose largest is not known while tracing",
            remedy="pass length=",
        )
    values = np.asarray(x)
    largest = values.max() + 1 if values.size else 0
    return int(np.maximum(largest, minlength))


@function
def _bincount(x: Any, weights: Any, length: int) -> Any:
    x = as_tracer(x)
    given = ones_like(x, DType.I64) if weights is None else as_tracer(weights)
    outside = elementwise.logical_or(elementwise.less(x, 0), elementwise.greater_equal(x, length))
    places = elementwise.where(outside, length, x)
    counts = emit(ops.scatter_add, given, convert(places, DType.I64), size=length + 1)
    return emit(ops.narrow, counts, axis=0, start=0, length=length)


_bincount.__name__ = "bincount"


@function
def histogram_bin_edges(x: Any, bins: Any = 10, range: Any = None) -> Any:
    """The ends of `bins` equal intervals over `range`, by default that of `x`."""
    if shape_of(bins):
        return as_tracer(bins)
    (x,) = inexact(x)
    count = count_from(bins, "the number of bins", least=1)
    if range is None:
        low, high = (min(x), max(x)) if product(static_shape(x)) else (0.0, 1.0)
    else:
        low, high = range
    widened = elementwise.where(elementwise.equal(low, high), 0.5, 0.0)
    ends = elementwise.subtract(low, widened), elementwise.add(high, widened)
    return elementwise.astype(linspace(*ends, count + 1), x.dtype)


@function
def histogram(
    x: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> Any:
    """How many elements lie in each bin, in floating point; and the bins' ends.

    A bin holds its lower end, the last one its upper end too.
    """
    edges = histogram_bin_edges(x, bins, range)
    x = ravel(x)
    (weights,) = inexact(ones_like(x) if weights is None else ravel(weights))
    count = edges.shape[0] - 1
    places = elementwise.subtract(searchsorted(edges, x, "right"), 1)
    places = elementwise.where(elementwise.equal(x, edges[count]), count - 1, places)
    counts = _bincount(places, weights, count)
    if density:
        widths = elementwise.subtract(edges[1:], edges[:-1])
        counts = elementwise.divide(elementwise.divide(counts, widths), sum(counts))
    return counts, edges
