"""Progress of each rank in shared windows, so that no rank waits for one that has failed.

All ranks exchange in one order. Each counts its exchanges and writes the count, and what it does,
to memory that MPI lets the others read, even while it is blocked in a collective. It is read by a
rank that waits outside of compiled code, and by one that has ended. What cannot be mended from
there, a rank that is blocked in compiled code, is ended with `MPI_Abort`, with the reason.
"""

from __future__ import annotations

import enum
import os
import sys
import time
import traceback
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

_SPINNING = 1e-3
"""Seconds in which the others are expected, before their memory is read."""
_NAP = 1e-3
_GRACE = 0.5
"""Seconds for which ranks must be apart: one may be between two exchanges."""


class Doing(enum.IntEnum):
    """States of a rank."""

    PYTHON = 0
    MEETING = 1
    RUNNING = 2
    ENDED = 3


_DESCRIBED = {
    Doing.PYTHON: "has left exchange {}",
    Doing.MEETING: "waits for all ranks at exchange {}",
    Doing.RUNNING: "runs compiled code, exchange {}",
    Doing.ENDED: "ended after exchange {}",
}


class Lockstep:
    """The exchanges of this rank, counted, and those of the others."""

    def __init__(self, ranks: Any) -> None:
        from mpi4py import MPI

        self._ranks = ranks.Dup()
        self._window = MPI.Win.Allocate(16, 8, comm=self._ranks)
        memory: Any = self._window.tomemory()
        self._own = np.frombuffer(memory, np.int64)
        self._own[:] = 0
        self._ranks.Barrier()
        self._window.Lock_all()
        self._others = [rank for rank in range(self._ranks.size) if rank != self._ranks.rank]
        self.last_program: Hashable = None
        """What was run last: ranks compare programs when another one follows."""

    def begin(self) -> None:
        """Enter compiled code that all ranks run."""
        self._own[0] += 1
        self._own[1] = Doing.RUNNING

    def done(self) -> None:
        """Return from an exchange to Python."""
        self._own[1] = Doing.PYTHON

    def wait_for_all(self, reason: str) -> None:
        """Barrier that ends all ranks, for `reason`, if one of them cannot reach it."""
        self._own[0] += 1
        self._own[1] = Doing.MEETING
        self._wait(reason, self._is_elsewhere)
        self.done()

    def leave(self) -> None:
        """Barrier at the end of the program."""
        self._own[1] = Doing.ENDED
        self._wait("the program of this rank has ended", self._is_ahead)
        self._window.Unlock_all()
        self._window.Free()

    def fail(self, error: BaseException) -> None:
        """End all ranks for an error of this one, if there are others."""
        if self._others:
            self._end_all("".join(traceback.format_exception(error)))

    def _wait(self, reason: str, is_lost: Callable[[int, int], bool]) -> None:
        arrived = self._ranks.Ibarrier()
        started = time.monotonic()
        lost_since: float | None = None
        while not arrived.Test():
            now = time.monotonic()
            if now - started < _SPINNING:
                continue
            lost = [rank for rank in self._others if is_lost(*self._look(rank))]
            lost_since = (lost_since or now) if lost else None
            if lost_since is not None and now - lost_since > _GRACE:
                self._end_all(f"{reason}\n{self._described(lost)}")
            time.sleep(_NAP)

    def _is_elsewhere(self, count: int, doing: int) -> bool:
        """True for a rank that cannot reach the exchange in which this one waits."""
        own = int(self._own[0])
        return count > own or doing == Doing.ENDED or (count == own and doing == Doing.RUNNING)

    def _is_ahead(self, count: int, doing: int) -> bool:
        """True for a rank that is in a later exchange than this one."""
        return count > int(self._own[0]) and doing in (Doing.MEETING, Doing.RUNNING)

    def _look(self, rank: int) -> tuple[int, int]:
        found = np.zeros(2, np.int64)
        self._window.Get(found, rank)
        self._window.Flush(rank)
        return int(found[0]), int(found[1])

    def _described(self, lost: list[int]) -> str:
        here = self._say(self._ranks.rank, int(self._own[0]), int(self._own[1]))
        return "\n".join([here, *(self._say(rank, *self._look(rank)) for rank in lost)])

    def _say(self, rank: int, count: int, doing: int) -> str:
        return f"rank {rank} {_DESCRIBED[Doing(doing)].format(count)}"

    def _end_all(self, text: str) -> None:
        place = f"rank {self._ranks.rank} of {self._ranks.size}, process {os.getpid()}"
        sys.stderr.write(f"{place}: {text.rstrip()}\nall ranks are ended\n")
        sys.stderr.flush()
        self._ranks.Abort(1)
