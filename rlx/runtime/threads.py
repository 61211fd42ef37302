"""The worker threads that runs on several cores share.

A pool of `threads` threads has `threads - 1` workers; the caller is the other one. A worker is a
Python thread that spends its time in native code (`codegen.threaded`), where it needs no GIL: it
waits there for jobs of the seat it serves. When nothing comes for a while it returns to Python
and sleeps until the next launch wakes it. Workers are daemons: they never keep
the process alive.

Only one job runs at a time in a process. A caller that finds the workers busy runs alone, on its
own thread, with the same result.
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from rlx.codegen.sync import sync_words
from rlx.dataclass import dataclass
from rlx.runtime.native import Pointer, pointer_to

_PATIENCE = 3000
"""Rounds of waiting before a worker goes to sleep: about a tenth of a millisecond."""

_numbers = itertools.count(1)
_busy = threading.Lock()


@dataclass(frozen=True, slots=True, eq=False)
class Seat:
    """One executable's arena and the native functions that run it on several threads."""

    arena: Pointer
    tables: tuple[Pointer, ...]
    """What the entries take beside the arena: where regions moved (`io_binding`), or nothing."""
    launch: Callable[..., int]
    worker: Callable[..., int]
    join: Callable[..., int]
    owner: object
    """Keeps the arena and the code alive while a worker is inside."""
    seat_id: int = field(default_factory=lambda: next(_numbers))


class WorkerPool:
    """Workers for runs on `threads` threads."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._words: Any = np.zeros(sync_words(threads) + 8, np.int64)
        start = (-self._words.ctypes.data % 64) // 8
        self._sync = pointer_to(self._words.ctypes.data + 8 * start, "int64_t *")
        self._pending: Seat | None = None
        self._asleep = [False] * threads
        self._wake = [_Signal() for _ in range(threads)]
        self._is_closed = False
        try:
            for thread in range(1, threads):
                self._start(thread)
        except RuntimeError:
            self._close()
            raise

    def _start(self, thread: int) -> None:
        threading.Thread(
            target=self._work, args=(thread,), name=f"rlx-worker-{thread}", daemon=True
        ).start()

    def _close(self) -> None:
        """Let the workers end that were started: no job will come."""
        self._is_closed = True
        for wake in self._wake:
            wake.give()

    def try_run(self, seat: Seat, extents: Sequence[int]) -> int | None:
        """Run a job on all threads and return its status, or None if the workers are busy."""
        if _busy.locked():
            return None
        with _busy:  # a `with` leaves no gap in which an interrupt would lose the lock
            try:
                self._pending = seat
                self._wake_sleepers()
                status = seat.launch(
                    seat.arena, *seat.tables, self._sync, *extents, self.threads, seat.seat_id
                )
                if status != 0:
                    seat.join(seat.arena, self._sync, self.threads)
                return status
            finally:
                self._pending = None

    def _wake_sleepers(self) -> None:
        """Wake who sleeps. A worker on its way to sleep looks at `_pending` once more."""
        for thread, asleep in enumerate(self._asleep):
            if asleep:
                self._wake[thread].give()
                self._asleep[thread] = False  # last: after an interrupt the next launch wakes it

    def _work(self, thread: int) -> None:
        while not self._is_closed:
            seat = self._pending
            if seat is None:
                self._sleep(thread)
                continue
            seat.worker(
                seat.arena, *seat.tables, self._sync, thread, self.threads, seat.seat_id, _PATIENCE
            )
            del seat  # a sleeping worker keeps no executable alive

    def _sleep(self, thread: int) -> None:
        self._asleep[thread] = True
        if self._pending is None:
            self._wake[thread].wait()


class _Signal:
    """What one thread waits for and others give; given twice before it is taken, it counts once.

    A bare lock, which an interrupt cannot leave half taken: the semaphores and conditions of
    `threading` are written in Python, and lose their lock if one comes between two lines.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def give(self) -> None:
        if self._lock.locked():  # it stays so: who waits takes it only once it is given
            self._lock.release()

    def wait(self) -> None:
        self._lock.acquire()


@functools.cache
def worker_pool(threads: int) -> WorkerPool | None:
    """Return the pool of this process for `threads` threads; made on first use.

    Where the system starts no more threads there is none, and a warning says so.
    """
    try:
        return WorkerPool(threads)
    except RuntimeError as error:
        message = f"rlx runs on one thread instead of {threads}: {error}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)
        return None


def _forget_pools() -> None:
    """A forked child has none of its parent's threads."""
    global _busy
    _busy = threading.Lock()
    worker_pool.cache_clear()


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_forget_pools)
