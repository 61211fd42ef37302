"""Derivatives in many directions: common factors are computed once.

The tangent of `a / b` is `da / b - ...`, a division for each direction. In many directions it is
`da * (1 / b)`, whose reciprocal all of them share; it rounds twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _State(threading.local):
    """Of this thread."""

    many = False


_state = _State()


@contextmanager
def in_many_directions() -> Iterator[None]:
    """Write the derivatives that are taken inside for many directions."""
    before, _state.many = _state.many, True
    try:
        yield
    finally:
        _state.many = before


def are_many() -> bool:
    """True if derivatives that are taken now are taken in many directions."""
    return _state.many
