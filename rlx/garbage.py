"""Rarer garbage collections during imports and compilation.

Both make many objects that stay. Each collection visits them, and finds next to nothing: a quarter
of the time of a small program's first call.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from rlx.signal_safe_lock import reentrant_lock

_RARELY = 100_000
"""New objects between two collections; Python's default is 700 or 2,000."""

_lock = reentrant_lock()  # a signal handler may compile
_depth = 0
_before = 0


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Collect after `_RARELY` new objects at the earliest while the outermost block runs.

    A collector that is off stays off, and a threshold that is set meanwhile stays.
    """
    global _depth, _before
    with _lock:
        _depth += 1
        threshold, *more = gc.get_threshold()
        if _depth == 1 and 0 < threshold < _RARELY:
            _before = threshold
            gc.set_threshold(_RARELY, *more)
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            threshold, *more = gc.get_threshold()
            if _depth == 0 and _before and threshold == _RARELY:
                gc.set_threshold(_before, *more)
                _before = 0
