"""Processes that examine programs, and are replaced when one of them dies or never answers."""

from __future__ import annotations

import contextlib
import gc
import itertools
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeAlias

Outcome: TypeAlias = str | None
_CONTEXT = multiprocessing.get_context("spawn")  # threads and LLVM do not survive a fork
_TASKS = 2000
"""Programs of one process: JAX keeps what it compiled until its process ends."""
SILENCE_SECONDS = 1800.0
"""Native code that never returns stops no clock of Python's: its process is ended after this."""


@dataclass(slots=True)
class _Worker:
    """A process, and the seed that it examines."""

    outcome: Callable[[int], Outcome]
    seed: int = 0
    since: float = 0.0
    done: int = 0
    process: BaseProcess = field(init=False)
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        arguments = self.outcome, theirs
        self.process = _CONTEXT.Process(target=_answer, args=arguments, daemon=True)
        self.process.start()
        theirs.close()
        self.done = 0

    def examine(self, seed: int) -> None:
        if self.done >= _TASKS:
            self.stop()
            self._start()
        self.seed, self.since, self.done = seed, time.monotonic(), self.done + 1
        self.connection.send(seed)

    def answer(self) -> Outcome:
        """Return the outcome of the seed; that of a process that died is how it did."""
        try:
            found: Outcome = self.connection.recv()
        except EOFError:
            self.process.join()
            found = f"\n--- seed {self.seed}: its process ended with {self.process.exitcode}"
            self._start()
        return found

    def is_silent(self) -> bool:
        return time.monotonic() - self.since > SILENCE_SECONDS

    def stop(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def _answer(outcome: Callable[[int], Outcome], connection: Connection) -> None:
    collect_rarely()
    with contextlib.suppress(EOFError, BrokenPipeError):  # the other end is closed
        while True:
            connection.send(outcome(connection.recv()))


def collect_rarely() -> None:
    """Let Python look for cycles seldom, and never among the modules: a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def outcomes(
    outcome: Callable[[int], Outcome], seeds: Iterator[int], jobs: int
) -> Iterator[tuple[int, Outcome]]:
    """Yield every seed with its outcome, in the order in which `jobs` processes have them.

    A seed is drawn when a process is free for it.
    """
    workers: list[_Worker] = []
    for seed in itertools.islice(seeds, jobs):
        workers.append(_Worker(outcome))
        workers[-1].examine(seed)
    try:
        while workers:
            wait([worker.connection for worker in workers], timeout=60)
            for worker in list(workers):
                if worker.is_silent():
                    worker.process.kill()  # its connection ends
                if not worker.connection.poll():
                    continue
                seed, found = worker.seed, worker.answer()
                following = next(seeds, None)
                if following is None:
                    workers.remove(worker)
                    worker.stop()
                else:
                    worker.examine(following)
                yield seed, found
    finally:
        for worker in workers:
            worker.stop()
