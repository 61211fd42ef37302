"""Meshes: ranks laid out along named axes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from rlx.dataclass import dataclass
from rlx.distributed.world import World, current_world
from rlx.errors import InputError
from rlx.ir.ranks import RankAxis, row_major_axes


@dataclass(frozen=True, slots=True)
class MeshAxis:
    """One axis of a mesh, as one rank sees it."""

    name: str
    size: int
    index: int
    """Which member this rank is."""
    communicator: int
    """The number that MPI_Comm_c2f gives for the ranks along this axis."""


class Mesh:
    """All ranks, numbered row by row over the axes: `Mesh({"rows": 2, "columns": 2})`."""

    def __init__(self, axes: Mapping[str, int], world: World | None = None) -> None:
        self.world = world or current_world()
        extents = list(axes.values())
        if math.prod(extents) != self.world.size or any(extent < 1 for extent in extents):
            listed = ", ".join(f"{name}: {extent}" for name, extent in axes.items())
            raise InputError(
                f"a mesh of {{{listed}}} has {math.prod(extents)} members, and there are "
                f"{self.world.size} ranks",
                remedy="give axes whose product is the number of ranks, or start mpirun -n "
                f"{math.prod(extents)}",
            )
        parts = self.world.connection.split(extents)
        self.axes = {
            name: MeshAxis(name, extent, group.rank, communicator)
            for (name, extent), (communicator, group) in zip(axes.items(), parts, strict=True)
        }
        self.communicators = {
            name: np.array(axis.communicator, np.int64) for name, axis in self.axes.items()
        }
        """By axis, as compiled programs take them."""

    @property
    def extents(self) -> tuple[tuple[str, int], ...]:
        """Names and sizes in their order, which give the coordinates of each rank."""
        return tuple((axis.name, axis.size) for axis in self.axes.values())

    def rank_axes(self) -> tuple[RankAxis, ...]:
        """Return the coordinates of ranks along each axis."""
        return row_major_axes(dict(self.extents))

    def axis(self, name: str) -> MeshAxis:
        """Return an axis by name, or raise InputError."""
        if name not in self.axes:
            raise InputError(
                f"the mesh has no axis {name!r} (has: {', '.join(self.axes)})",
                remedy="name one of its axes",
            )
        return self.axes[name]
