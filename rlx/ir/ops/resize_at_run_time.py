"""Resampling of axes whose extents a run decides: the program computes positions and weights.

An axis that grows by a small whole factor needs neither (`whole_factor`): each phase of the result
reads the same neighbors with the same weights, whatever the extent is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.errors import ShapeError
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Value
from rlx.ir.ops.elementwise import abs as absolute
from rlx.ir.ops.elementwise import cast, ceil, eq, floor, ge, gt, le, maximum, minimum, where
from rlx.ir.ops.indexing import gather
from rlx.ir.ops.reduction import reduce_sum
from rlx.ir.ops.resample import resample
from rlx.ir.ops.resampling import Resampling
from rlx.ir.ops.shape import concat, expand, reshape
from rlx.ir.shape import Extent, divide
from rlx.ir.types import TensorType


def whole_factor(extent: Extent, size: Extent, scale: float | None, how: Resampling) -> int | None:
    """Return the number by which an axis grows if positions depend on nothing else."""
    try:
        factor = divide(size, extent)
    except ShapeError:
        return None
    anywhere = how.coordinates not in ("align_corners", "tf_crop_and_resize")
    known = isinstance(factor, int) and factor >= 1 and scale in (None, factor)
    return factor if known and anywhere and isinstance(factor, int) else None


def resampled_at_run_time(
    x: Value, axis: int, size: Extent, scale: float | None, how: Resampling
) -> Value:
    """Return `x` with one axis resampled to `size`, either of which may be symbolic."""
    if how.coordinates == "tf_crop_and_resize" or how.antialias:
        raise ShapeError(
            f"axis {axis} has extent {x.shape[axis]} and becomes {size}: crops and filters against "
            "aliasing are for known extents",
            remedy="bind the extents before compiling",
        )
    extent = _number(x.graph, x.shape[axis])
    at = _positions(extent, _number(x.graph, size), size, scale, how)
    if how.mode == "nearest":
        return _taken(x, axis, _rounded(at, how), extent)
    taps = _taps(at, how)
    weights = [_weight(tap, at, how) for tap in taps]
    if how.exclude_outside:
        weights = _inside_alone(taps, weights, extent)
    indices = _rows([cast(_inside(tap, extent), to=DType.I64) for tap in taps])
    return resample(x, indices, cast(_rows(weights), to=x.dtype), axis=axis)


def _rows(vectors: Sequence[Value]) -> Value:
    """Return vectors of one length as rows."""
    size = vectors[0].shape[0]
    return concat(*(reshape(each, shape=(1, size)) for each in vectors), axis=0)


def _number(graph: Graph, extent: Extent) -> Value:
    """Return an extent as an f64 of the program: the sum of so many ones."""
    ones = expand(graph.constant(1, DType.I64), shape=(extent,))
    return cast(reduce_sum(ones, axes=(0,)), to=DType.F64)


def _positions(
    extent: Value, count: Value, size: Extent, given: float | None, how: Resampling
) -> Value:
    """Return the coordinate in the operand of each index of the result, in f64."""
    graph = extent.graph
    index = cast(graph.iota(type=TensorType(DType.I64, (size,))), to=DType.F64)
    scale = count / extent if given is None else graph.constant(given, DType.F64)
    if how.coordinates == "asymmetric":
        return index / scale
    if how.coordinates == "align_corners":
        span = scale * extent - 1.0
        return index * ((extent - 1.0) / where(eq(span, 0.0), 1.0, span))
    centers = (index + 0.5) / scale - 0.5
    if how.coordinates == "pytorch_half_pixel":
        return where(gt(count, 1.0), centers, 0.0)
    if how.coordinates == "half_pixel_symmetric":
        return centers + extent / 2.0 * (1.0 - count / (scale * extent))
    return centers


def _rounded(at: Value, how: Resampling) -> Value:
    if how.rounding in ("floor", "round_prefer_ceil"):
        return floor(at if how.rounding == "floor" else at + 0.5)
    return ceil(at if how.rounding == "ceil" else at - 0.5)


def _taps(at: Value, how: Resampling) -> list[Value]:
    """Return the elements around each position."""
    reach = 1 if how.mode == "linear" else 2
    first = floor(at) - float(reach - 1)
    return [first + float(step) for step in range(2 * reach)]


def _weight(tap: Value, at: Value, how: Resampling) -> Value:
    """Return the filter at the distance of an element: a triangle, or Keys' cubic."""
    distance = absolute(tap - at)
    if how.mode == "linear":
        return maximum(1.0 - distance, 0.0)
    a = how.cubic_coefficient
    near = ((a + 2) * distance - (a + 3)) * distance * distance + 1.0
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return where(le(distance, 1.0), near, where(le(distance, 2.0), far, 0.0))


def _inside_alone(taps: Sequence[Value], weights: Sequence[Value], extent: Value) -> list[Value]:
    """Return weights of which those outside are zero, and that add up to one."""
    kept = [
        where(ge(tap, 0.0), where(le(tap, extent - 1.0), weight, 0.0), 0.0)
        for tap, weight in zip(taps, weights, strict=True)
    ]
    total = _sum(kept)
    return [weight / total for weight in kept]


def _taken(x: Value, axis: int, places: Value, extent: Value) -> Value:
    """Return the elements at whole places, or at the ends where these are outside."""
    return gather(x, cast(_inside(places, extent), to=DType.I64), axis=axis)


def _inside(places: Value, extent: Value) -> Value:
    """Return whole places, or the ends where these are outside."""
    return minimum(maximum(places, 0.0), extent - 1.0)


def _sum(terms: Sequence[Value]) -> Value:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
