"""Locks that neither a fork nor a call from within a call can turn into a hang.

A lock of `call_lock` belongs to one executable. Its thread may not take it twice: a signal
handler, a `__del__` or an argument's `__array__` that calls the function which is running is
told so. In a forked child every such lock is free again, whoever held it in the parent.

A fork waits, for a bounded time, until other threads have done what `unforkable` encloses:
compilers and imports hold locks of their own, which nobody could free in the child. Ctrl-C waits
until `importing` is done: ops and rules that were declared in part cannot be declared again.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from rlx.errors import ReentryError

_PATIENCE = 60.0
"""Seconds that a fork waits for compilations in other threads."""

_call_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_changed = threading.Condition()
_inside: Counter[int] = Counter()
"""How deep each thread is in `unforkable` blocks, by its identity."""


def call_lock() -> Any:
    """Return a lock for the calls of one executable; see `refuse_reentry`."""
    lock = threading.RLock()
    _call_locks.add(lock)
    return lock


def refuse_reentry(lock: Any, name: str) -> None:
    """Raise ReentryError if this thread holds `lock`, that is, if `name` is running in it."""
    if lock._is_owned():
        raise ReentryError(
            f"{name} is called from within its own run, by a callback, a signal handler or "
            "a __del__",
            remedy="call a clone() of it there, or set a flag and call it after the run",
        )


@contextmanager
def unforkable() -> Iterator[None]:
    """Let a fork in another thread wait until the block is done."""
    thread = threading.get_ident()
    with _changed:
        _inside[thread] += 1
    try:
        yield
    finally:
        with _changed:
            _inside[thread] -= 1
            if not _inside[thread]:
                del _inside[thread]
            _changed.notify_all()


@contextmanager
def importing() -> Iterator[None]:
    """Let forks and Ctrl-C wait until modules are imported whole."""
    with unforkable(), _uninterrupted():
        yield


@contextmanager
def _uninterrupted() -> Iterator[None]:
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield  # only the main thread is interrupted
        return
    late: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: late.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if late:
            handler(*late[-1])


def _others_inside() -> bool:
    return any(thread != threading.get_ident() for thread in _inside)


def _before_fork() -> None:
    _changed.acquire()  # kept until the fork is done: nobody enters a block meanwhile
    _changed.wait_for(lambda: not _others_inside(), _PATIENCE)


def _renew() -> None:
    """In a child there is one thread: what others held is free, what it holds stays held."""
    global _changed
    _changed = threading.Condition()
    own = threading.get_ident()
    for thread in [thread for thread in _inside if thread != own]:
        del _inside[thread]
    for lock in list(_call_locks):
        if not lock._is_owned():
            lock._at_fork_reinit()


if os.name == "posix":  # nothing forks elsewhere
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=lambda: _changed.release(),
        after_in_child=_renew,
    )
