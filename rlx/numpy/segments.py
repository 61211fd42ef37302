"""Segment reductions: sums, products and extrema of the rows that share an index."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.op import OpDef
from rlx.numpy import elementwise
from rlx.numpy.axes import count_from
from rlx.numpy.index_plan import as_index
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, convert, emit, function
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.trace import TracedArray


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    *,
    mode: str | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Array:
    """The sum of the rows of each segment. An id outside is an error; mode="drop" leaves it out."""
    return _folded(ops.scatter_add, data, segment_ids, _count(segment_ids, num_segments), mode)


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    *,
    mode: str | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Array:
    """The product of the rows of each segment."""
    return _folded(ops.scatter_mul, data, segment_ids, _count(segment_ids, num_segments), mode)


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    *,
    mode: str | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Array:
    """The largest of the rows of each segment; of none, the least value of the type."""
    return _folded(ops.scatter_max, data, segment_ids, _count(segment_ids, num_segments), mode)


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    *,
    mode: str | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Array:
    """The smallest of the rows of each segment; of none, the greatest value of the type."""
    return _folded(ops.scatter_min, data, segment_ids, _count(segment_ids, num_segments), mode)


def _count(segment_ids: Any, given: int | None) -> int:
    if given is not None:
        return count_from(given, "num_segments")
    if isinstance(segment_ids, TracedArray):
        raise ConcretizationError(
            "the largest of traced segment ids is not known", remedy="pass num_segments="
        )
    ids = np.asarray(segment_ids)
    return int(ids.max() + 1) if ids.size else 0


@function
def _folded(definition: OpDef, data: Any, segment_ids: Any, count: int, mode: str | None) -> Any:
    data, ids = as_tracer(data), convert(as_index(segment_ids), DType.I64)
    if mode not in (None, "drop", "fill", "clip"):
        raise ShapeError(f"mode is {mode!r}", remedy="use drop, fill or clip")
    if mode == "clip":
        ids = elementwise.clip(ids, 0, count - 1)
    if mode in (None, "clip"):
        return emit(definition, data, ids, size=count)
    outside = elementwise.logical_or(
        elementwise.less(ids, 0), elementwise.greater_equal(ids, count)
    )
    folded = emit(definition, data, elementwise.where(outside, count, ids), size=count + 1)
    return emit(ops.narrow, folded, axis=0, start=0, length=count)


_folded.__name__ = "segment fold"
