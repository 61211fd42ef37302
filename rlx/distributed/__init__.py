"""One compiled step on many ranks: MPI's from Python or C, or threads that simulate them.

    rlx.distributed.initialize()                                   # under mpirun -n 4
    mesh = rlx.distributed.Mesh({"data": 4})
    step = rlx.distributed.shard_map(step, mesh, (P(), P("data")), P())

`step` is a function of the local part of each array; collectives (`rlx.psum`, ...) name the axes
of the mesh. Needs the extra `mpi`; nothing of it is imported, linked or checked elsewhere.
"""

from __future__ import annotations

from rlx.distributed.checkpoint import load, save
from rlx.distributed.mesh import Mesh
from rlx.distributed.shard_map import shard_map
from rlx.distributed.sharding import P, Sharded
from rlx.distributed.simulate import simulate
from rlx.distributed.world import World, initialize

__all__ = ["Mesh", "P", "Sharded", "World", "initialize", "load", "save", "shard_map", "simulate"]
