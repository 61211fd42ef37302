"""The ranks that run this program: those that `mpirun` started, or threads of one process."""

from __future__ import annotations

import atexit
import importlib.util
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from rlx.dataclass import dataclass
from rlx.distributed.lockstep import Lockstep
from rlx.errors import CommunicationError, InputError
from rlx.ir.reference.collective import GROUPS, Group
from rlx.ir.source_lines import calling_source

Array = np.ndarray[Any, Any]


class Connection(Protocol):
    """Interface between a world and its ranks; implemented by MPI and by `simulate`."""

    @property
    def is_compiled(self) -> bool:
        """Compiled code reaches the ranks; where it does not, programs are interpreted."""

    def split(self, extents: Sequence[int]) -> list[tuple[int, Group]]:
        """Return a communicator, and its group, along each axis of a grid of ranks."""

    def gather(self, x: Any, what: str, /, reason: str = "") -> list[Any]:
        """Return the `x` of all ranks, in their order; all must call it, for the same purpose.

        `reason` is in the error where a rank never reaches it.
        """

    def run(self, program: Hashable, call: Callable[[], Any], *, exchanges: bool) -> Any:
        """Return what `call` does, which all ranks run; an error of one ends all of them.

        Unless nothing is exchanged: then no rank waits.
        """

    @property
    def last_program(self) -> Hashable:
        """What `run` was given last."""


@dataclass(frozen=True, slots=True)
class World:
    """All ranks of the program, and the number of this one."""

    rank: int
    size: int
    connection: Connection


MESH = "a mesh is made"


class _Current(threading.local):
    world: World | None = None


_current = _Current()


def current_world() -> World:
    """Return the world of this thread; InputError before `initialize`."""
    if _current.world is None:
        raise InputError(
            "rlx.distributed is not initialized", remedy="call rlx.distributed.initialize() first"
        )
    return _current.world


def enter_world(world: World) -> None:
    """Make `world` the one of this thread."""
    _current.world = world


def agreed(given: Sequence[tuple[str, Any]]) -> list[Any]:
    """Return the values of all ranks; CommunicationError if they are in different collectives."""
    purposes = [what for what, _ in given]
    if len(set(purposes)) > 1:
        listed = ", ".join(f"on rank {rank} {what}" for rank, what in enumerate(purposes))
        raise CommunicationError(
            f"the ranks are at different exchanges: {listed}",
            source=calling_source(),
            remedy="let all ranks make the same calls",
        )
    return [x for _, x in given]


def initialize() -> World:
    """Take the ranks that `mpirun` started; without `mpirun` there is one.

    From now on an exception that a rank does not catch is printed with its rank, and ends all
    of them; so does a rank that ends while others wait for it. MPI is initialized for calls from
    the main thread alone (MPI_THREAD_FUNNELED).
    """
    if _current.world is not None:
        return _current.world
    if importlib.util.find_spec("mpi4py") is None:
        raise CommunicationError(
            "the package mpi4py is not installed", remedy="install it with pip install rlx[mpi]"
        )
    import mpi4py

    mpi4py.rc.thread_level = "funneled"
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD.Dup()
    connection = MpiConnection(ranks, Lockstep(ranks))
    world = World(ranks.Get_rank(), ranks.Get_size(), connection)
    sys.excepthook = _ending_all(sys.excepthook, connection.lockstep)
    atexit.register(connection.leave)
    enter_world(world)
    return world


@dataclass(frozen=True, slots=True)
class MpiGroup:
    """Ranks of a communicator of MPI, for the reference interpreter."""

    ranks: Any

    @property
    def rank(self) -> int:
        return int(self.ranks.Get_rank())

    @property
    def size(self) -> int:
        return int(self.ranks.Get_size())

    def exchange(self, x: Array) -> list[Array]:
        return list(self.ranks.allgather(x))


@dataclass(frozen=True, slots=True)
class MpiConnection:
    """The ranks of an MPI communicator."""

    ranks: Any
    lockstep: Lockstep
    is_compiled: bool = True

    def split(self, extents: Sequence[int]) -> list[tuple[int, Group]]:
        from mpi4py import MPI

        self.gather(tuple(extents), MESH)
        grid = self.ranks.Create_cart(list(extents))
        parts: list[tuple[int, Group]] = []
        for axis in range(len(extents)):
            line = grid.Sub([other == axis for other in range(len(extents))])
            line.Set_errhandler(MPI.ERRORS_RETURN)  # a fault becomes an error of the program
            group = MpiGroup(line)
            GROUPS[line.py2f()] = group
            parts.append((line.py2f(), group))
        return parts

    def gather(self, x: Any, what: str, /, reason: str = "") -> list[Any]:
        self.lockstep.wait_for_all(reason or what)
        return agreed(self.ranks.allgather((what, x)))

    @property
    def last_program(self) -> Hashable:
        return self.lockstep.last_program

    def run(self, program: Hashable, call: Callable[[], Any], *, exchanges: bool) -> Any:
        self.lockstep.last_program = program
        self.lockstep.begin()
        try:
            return call()
        except Exception as error:
            if exchanges:
                self.lockstep.fail(error)
            raise
        finally:
            self.lockstep.done()

    def leave(self) -> None:
        """Wait for the others at the end of the program."""
        from mpi4py import MPI

        if not MPI.Is_finalized():
            self.lockstep.leave()


def _ending_all(usual: Any, lockstep: Lockstep) -> Any:
    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lockstep.fail(error)
        usual(kind, error, trace)  # there is one rank

    return end
