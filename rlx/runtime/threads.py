"""The worker threads that runs on several threads share.

Workers are native threads: they run the generated start routine (`codegen.pool`) and never the
interpreter. There is one pool in a process, which grows to the threads that runs ask for, but not
beyond the processors that the process may use. Workers block all signals that a handler could
take, so that the main thread is the one they interrupt, and end before the interpreter does.

Only one run at a time has the workers. A caller that finds them busy runs alone, on its own
thread, with the same result.
"""

from __future__ import annotations

import atexit
import os
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rlx.codegen.sync import (
    ALLOWED,
    CLOCK,
    CLOSED,
    CPU_CLOCK,
    CPU_WORDS,
    DONE,
    JOINED,
    LATENCY,
    MUTEX,
    SLEEPING,
    STOP,
    WAKE,
    WOKEN,
    sync_words,
)
from rlx.cores import usable_cores, usable_processors
from rlx.dataclass import dataclass
from rlx.runtime.native import Pointer, ffi, pointer_to, system_function
from rlx.signal_safe_lock import simple_lock

_MOST_THREADS = 256
_STACK = 8 << 20
"""Bytes of a worker's stack, which some C libraries make too small for scratch of kernels."""
_ATTRIBUTES = 16
"""i64 words that hold a `pthread_attr_t` everywhere."""
_FIRST_LATENCY = 10_000
"""Nanoseconds that waking is held to take until a worker has measured it."""

_POINTER, _TWO_POINTERS = "int (*)(void *)", "int (*)(void *, void *)"
_CREATE = "int (*)(uintptr_t *, void *, void *, void *)"
_SYNCHRONOUS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")

_busy = simple_lock()


_HAS_PTHREADS = hasattr(signal, "pthread_sigmask")
"""Workers are POSIX threads; on other systems a run has the caller alone."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One executable's arena and the native functions that run it on several threads."""

    arena: Pointer
    tables: tuple[Pointer, ...]
    """What the entries take besides the arena: where regions moved (`io_binding`), or nothing."""
    launch: Callable[..., int]
    addresses: tuple[int, int, int]
    """Of the task, the arena, and the table (or 0)."""
    worker: int
    """Address of the start routine of workers."""
    code: object
    """Keeps the start routine loaded."""


class WorkerPool:
    """Native threads, and the memory that they share with the caller."""

    def __init__(self) -> None:
        self.limit = min(usable_cores(), _MOST_THREADS) if _HAS_PTHREADS else 1
        """How many threads a run has at most, the caller's included."""
        self._block: Any = np.zeros(sync_words(_MOST_THREADS) + 8, np.int64)
        start = (-self._block.ctypes.data % 64) // 8
        self.words: Any = self._block[start:]
        self._sync = pointer_to(self.words.ctypes.data, "int64_t *")
        self._workers: list[Any] = []
        self._code: list[object] = []
        self.words[JOINED] = CLOSED
        self.words[LATENCY] = _FIRST_LATENCY
        self.words[CLOCK] = time.CLOCK_MONOTONIC
        self.words[CPU_CLOCK] = time.CLOCK_THREAD_CPUTIME_ID
        allowed = self.words[ALLOWED : ALLOWED + CPU_WORDS].view(np.uint64)
        for cpu in usable_processors():
            if cpu < 64 * CPU_WORDS:
                allowed[cpu // 64] |= np.uint64(1 << cpu % 64)
        self._pthread("mutex_init", _TWO_POINTERS, MUTEX, None)
        for condition in (WOKEN, DONE):
            self._pthread("cond_init", _TWO_POINTERS, condition, None)

    def run(self, job: Job, threads: int, extents: Sequence[int]) -> int | None:
        """Run a job and return its status; None if there are no workers."""
        threads = min(threads, self.limit)
        if len(self._workers) < threads - 1:
            self._start(job, threads - 1)
            threads = min(threads, self.limit)
        if threads < 2:
            return None
        return job.launch(job.arena, *job.tables, self._sync, *extents, threads, *job.addresses)

    def stop(self) -> None:
        """Let all workers end; runs that follow have none."""
        self.limit = 1
        self._pthread("mutex_lock", _POINTER, MUTEX)
        self.words[STOP] = 1
        self.words[WAKE] += 1
        self._pthread("cond_broadcast", _POINTER, WOKEN)
        self._pthread("mutex_unlock", _POINTER, MUTEX)
        join = system_function("pthread_join", "int (*)(uintptr_t, void *)")
        while self._workers:
            join(self._workers.pop()[0], ffi.NULL)

    def abandon(self) -> None:
        """Forget workers that a fork left in the parent, for a run that goes on in the child."""
        self.limit = 1
        self.words[SLEEPING] = 0
        self._workers.clear()

    def _start(self, job: Job, count: int) -> None:
        """Start workers until there are `count`; warn if the system starts no more."""
        attributes = ffi.new("int64_t[]", _ATTRIBUTES)
        system_function("pthread_attr_init", _POINTER)(attributes)
        resize = system_function("pthread_attr_setstacksize", "int (*)(void *, size_t)")
        resize(attributes, _STACK)
        create = system_function("pthread_create", _CREATE)
        self._code.append(job.code)
        old = signal.pthread_sigmask(signal.SIG_BLOCK, _maskable_signals())
        try:
            while len(self._workers) < count:
                worker = ffi.new("uintptr_t *")
                routine = ffi.cast("void *", job.worker)
                status = create(worker, attributes, routine, self._sync)
                if status != 0:
                    self._limit_to_workers(count + 1, status)
                    return
                self._workers.append(worker)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old)
            system_function("pthread_attr_destroy", _POINTER)(attributes)

    def _limit_to_workers(self, threads: int, status: int) -> None:
        self.limit = len(self._workers) + 1
        message = f"rlx runs on {self.limit} of {threads} threads: {os.strerror(status)}"
        warnings.warn(message, RuntimeWarning, stacklevel=2)

    def _pthread(self, function: str, declaration: str, word: int, *more: object) -> None:
        place = ffi.cast("void *", self.words.ctypes.data + 8 * word)
        given = [ffi.NULL if each is None else each for each in more]
        system_function(f"pthread_{function}", declaration)(place, *given)


_pool: WorkerPool | None = None


def try_run(job: Job, threads: int, extents: Sequence[int]) -> int | None:
    """Run a job with the workers of this process; None if they are busy, or there are none."""
    global _pool
    if _busy.locked():
        return None
    with _busy:  # a `with` leaves no gap in which an interrupt would lose the lock
        if _pool is None:
            _pool = WorkerPool()
        return _pool.run(job, threads, extents)


def _maskable_signals() -> set[int]:
    """Return the signals that no fault of the thread itself raises."""
    own = {getattr(signal, name) for name in _SYNCHRONOUS if hasattr(signal, name)}
    return {int(number) for number in signal.valid_signals()} - own


@atexit.register
def _stop() -> None:
    """End the workers while their code and memory are still there."""
    if _pool is not None:
        _pool.stop()


def _forget_pool() -> None:
    """A forked child has none of its parent's threads."""
    global _busy, _pool
    _busy = simple_lock()
    if _pool is not None:
        _pool.abandon()
    _pool = None


if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=_forget_pool)
