"""The order of a tensor's axes in memory, which programs read and write as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Order = tuple[int, ...]


def rows(rank: int) -> Order:
    """Return the order of rows: the last axis is innermost."""
    return tuple(range(rank))


def dense_order(shape: Sequence[Any], strides: Sequence[Any]) -> Order | None:
    """Return axes from the outermost to the innermost; None for memory with gaps or overlaps."""
    if not all(isinstance(n, int) for n in (*shape, *strides)):
        return None
    if 0 in shape:
        return rows(len(shape))
    wide = sorted((axis for axis, n in enumerate(shape) if n != 1), key=lambda a: -strides[a])
    expected = 1
    for axis in reversed(wide):
        if strides[axis] != expected:
            return None
        expected *= shape[axis]
    return _with_unit_axes(shape, wide)


def _with_unit_axes(shape: Sequence[int], wide: Sequence[int]) -> Order:
    """Return all axes; those of one element keep their places where the order is that of rows."""
    if list(wide) == sorted(wide):
        return rows(len(shape))
    return (*(axis for axis, n in enumerate(shape) if n == 1), *wide)


def inverse(order: Order) -> Order:
    """Return the permutation that undoes `order`."""
    return tuple(order.index(axis) for axis in range(len(order)))
