"""One process per peer: prepares workloads and times calls on request.

The thread counts of a library are read from the environment when it is loaded, hence the
process of its own; and two libraries' thread pools would spin against each other in one.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from bench.peers import load_peer, load_program_peer
from bench.peers.session import Session
from bench.workload import Array
from bench.workloads import PROGRAMS, WORKLOADS

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_BATCH_SECONDS = 2e-4
"""Calls shorter than this are timed in batches, so that reading the clock does not count."""

_TRAINING_STEPS = 5


@dataclass(frozen=True, slots=True)
class Made:
    """What preparing a workload gave: its results, or why there are none."""

    outputs: list[Array]
    cold_seconds: float | None = None
    warm_seconds: float | None = None
    temporary_bytes: int | None = None
    fault: str | None = None


class Worker:
    """The controller's end of a peer's process."""

    def __init__(self, peer: str, threads: int) -> None:
        os.environ |= dict.fromkeys(_THREAD_VARIABLES, str(threads))
        os.environ["RLX_NUM_THREADS"] = str(threads)
        self.peer = peer
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, peer, threads), daemon=True)
        self._process.start()

    def prepare(self, workload: str) -> Made:
        made: Made = self._ask("prepare", workload)
        return made

    def measure(self, seconds: float) -> list[float]:
        """Return seconds per call, of as many calls as fit into `seconds`."""
        times: list[float] = self._ask("measure", seconds)
        return times

    def close(self) -> None:
        self._pipe.send(("close", None))
        self._process.join(5)
        self._process.terminate()

    def _ask(self, command: str, argument: object) -> Any:
        self._pipe.send((command, argument))
        return self._pipe.recv()


def _limit_cores(threads: int) -> None:
    """Run on as many cores as threads: XLA's pool has no other limit."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _serve(pipe: Connection, peer: str, threads: int) -> None:
    _limit_cores(threads)
    session: Session | None = None
    while True:
        command, argument = pipe.recv()
        if command == "close":
            return
        if command == "prepare":
            session = None
            gc.collect()
            session, made = _prepare(peer, argument, threads)
            pipe.send(made)
        else:
            assert session is not None, "prepare comes first"
            pipe.send(_times(session.call, argument))


def _prepare(peer: str, name: str, threads: int) -> tuple[Session | None, Made]:
    graphs = {workload.name: workload for workload in WORKLOADS}
    programs = {program.name: program for program in PROGRAMS}
    try:
        if name in graphs:
            session = load_peer(peer)(graphs[name], threads)
        else:
            session = load_program_peer(peer)(programs[name], threads)
        calls = _TRAINING_STEPS if name in graphs and graphs[name].training else 1
        outputs = [y.copy() for _ in range(calls) for y in session.to_arrays(session.call())]
    except Exception as error:  # whatever a peer does not support is a line of the report
        return None, Made([], fault=f"{type(error).__name__}: {str(error)[:200]}")
    return session, Made(
        outputs, session.cold_seconds, session.warm_seconds, session.temporary_bytes
    )


def _times(call: Callable[[], Any], seconds: float) -> list[float]:
    """Time calls for a while, after as many as it takes threads to wake up."""
    clock = time.perf_counter
    started = clock()
    call()
    estimate = clock() - started
    batch = max(1, int(_BATCH_SECONDS / max(estimate, 1e-7)))
    least = 3 if estimate < seconds else 1
    times: list[float] = []
    started = clock()
    while (now := clock()) - started < seconds or len(times) < least:
        for _ in range(batch):
            call()
        times.append((clock() - now) / batch)
    return times
