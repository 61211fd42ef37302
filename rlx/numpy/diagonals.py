"""Diagonals: taken out of an array, summed up, made into a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.errors import ShapeError
from rlx.ir.shape import Extent, is_at_most, normalize_axis
from rlx.numpy import elementwise
from rlx.numpy.creation import arange, eye, zeros_like
from rlx.numpy.indexing import take
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import concatenate, moveaxis, reshape
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function, static_int


@function
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The elements whose indices on two axes differ by `offset`, along a new last axis."""
    a = as_tracer(a)
    first, second = normalize_axis(axis1, a.ndim), normalize_axis(axis2, a.ndim)
    a = moveaxis(a, (first, second), (-2, -1))
    rows, columns = a.shape[-2:]
    offset = static_int(offset, "offset")
    down, right = max(-offset, 0), max(offset, 0)
    count = _shorter(rows - down, columns - right)
    steps: Any = np.arange(count) if isinstance(count, int) else arange(count)
    flat = reshape(a, (*a.shape[:-2], rows * columns))
    return take(flat, (steps + down) * columns + steps + right, -1)


def _shorter(rows: Extent, columns: Extent) -> Extent:
    """Return the lesser extent, 0 for negative ones."""
    length = columns if is_at_most(columns, rows) else rows
    if not (is_at_most(rows, columns) or is_at_most(columns, rows)):
        raise ShapeError(
            f"whether the diagonal has {rows} or {columns} elements differs between runs",
            remedy="give bounds that decide it, rlx.Dim(..., min=, max=)",
        )
    return max(length, 0) if isinstance(length, int) else length


@function
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Array:
    """The sum of a diagonal."""
    return sum(diagonal(a, offset, axis1, axis2), -1, dtype)


@function
def diag(v: Any, k: int = 0) -> Array:
    """The diagonal of a matrix, or the matrix with a given diagonal."""
    v, k = as_tracer(v), static_int(k, "k")
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ShapeError(
            f"diag takes rank 1 or 2 and was given rank {v.ndim}",
            remedy="use rlx.numpy.diagonal for the last axes of a larger array",
        )
    size = v.shape[0] + abs(k)
    # Column j of the matrix holds one element of `v`: the one at j here.
    before, after = zeros_like(v, shape=(max(k, 0),)), zeros_like(v, shape=(max(-k, 0),))
    columns = concatenate([before, v, after])
    return elementwise.where(eye(size, k=k, dtype=bool), columns, elementwise.zero_of(v))
