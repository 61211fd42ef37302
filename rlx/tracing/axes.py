"""Named axes: what collectives of a function being traced refer to by name.

Arrays that are traced for the ranks of a mesh vary over some of its axes, and are equal along the
others (`rlx.passes.communication.varying`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.shape import Extent
from rlx.ir.source_lines import calling_source
from rlx.passes.communication.varying import NONE, Axes
from rlx.tracing.trace import TracedArray


@dataclass(frozen=True, slots=True)
class NamedAxis:
    """An axis of `size` members; ranks are reached through the communicator, examples are not."""

    name: str
    size: Extent
    communicator: TracedArray | None = None


class _AxesInScope(threading.local):
    """The axes that functions being traced in this thread may name, outermost first."""

    def __init__(self) -> None:
        self.axes: list[NamedAxis] = []


_in_scope = _AxesInScope()


@contextmanager
def bound_axis(axis: NamedAxis) -> Iterator[None]:
    """Let what is traced inside name `axis`; an inner axis hides an outer one of its name."""
    _in_scope.axes.append(axis)
    try:
        yield
    finally:
        _in_scope.axes.pop()


def named_axis(name: str) -> NamedAxis:
    """Return the innermost axis called `name`; InputError if there is none."""
    if not isinstance(name, str):
        raise InputError(
            f"the name of an axis is {name!r:.60}, a {type(name).__name__}",
            source=calling_source(),
            remedy="give the name of vmap(axis_name=) or of the mesh, a str, or a tuple of them",
        )
    for axis in reversed(_in_scope.axes):
        if axis.name == name:
            return axis
    known = ", ".join(repr(axis.name) for axis in _in_scope.axes) or "none"
    raise InputError(
        f"no axis is called {name!r} here (axes: {known})",
        source=calling_source(),
        remedy="name it in vmap(axis_name=) or in the mesh of rlx.distributed.shard_map",
    )


def axis_sizes() -> dict[str, Extent]:
    """Return the number of members of each axis in scope."""
    return {axis.name: axis.size for axis in _in_scope.axes}


@contextmanager
def without_ranks() -> Iterator[None]:
    """Trace a function of one rank's arrays, which has no collectives, as if there were no others.

    Cotangents inside are shares of this rank.
    """
    before, _in_scope.axes = _in_scope.axes, [a for a in _in_scope.axes if a.communicator is None]
    try:
        yield
    finally:
        _in_scope.axes = before


def rank_axes() -> list[NamedAxis]:
    """Return the axes of the mesh for whose ranks something is being traced."""
    return [axis for axis in _in_scope.axes if axis.communicator is not None]


def declare_varying(x: Any, axes: Axes) -> None:
    """State that `x`, an argument of a function being traced for ranks, varies over `axes`."""
    if axes and isinstance(x, TracedArray):
        x.owner.varying.known[x.value] = axes


def varying_axes(x: Any) -> Axes:
    """Return the axes of the mesh over which `x` may differ from rank to rank."""
    if not isinstance(x, TracedArray) or not rank_axes():
        return NONE
    trace = x.owner
    for outer, inner in trace.captures():
        if inner not in trace.varying.known:
            trace.varying.known[inner] = varying_axes(outer)
    return trace.varying.of(x.value)


def equal_axes(varying: Axes) -> list[NamedAxis]:
    """Return the axes of the mesh along which a value that varies over `varying` is equal."""
    return [axis for axis in rank_axes() if axis.name not in varying]
