"""Locks that are released if a signal handler raises, at whatever instruction.

These are locks of the interpreter itself, which `with` releases without a gap. Before Python 3.14
it acquires them without one as well. 3.14 calls `__enter__` like any function: signals are handled
after a function of C, before the block has begun; after the return of a Python function none are.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

if sys.version_info >= (3, 14):
    _Base: Any = type(threading.RLock())

    class _Lock(_Base):  # type: ignore[misc]
        """A reentrant lock. `__exit__` is inherited: a Python function may not even begin."""

        def __enter__(self) -> Any:
            depth = self._recursion_count()
            try:
                return self.acquire()
            except BaseException:
                if self._recursion_count() > depth:
                    self.release()
                raise

    def reentrant_lock() -> Any:
        """Return a lock that its thread may take again."""
        return _Lock()

    simple_lock = reentrant_lock
else:

    def reentrant_lock() -> Any:
        """Return a lock that its thread may take again."""
        return threading.RLock()

    def simple_lock() -> Any:
        """Return a lock whose `locked` says whether any thread holds it."""
        return threading.Lock()
