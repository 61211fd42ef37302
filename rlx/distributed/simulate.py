"""Ranks simulated by threads of one process, without MPI."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from rlx.dataclass import dataclass
from rlx.distributed.world import MESH, World, agreed, enter_world
from rlx.errors import CommunicationError
from rlx.ir.reference.collective import GROUPS, Group

Array = np.ndarray[Any, Any]

_handles = itertools.count(-1, -1)
"""Communicators of threads: numbers that no MPI gives."""


class _FailedError(CommunicationError):
    """A rank waits for one that has failed: the error of that one is raised instead."""


class _Ranks:
    """The threads of a simulation: who has ended, who waits, and what to wait on."""

    def __init__(self, size: int) -> None:
        self.changed = threading.Condition()
        self._size = size
        self._ended: dict[int, bool] = {}
        """Whether it failed, by rank."""
        self._late: dict[int, Callable[[], list[int]]] = {}
        """The ranks for which each rank waits."""

    def end(self, rank: int, *, failed: bool) -> None:
        with self.changed:
            self._ended[rank] = failed
            self.changed.notify_all()

    def wait(self, rank: int, late: Callable[[], list[int]]) -> None:
        """Wait until `late` names no rank, with the lock held; raise if that never happens."""
        self._late[rank] = late
        try:
            while others := late():
                self._require_present(rank, others)
                self.changed.wait()
        finally:
            del self._late[rank]

    def _require_present(self, rank: int, others: Sequence[int]) -> None:
        for other in others:
            failed = self._ended.get(other)
            if failed:
                raise _FailedError(f"rank {other} has failed", remedy="see what it raised")
            if failed is not None:
                raise CommunicationError(
                    f"rank {other} has ended, and rank {rank} waits for it in an exchange",
                    remedy="let all ranks make the same calls",
                )
        everybody_waits = len(self._late) + len(self._ended) == self._size
        if everybody_waits and all(late() for late in self._late.values()):
            raise CommunicationError(
                f"rank {rank} waits for rank {others[0]}, which is in another exchange",
                remedy="let all ranks make the same calls",
            )


class _Rendezvous:
    """An exchange of values among threads: each adds its own, and receives all."""

    def __init__(self, ranks: _Ranks, members: Sequence[int]) -> None:
        self._ranks = ranks
        self._members = members
        self._given: list[dict[int, Any]] = [{} for _ in members]
        """What each member gave, by the number of the exchange."""
        self._counts = [0] * len(members)

    def exchange(self, place: int, x: Any) -> list[Any]:
        """Add `x` as the member at `place`; return the values of all members."""
        with self._ranks.changed:
            number = self._counts[place]
            self._counts[place] += 1
            self._given[place][number] = x
            self._ranks.changed.notify_all()
            self._ranks.wait(self._members[place], lambda: self._late(number))
            values = [given[number] for given in self._given]
            self._forget()
        return values

    def _late(self, number: int) -> list[int]:
        counts = zip(self._members, self._counts, strict=True)
        return [member for member, count in counts if count <= number]

    def _forget(self) -> None:
        """Drop what cannot be requested again: members are at most one exchange apart."""
        oldest = min(self._counts) - 2
        for given in self._given:
            given.pop(oldest, None)


@dataclass(frozen=True, slots=True)
class ThreadGroup:
    """The members of an axis, for one simulated rank."""

    rank: int
    size: int
    rendezvous: _Rendezvous

    def exchange(self, x: Array) -> list[Array]:
        return self.rendezvous.exchange(self.rank, np.array(x))


@dataclass(slots=True)
class ThreadConnection:
    """The connection of one simulated rank to the others."""

    rank: int
    ranks: _Ranks
    all_members: _Rendezvous
    created: list[_Rendezvous]
    is_compiled: bool = False
    last_program: Hashable = None

    def split(self, extents: Sequence[int]) -> list[tuple[int, Group]]:
        numbers = np.arange(math.prod(extents)).reshape(extents)
        place = [int(p) for p in np.unravel_index(self.rank, extents)]
        parts: list[tuple[int, Group]] = []
        for axis, size in enumerate(extents):
            line = np.moveaxis(numbers, axis, -1)[(*place[:axis], *place[axis + 1 :])]
            members = [int(member) for member in line]
            own = _Rendezvous(self.ranks, members)  # that of the first member counts
            rendezvous = self.gather(own, MESH)[members[0]]
            self.created.append(rendezvous)
            group = ThreadGroup(place[axis], size, rendezvous)
            handle = next(_handles)
            GROUPS[handle] = group
            parts.append((handle, group))
        return parts

    def gather(self, x: Any, what: str, /, reason: str = "") -> list[Any]:
        del reason  # that a rank does not come is found out by all of them together
        return agreed(self.all_members.exchange(self.rank, (what, x)))

    def run(self, program: Hashable, call: Callable[[], Any], *, exchanges: bool) -> Any:
        self.last_program = program
        del exchanges  # who fails is missed by who waits for it
        return call()


def simulate(program: Callable[[], Any], ranks: int) -> list[Any]:
    """Run `program` once for each of `ranks` threads of this process; return their results.

    Programs are interpreted, not compiled: this is the meaning that MPI's ranks are tested
    against. The first exception of a rank ends all, and is raised with a note of its rank; one
    that reports another rank's is replaced by that.
    """
    everyone, created = _Ranks(ranks), list[_Rendezvous]()
    all_members = _Rendezvous(everyone, range(ranks))
    results: list[Any] = [None] * ranks
    errors: list[tuple[int, BaseException]] = []

    def run(rank: int) -> None:
        enter_world(World(rank, ranks, ThreadConnection(rank, everyone, all_members, created)))
        failed = True
        try:
            results[rank] = program()
            failed = False
        except BaseException as error:
            errors.append((rank, error))
        finally:
            everyone.end(rank, failed=failed)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for handle, group in list(GROUPS.items()):
        if isinstance(group, ThreadGroup) and group.rendezvous in created:
            del GROUPS[handle]  # and with it the arrays exchanged last
    if errors:
        rank, error = min(errors, key=_distance)
        error.add_note(f"raised on rank {rank} of {ranks}")
        raise error
    return results


def _distance(found: tuple[int, BaseException]) -> int:
    """Return the rank of an exception: first causes before their consequences."""
    error = found[1]
    return isinstance(error, CommunicationError) + isinstance(error, _FailedError)
