"""One compiled step on many ranks: MPI's from Python or C, or threads that simulate them.

    rlx.distributed.initialize()                                   # under mpirun -n 4
    mesh = rlx.distributed.Mesh({"data": 4})
    step = rlx.distributed.shard_map(step, mesh, (P(), P("data")), P())

`step` is a function of the local part of each array; collectives (`rlx.distributed.psum`, ...) name
the axes of the mesh. Needs the extra `mpi`; nothing of it is imported, linked or checked elsewhere.
"""

from __future__ import annotations

from rlx.distributed.checkpoint import load, save
from rlx.distributed.mesh import Mesh
from rlx.distributed.shard_map import shard_map
from rlx.distributed.sharding import P, Sharded
from rlx.distributed.simulate import simulate
from rlx.distributed.world import World, initialize
from rlx.public_names import names_of as _names_of
from rlx.transforms.collectives import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    psum,
    psum_scatter,
    pvary,
)

__all__ = [
    "Mesh",
    "P",
    "Sharded",
    "World",
    "all_gather",
    "all_to_all",
    "axis_index",
    "axis_size",
    "initialize",
    "load",
    "pbroadcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "psum",
    "psum_scatter",
    "pvary",
    "save",
    "shard_map",
    "simulate",
]

__dir__ = _names_of(__name__)
