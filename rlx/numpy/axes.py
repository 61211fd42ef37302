"""Axes and extents as users give them."""

from __future__ import annotations

from typing import Any

from rlx.errors import ShapeError
from rlx.ir.shape import normalize_axis
from rlx.tracing.trace import shape_of


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes that an integer, a tuple or `None` (all) names, counted from the front."""
    if axis is None:
        return tuple(range(rank))
    named = (axis,) if isinstance(axis, int) else tuple(axis)
    found = tuple(normalize_axis(each, rank) for each in named)
    if len(set(found)) != len(found):
        raise ShapeError(f"axis {axis} names an axis twice")
    return found


def static_shape(x: Any) -> tuple[int, ...]:
    """Return the shape as integers; a symbolic extent is an error."""
    shape = shape_of(x)
    for extent in shape:
        if not isinstance(extent, int):
            raise ShapeError(f"extent {extent} is symbolic; this function needs a number")
    return tuple(extent for extent in shape if isinstance(extent, int))
