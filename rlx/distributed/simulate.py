"""Ranks as threads of one process: the meaning of a program on many, without MPI."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlx.distributed.world import World, enter_world
from rlx.errors import CommunicationError
from rlx.ir.reference.collective import GROUPS, Group

Array = np.ndarray[Any, Any]

_handles = itertools.count(-1, -1)
"""Communicators of threads: numbers that no MPI gives."""


class _Meeting:
    """Where some threads exchange values: each leaves its own, and takes all."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.values: list[Any] = [None] * size

    def exchange(self, rank: int, x: Any) -> list[Any]:
        self.values[rank] = x
        self.barrier.wait()
        values = list(self.values)
        self.barrier.wait()
        return values


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """The threads of a meeting, as one of them sees them."""

    rank: int
    size: int
    meeting: _Meeting

    def exchange(self, x: Array) -> list[Array]:
        return self.meeting.exchange(self.rank, np.array(x))


@dataclass(frozen=True, slots=True)
class ThreadConnection:
    """The ranks of a simulation, as one of them sees them."""

    rank: int
    everybody: _Meeting
    meetings: list[_Meeting]
    is_compiled: bool = False

    def split(self, extents: Sequence[int]) -> list[tuple[int, Group]]:
        place = np.unravel_index(self.rank, extents)
        parts: list[tuple[int, Group]] = []
        for axis, size in enumerate(extents):
            line = tuple(int(p) for i, p in enumerate(place) if i != axis)
            first = int(place[axis]) == 0
            made = self.everybody.exchange(self.rank, (axis, line, _Meeting(size), first))
            (meeting,) = (m for a, other, m, is_first in made if other == line and is_first)
            self.meetings.append(meeting)
            group = ThreadGroup(int(place[axis]), size, meeting)
            handle = next(_handles)
            GROUPS[handle] = group
            parts.append((handle, group))
        return parts

    def gather(self, x: Any) -> list[Any]:
        return self.everybody.exchange(self.rank, x)


def simulate(program: Callable[[], Any], ranks: int) -> list[Any]:
    """Run `program` once for each of `ranks` threads of this process; return their results.

    Programs are interpreted, not compiled: this is the meaning that MPI's ranks are tested
    against. The first exception of a rank ends all, and is raised with a note of its rank; one
    that tells of another rank's gives way to that.
    """
    everybody, meetings = _Meeting(ranks), list[_Meeting]()
    results: list[Any] = [None] * ranks
    errors: list[tuple[int, BaseException]] = []

    def run(rank: int) -> None:
        enter_world(World(rank, ranks, ThreadConnection(rank, everybody, meetings)))
        try:
            results[rank] = program()
        except BaseException as error:
            if not isinstance(error, threading.BrokenBarrierError):  # else another rank failed
                errors.append((rank, error))
            for meeting in (everybody, *meetings):  # those made since are in the list by now
                meeting.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for handle, group in list(GROUPS.items()):
        if isinstance(group, ThreadGroup) and group.meeting in meetings:
            del GROUPS[handle]  # and with it the arrays exchanged last
    if errors:
        rank, error = min(errors, key=_is_consequence)
        error.add_note(f"raised on rank {rank} of {ranks}")
        raise error
    return results


def _is_consequence(found: tuple[int, BaseException]) -> bool:
    return isinstance(found[1], CommunicationError)
