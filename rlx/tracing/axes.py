"""Named axes: what collectives of a function being traced refer to by name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rlx.dataclass import dataclass
from rlx.errors import InputError
from rlx.ir.graph import calling_source
from rlx.tracing.trace import TracedArray


@dataclass(frozen=True, slots=True)
class NamedAxis:
    """An axis of `size` members; ranks are reached through the communicator, examples are not."""

    name: str
    size: int
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
    for axis in reversed(_in_scope.axes):
        if axis.name == name:
            return axis
    known = ", ".join(repr(axis.name) for axis in _in_scope.axes) or "none"
    raise InputError(
        f"no axis is called {name!r} here (axes: {known})",
        source=calling_source(),
        remedy="name it in vmap(axis_name=) or in the mesh of rlx.distributed.shard_map",
    )


def axis_sizes() -> dict[str, int]:
    """Return the number of members of each axis in scope."""
    return {axis.name: axis.size for axis in _in_scope.axes}
