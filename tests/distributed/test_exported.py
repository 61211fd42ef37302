"""Collectives in exported C: built by mpicc alone under strict flags, with the bits of Python."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.distributed import Mesh, P, shard_map, simulate
from rlx.ir.graph import Graph
from rlx.runtime.mpi import find_mpicc
from tests.aot.building import STRICT
from tests.distributed.programs import moved, normal
from tests.distributed.test_mpi import mpirun

RANKS = 2
X = normal(4 * RANKS, RANKS)


def everything(x: Any) -> Any:
    """Every collective, a sum that is under way during a product, and a gradient."""

    def loss(v: Any) -> Any:
        return rnp.sum(rlx.pmax(rlx.psum(rnp.sin(v), "ranks"), "ranks"))

    wide = rnp.tile(x, (8, 16))
    total = rlx.psum(wide * 2.0, "ranks")
    return (
        *moved("ranks", RANKS, x),
        *(fold(x, "ranks") for fold in (rlx.psum, rlx.pmean, rlx.pmax, rlx.pmin)),
        rlx.psum_scatter(x, "ranks", tiled=True),
        rlx.pmin((10 * x).astype(np.int32), "ranks"),
        rlx.grad(loss)(x),
        wide.T @ wide,
        total,
        rlx.axis_index("ranks"),
    )


def traced() -> tuple[Graph, list[Any]]:
    """Return the graph of a rank, and what this one gets from the reference."""
    shares = P("ranks")
    mesh = Mesh({"ranks": RANKS})
    graph = shard_map(everything, mesh, shares, shares).graph(X)
    own = np.split(X, RANKS)[mesh.world.rank]
    executable = rlx.compile(graph, backend="reference")
    return graph, list(executable(mesh.communicators["ranks"], own))


def build(folder: Path, *sources: str) -> Path:
    program = folder / "program"
    command = [find_mpicc(), "-std=c11", "-O2", *STRICT, *sources, "-lm", "-o", str(program)]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return program


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Any]]]:
    folder = tmp_path_factory.mktemp("exported")
    ranks = simulate(traced, RANKS)
    rlx.aot(ranks[0][0], folder, name="step")
    return folder, [results for _, results in ranks]


def test_each_rank_gets_what_the_reference_gives_it(
    exported: tuple[Path, list[list[Any]]],
) -> None:
    folder, expected = exported
    shutil.copy(Path(__file__).with_name("exchange.c"), folder)
    program = build(folder, "exchange.c", "step.c")
    for rank, share in enumerate(np.split(X, RANKS)):
        share.tofile(folder / f"x.{rank}")
    done = mpirun(RANKS, str(program), folder=folder)
    assert done.returncode == 0, done.stderr
    for rank, results in enumerate(expected):
        found = (folder / f"y.{rank}").read_bytes()
        for result in results:
            own, found = np.frombuffer(found[: result.nbytes], result.dtype), found[result.nbytes :]
            np.testing.assert_allclose(own.reshape(result.shape), result, rtol=1e-5, atol=1e-5)
        assert not found


def test_the_sample_program_runs_on_all_ranks(exported: tuple[Path, list[list[Any]]]) -> None:
    folder, _ = exported
    done = mpirun(RANKS, str(build(folder, "main.c", "step.c")), folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("y_0:") == RANKS


def test_other_ranks_than_it_was_written_for_are_a_status(
    exported: tuple[Path, list[list[Any]]],
) -> None:
    folder, _ = exported
    done = mpirun(1, str(build(folder, "main.c", "step.c")), folder=folder)
    assert done.returncode != 0
    assert "MPI returned an error" in done.stderr
