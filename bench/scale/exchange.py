"""What a sum over ranks costs: inside of a compiled step, called from Python, and elsewhere."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np

import rlx
from bench.scale.native import native_call
from bench.scale.turns import Call
from rlx.distributed import Mesh, P, shard_map

SIZES = tuple(8 << shift for shift in range(0, 22, 3))
"""Bytes: 8 B to 16 MiB."""


def summed(mesh: Mesh, ranks: Any, size: int) -> dict[str, Call]:
    """Return calls that sum `size` bytes of f32 over all ranks, by who does it."""
    x = np.ones(size // 4, np.float32)
    received = np.empty_like(x)
    (axis,) = mesh.axes
    step = shard_map(lambda x: rlx.distributed.psum(x, axis), mesh, P(), P(), threads=1)
    graph = step.graph(x)
    names = [str(value.node.name) for value in graph.inputs]
    feeds = dict(zip(names, (mesh.communicators[axis], x), strict=True))
    return {
        "rlx, in a step": native_call(graph, feeds),
        "rlx, from Python": lambda: step(x),
        "mpi4py": lambda: ranks.Allreduce(x, received),
    }


def join_jax(ranks: Any) -> str:
    """Make the ranks processes of JAX, with gloo between them; return why not, or ""."""
    try:
        import jax
    except ImportError:
        return "JAX is not installed"
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = ranks.bcast(free.getsockname()[1])
    jax.distributed.initialize(f"127.0.0.1:{port}", ranks.size, ranks.rank)
    return ""


def summed_by_jax(size: int) -> Call:
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((jax.device_count(),), ("ranks",))
    parts = PartitionSpec("ranks")
    mapped = jax.shard_map(
        lambda x: jax.lax.psum(x, "ranks"), mesh=mesh, in_specs=parts, out_specs=PartitionSpec()
    )
    own = np.ones(size // 4, np.float32)
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, parts), own)
    summed = jax.jit(mapped)
    return lambda: summed(x).block_until_ready()
