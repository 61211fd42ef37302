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
from rlx.runtime.aot import load_manifest
from rlx.runtime.mpi import find_mpicc
from tests.aot.building import STRICT
from tests.distributed.programs import moved, normal
from tests.distributed.test_mpi import mpirun

pytestmark = pytest.mark.slow  # compiles C and starts ranks
RANKS = 2
X = normal(4 * RANKS, RANKS)


def everything(x: Any) -> Any:
    """Every collective, a sum that is under way during a product, and a gradient."""

    def loss(v: Any) -> Any:
        return rnp.sum(rlx.distributed.pmax(rlx.distributed.psum(rnp.sin(v), "ranks"), "ranks"))

    wide = rnp.tile(x, (8, 16))
    total = rlx.distributed.psum(wide * 2.0, "ranks")
    return (
        *moved("ranks", RANKS, x),
        *(
            fold(x, "ranks")
            for fold in (
                rlx.distributed.psum,
                rlx.distributed.pmean,
                rlx.distributed.pmax,
                rlx.distributed.pmin,
            )
        ),
        rlx.distributed.psum_scatter(x, "ranks", tiled=True),
        rlx.distributed.pmin((10 * x).astype(np.int32), "ranks"),
        rlx.grad(loss)(x),
        wide.T @ wide,
        total,
        rlx.distributed.axis_index("ranks"),
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
    X.tofile(folder / "x.0")
    done = mpirun(1, str(build(folder, "exchange.c", "step.c")), folder=folder)
    assert done.returncode != 0
    assert "MPI returned an error" in done.stderr


def test_the_sample_program_says_how_many_ranks_it_is_for(
    exported: tuple[Path, list[list[Any]]],
) -> None:
    folder, _ = exported
    assert f"mpirun -n {RANKS} ./a.out" in (folder / "main.c").read_text()
    done = mpirun(1, str(build(folder, "main.c", "step.c")), folder=folder)
    assert done.returncode != 0
    assert "step is for 2 ranks, and there are 1" in done.stderr


def placed(x: Any, shift: Any) -> Any:
    """The place of each rank of a mesh, and sums along its lines; `shift` is an i64 scalar."""
    place = 10 * rlx.distributed.axis_index("rows") + rlx.distributed.axis_index("columns") + shift
    along = [rlx.distributed.psum(place, axis) for axis in ("rows", "columns")]
    return rnp.stack([place, *along]).astype(np.float32) + 0 * x[0, 0]


def test_the_sample_program_has_a_communicator_for_each_axis_of_a_mesh(tmp_path: Path) -> None:
    def traced_on_a_mesh() -> Graph:
        mesh = Mesh({"rows": 2, "columns": 2})
        split = P("rows", "columns")
        step = shard_map(placed, mesh, (split, P()), split)
        return step.graph(normal(4, 4), np.int64(5))

    graph = simulate(traced_on_a_mesh, 4)[0]
    rlx.aot(graph, tmp_path, name="step")
    done = mpirun(4, str(build(tmp_path, "main.c", "step.c")), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    # The sample gives `shift` a 0. Sums along "rows" are those of ranks that are two apart.
    found = ["0 10 1", "1 12 1", "10 10 21", "11 12 21"]
    expected = [f"rank {rank}, y: {numbers}" for rank, numbers in enumerate(found)]
    assert sorted(line.strip() for line in done.stdout.splitlines()) == expected
    inputs = load_manifest(tmp_path / "step.json")["inputs"]
    assert {each["name"]: each.get("ranks") for each in inputs if each["dtype"] == "i64"} == {
        "communicator_columns": {"name": "columns", "size": 2, "stride": 1},
        "communicator_rows": {"name": "rows", "size": 2, "stride": 2},
        "shift": None,
    }


def test_a_graph_made_by_hand_is_exported_with_the_communicators_that_its_sums_read(
    tmp_path: Path,
) -> None:
    g = Graph("step")
    x, count, ranks = g.input("x", (4,)), g.input("count", (), "i64"), g.input("ranks", (), "i64")
    total = g.all_reduce(x, ranks, axis_name="r", axis_size=RANKS, reduction="sum")
    g.set_outputs([total, g.add(count, 1)])
    rlx.aot(g, tmp_path, name="step")
    done = mpirun(RANKS, str(build(tmp_path, "main.c", "step.c")), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("y_1: 1") == RANKS
