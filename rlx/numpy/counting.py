"""How many elements there are of each kind: bin counts and histograms."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.shape import product
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from, static_shape
from rlx.numpy.creation import linspace, ones_like
from rlx.numpy.reductions import max, min, sum
from rlx.numpy.shaping import ravel, reshape, stack
from rlx.numpy.sorting import searchsorted
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function, inexact
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.trace import TracedArray, current_trace, shape_of


def bincount(
    x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None
) -> Array:
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
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Array:
    """The ends of `bins` equal intervals over `range`, by default that of `a`."""
    if shape_of(bins):
        return as_tracer(bins)
    (a,) = inexact(a)
    count = count_from(bins, "the number of bins", least=1)
    if range is None:
        low, high = (min(a), max(a)) if product(static_shape(a)) else (0.0, 1.0)
    else:
        low, high = range
    widened = elementwise.where(elementwise.equal(low, high), 0.5, 0.0)
    ends = elementwise.subtract(low, widened), elementwise.add(high, widened)
    return elementwise.astype(linspace(*ends, count + 1), a.dtype)


@function
def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, Array]:
    """How many elements are in each bin, in floating point; and the bins' ends.

    A bin holds its lower end, the last one its upper end too.
    """
    edges = histogram_bin_edges(a, bins, range)
    a = ravel(a)
    (weights,) = inexact(ones_like(a) if weights is None else ravel(weights))
    count = edges.shape[0] - 1
    places = elementwise.subtract(searchsorted(edges, a, "right"), 1)
    places = elementwise.where(elementwise.equal(a, edges[count]), count - 1, places)
    counts = _bincount(places, weights, count)
    if density:
        widths = elementwise.subtract(edges[1:], edges[:-1])
        counts = elementwise.divide(elementwise.divide(counts, widths), sum(counts))
    return counts, edges


@function
def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None
) -> tuple[Array, list[Array]]:
    """How many rows of `sample` are in each cell of a grid of bins; and the bins' ends by axis.

    `bins` is one number, or a number or ends for each axis.
    """
    (sample,) = inexact(sample)
    sample = reshape(sample, (-1, 1)) if sample.ndim == 1 else sample
    axes = static_shape(sample)[1] if sample.ndim == 2 else 0
    if axes == 0:
        raise ShapeError(
            f"sample has shape {sample.shape}; its rows are points of one axis or more",
            remedy="pass a matrix with a row for each point",
        )
    per_axis = _each(bins) if isinstance(bins, (list, tuple)) or shape_of(bins) else [bins] * axes
    if len(per_axis) != axes:
        raise ShapeError(
            f"bins for {len(per_axis)} axes are given; the sample has {axes}",
            remedy="give one number, or a number or ends for each axis",
        )
    ranges = [None] * axes if range is None else range
    columns = [sample[:, axis] for axis in builtins.range(axes)]
    triples = zip(columns, per_axis, ranges, strict=True)
    edges = [histogram_bin_edges(*each) for each in triples]
    counts = [each.shape[0] - 1 for each in edges]
    place: Any = 0
    inside: Any = True
    for column, ends, count in zip(columns, edges, counts, strict=True):
        own = elementwise.subtract(searchsorted(ends, column, "right"), 1)
        own = elementwise.where(elementwise.equal(column, ends[count]), count - 1, own)
        within = elementwise.logical_and(
            elementwise.greater_equal(own, 0), elementwise.less(own, count)
        )
        place = elementwise.add(elementwise.multiply(place, count), own)
        inside = elementwise.logical_and(inside, within)
    (weights,) = inexact(ones_like(columns[0]) if weights is None else weights)
    cells = math.prod(counts)
    found = reshape(_bincount(elementwise.where(inside, place, cells), weights, cells), counts)
    if density:
        total = sum(found)
        for axis, ends in enumerate(edges):
            shape = [-1 if each == axis else 1 for each in builtins.range(axes)]
            found = elementwise.divide(
                found, reshape(elementwise.subtract(ends[1:], ends[:-1]), shape)
            )
        found = elementwise.divide(found, total)
    return found, edges


def _each(bins: Any) -> list[Any]:
    """Return what a list or a vector says of each axis."""
    return list(bins.tolist() if isinstance(bins, np.ndarray) else bins)


@function
def histogram2d(
    x: Any,
    y: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> tuple[Array, Array, Array]:
    """How many points (x, y) are in each cell; and the ends of the bins of both axes."""
    several = bins if isinstance(bins, (list, tuple)) else _each(bins) if shape_of(bins) else ()
    ends = np.asarray(bins) if isinstance(bins, (list, tuple)) and len(bins) > 2 else bins
    pair = [ends, ends] if len(several) > 2 else bins
    counts, (first, second) = histogramdd(stack([x, y], -1), pair, range, density, weights)
    return counts, first, second
