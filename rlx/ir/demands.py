"""Deferred shape constraints: conditions on symbolic extents, checked when they are bound.

An op that takes a symbolic extent is right for some values of its symbols and wrong for others:
a window fits into 5 elements and not into 4. Programs that bind symbols later ask what must hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rlx.ir.shape import Dim, Extent, ends

_demanded: ContextVar[dict[Dim, None] | None] = ContextVar("demanded", default=None)


def is_nonnegative(extent: Extent) -> bool:
    """Return False only for a number below 0; where symbols decide, `demanded` notes the extent."""
    if isinstance(extent, int):
        return extent >= 0
    found = _demanded.get()
    if found is not None and ends(extent)[0] < 0:
        found[extent] = None
    return True


def is_collecting() -> bool:
    """True inside of `demanded`: cached results of inference do not apply then."""
    return _demanded.get() is not None


@contextmanager
def demanded() -> Iterator[dict[Dim, None]]:
    """Collect, as keys, the extents that inference inside of the block needs to be 0 or more."""
    found: dict[Dim, None] = {}
    token = _demanded.set(found)
    try:
        yield found
    finally:
        _demanded.reset(token)
