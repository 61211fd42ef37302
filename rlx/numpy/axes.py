"""Axes, shapes and counts as users give them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.errors import ShapeError, SymbolicExtentError
from rlx.ir.shape import Dim, Shape, normalize_axis
from rlx.ir.source_lines import calling_source
from rlx.tracing.apply import static_int
from rlx.tracing.trace import shape_of


def lists(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let counts or places that a parameter names come in an array: it is none of a trace."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        place = list(inspect.signature(body).parameters).index(name)

        @functools.wraps(body)
        def call(*args: Any, **kwargs: Any) -> Any:
            if name in kwargs:
                kwargs[name] = _listed(kwargs[name])
            elif len(args) > place:
                args = (*args[:place], _listed(args[place]), *args[place + 1 :])
            return body(*args, **kwargs)

        return call

    return decorate


def _listed(x: Any) -> Any:
    return tuple(x.tolist()) if isinstance(x, np.ndarray) and x.ndim == 1 else x


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Return the axes that an integer, a tuple or `None` (all) names, counted from the front."""
    if axis is None:
        return tuple(range(rank))
    named = tuple(axis) if isinstance(axis, Sequence) else (static_int(axis, "axis"),)
    found = tuple(normalize_axis(each, rank) for each in named)
    if len(set(found)) != len(found):
        raise ShapeError(
            f"axis {axis} names an axis twice",
            remedy="name each axis once",
        )
    return found


def static_shape(x: Any) -> tuple[int, ...]:
    """Return the shape as integers; a symbolic extent is an error."""
    shape = shape_of(x)
    for extent in shape:
        if not isinstance(extent, int):
            raise SymbolicExtentError(
                f"extent {extent} is symbolic; this function needs a number",
                remedy="trace it for a fixed size, or use a function that takes any extent",
            )
    return tuple(extent for extent in shape if isinstance(extent, int))


def require_per_axis(rank: int, **lists: Any) -> None:
    """Raise ShapeError for a list, by its name, that has not one entry for each axis."""
    for name, each in lists.items():
        if each is not None and (np.ndim(each) == 0 or len(each) != rank):
            raise ShapeError(
                f"{name} is {each} for {rank} axes",
                source=calling_source(),
                remedy="give one entry for each axis",
            )


def shape_from(shape: Any) -> Shape:
    """Return a shape given as an integer or a sequence of them; no extent is negative."""
    extents = extents_from(shape)
    if any(isinstance(extent, int) and extent < 0 for extent in extents):
        raise ShapeError(
            f"shape {shape} has a negative extent",
            remedy="give extents of 0 or more; only reshape takes -1",
        )
    return extents


def extents_from(shape: Any, what: str = "shape") -> Shape:
    """Return a shape given as an integer or a sequence of them, -1 as it is."""
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    extents = shape if isinstance(shape, Sequence) else (shape,)
    return tuple(e if isinstance(e, Dim) else static_int(e, what) for e in extents)


def count_from(x: Any, what: str, *, least: int = 0) -> int:
    """Return a number of things, which is known and not less than `least`."""
    count = static_int(x, what)
    if count < least:
        raise ShapeError(
            f"{what} is {count}; it must be {least} or more",
            remedy=f"give a count of {least} or more",
        )
    return count


def require_listable(count: int, what: str) -> None:
    """Raise ShapeError for a number of elements that is too large to write out one by one."""
    if count > _MOST_LISTED:
        raise ShapeError(
            f"{what} has {count} elements, which are more than {_MOST_LISTED}",
            remedy="compute it in blocks, or in the graph from rlx.numpy.arange(n)",
        )


_MOST_LISTED = 1 << 32
