"""Locks that are safe under forks and reentrant calls.

A lock of `call_lock` belongs to one executable. Its thread may not take it twice: a signal
handler, a `__del__` or an argument's `__array__` that calls the function which is running is
refused. In a forked child every such lock is free again, also one held in the parent.

A fork waits, for a bounded time, until other threads have done what `unforkable` encloses:
compilers and imports hold locks of their own, which could not be freed in the child. Signals wait
until `importing` is done: ops and rules that were declared in part cannot be declared again.

What a signal handler raises may come at the start of any Python function and after any call:
wherever it comes, no lock stays taken. So blocks are locks of `rlx.signal_safe_lock`;
`threading.Condition` is written in Python, and has gaps.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any

from rlx.errors import ReentryError
from rlx.garbage import collecting_rarely
from rlx.signal_safe_lock import reentrant_lock

_PATIENCE = 60.0
"""Seconds that a fork waits for compilations in other threads."""
_PAUSE = 0.0005
"""Seconds between two looks whether they are done."""

_SIGNALS = tuple(map(int, signal.valid_signals()))
_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Without the conversion to an enum, which for all signals takes as long as a small import."""

_call_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_registering: Any = reentrant_lock()
"""Held while `_locks` grows, and by a fork: no thread enters its first block meanwhile.

Its thread may take it again: a signal handler that comes meanwhile may compile, or fork.
"""
_locks: dict[int, Any] = {}
"""A lock for each thread that was ever in an `unforkable` block, by the thread's identity."""


_importing: set[int] = set()
"""Threads in an `importing` block, by their identities."""


def call_lock() -> Any:
    """Return a lock for the calls of one executable; see `refuse_reentry`."""
    lock = reentrant_lock()
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


def unforkable() -> AbstractContextManager[object]:
    """Return a context manager: a fork in another thread waits until its block is done."""
    thread = threading.get_ident()
    lock: Any = _locks.get(thread)
    if lock is None:
        with _registering:
            lock = _locks.setdefault(thread, reentrant_lock())
    return lock  # type: ignore[no-any-return]


@contextmanager
def importing() -> Iterator[None]:
    """Let forks and signals wait until modules are imported whole; nested blocks do nothing."""
    thread = threading.get_ident()
    if thread in _importing:
        yield
        return
    with unforkable(), _uninterrupted(), collecting_rarely():
        _importing.add(thread)
        try:
            yield
        finally:
            _importing.discard(thread)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Call the program's signal handlers, any of which may raise, only after the block."""
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    found = ((number, _getsignal(number)) for number in _SIGNALS)
    handlers = {number: handler for number, handler in found if callable(handler)}
    late: list[tuple[int, FrameType | None]] = []
    try:  # a handler that is not replaced yet may raise after the first call
        for number in handlers:
            signal.signal(number, lambda number, frame: late.append((number, frame)))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        with ExitStack() as calls:  # all are called, also where one raises
            for number, frame in reversed(late):
                calls.callback(handlers[number], number, frame)


def _locks_of_others() -> list[Any]:
    own = threading.get_ident()
    return [lock for thread, lock in list(_locks.items()) if thread != own]


def _before_fork() -> None:
    stop = time.monotonic() + _PATIENCE
    while True:
        _registering.acquire()
        if _take_others() or time.monotonic() > stop:
            return
        _let_others_go_on()  # one of them may wait for another that is about to enter
        _registering.release()
        time.sleep(_PAUSE)


def _take_others() -> bool:
    return all(lock.acquire(blocking=False) for lock in _locks_of_others())


def _let_others_go_on() -> None:
    for lock in _locks_of_others():
        if lock._is_owned():
            lock.release()


def _renew() -> None:
    """Reset the locks in a forked child: those held by other threads are released."""
    own = threading.get_ident()
    for thread in [thread for thread in _locks if thread != own]:
        del _locks[thread]
        _importing.discard(thread)
    for lock in [_registering, *_call_locks]:
        if not lock._is_owned():
            lock._at_fork_reinit()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_registering.release,
        after_in_child=_registering.release,
    )
    for _ in range(2):  # what interrupts the first is gone when the second runs
        os.register_at_fork(after_in_parent=_let_others_go_on)
    os.register_at_fork(after_in_child=_renew)
