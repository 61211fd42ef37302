"""How many derivatives are being taken of what is traced now.

`grad(grad(f))` traces `f` inside two transformations: whatever `f` calls is differentiated twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Orders(threading.local):
    """The count in this thread."""

    def __init__(self) -> None:
        self.open = 0


_orders = _Orders()


@contextmanager
def differentiating() -> Iterator[None]:
    """Count one derivative more of what is traced inside."""
    _orders.open += 1
    try:
        yield
    finally:
        _orders.open -= 1


def derivatives_taken() -> int:
    """Return how many derivatives will be taken of what is traced now."""
    return _orders.open
