"""The ranks that run this program: those that `mpirun` started, or threads of one process."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from rlx.errors import CommunicationError, InputError
from rlx.ir.reference.collective import GROUPS, Group

Array = np.ndarray[Any, Any]


class Connection(Protocol):
    """What a world does for its ranks; made by MPI, or by `simulate`."""

    @property
    def is_compiled(self) -> bool:
        """Compiled code reaches the ranks; where it does not, programs are interpreted."""

    def split(self, extents: Sequence[int]) -> list[tuple[int, Group]]:
        """Return a communicator, and what it stands for, along each axis of a grid of ranks."""

    def gather(self, x: Any) -> list[Any]:
        """Return the `x` of all ranks, in their order; all must call it."""


@dataclass(frozen=True, slots=True)
class World:
    """All ranks, as one of them sees them."""

    rank: int
    size: int
    connection: Connection


class _Current(threading.local):
    world: World | None = None


_current = _Current()


def current_world() -> World:
    """Return the world of this thread; InputError before `initialize`."""
    if _current.world is None:
        raise InputError("no ranks are known yet", remedy="call rlx.distributed.initialize() first")
    return _current.world


def enter_world(world: World) -> None:
    """Make `world` the one of this thread."""
    _current.world = world


def initialize() -> World:
    """Take the ranks that `mpirun` started; without `mpirun` there is one.

    From now on an exception that a rank does not catch is printed with its rank, and ends all
    of them. MPI is initialized for calls from the main thread alone (MPI_THREAD_FUNNELED).
    """
    if _current.world is not None:
        return _current.world
    if importlib.util.find_spec("mpi4py") is None:
        raise CommunicationError(
            "there is no mpi4py here", remedy="install it with pip install rlx[mpi]"
        )
    import mpi4py

    mpi4py.rc.thread_level = "funneled"
    from mpi4py import MPI

    ranks = MPI.COMM_WORLD.Dup()
    world = World(ranks.Get_rank(), ranks.Get_size(), MpiConnection(ranks))
    sys.excepthook = _ending_all(world, ranks)
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
    is_compiled: bool = True

    def split(self, extents: Sequence[int]) -> list[tuple[int, Group]]:
        from mpi4py import MPI

        grid = self.ranks.Create_cart(list(extents))
        parts: list[tuple[int, Group]] = []
        for axis in range(len(extents)):
            line = grid.Sub([other == axis for other in range(len(extents))])
            line.Set_errhandler(MPI.ERRORS_RETURN)  # a fault becomes an error of the program
            group = MpiGroup(line)
            GROUPS[line.py2f()] = group
            parts.append((line.py2f(), group))
        return parts

    def gather(self, x: Any) -> list[Any]:
        return list(self.ranks.allgather(x))


def _ending_all(world: World, ranks: Any) -> Any:
    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        text = "".join(traceback.format_exception(kind, error, trace))
        sys.stderr.write(f"rank {world.rank} of {world.size}, process {os.getpid()}:\n{text}")
        sys.stderr.flush()
        ranks.Abort(1)

    return end
