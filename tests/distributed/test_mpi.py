"""Ranks of MPI: against threads that simulate them; faults that end all of them."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.distributed import Mesh, P, shard_map, simulate
from rlx.errors import ToolchainError
from rlx.ir.graph import Graph
from rlx.runtime.mpi import mpi_flags
from rlx.runtime.rebuild import rebuild_artifact
from tests.distributed.faults import FAULTS
from tests.distributed.programs import PROGRAMS

pytest.importorskip("mpi4py")
MPIRUN = Path(sys.executable).with_name("mpirun")
if not MPIRUN.exists():
    pytest.skip("there is no mpirun in the directory of this Python", allow_module_level=True)

ENDLESS = 600
"""Seconds after which a run hangs: a busy machine takes four times as long as a quiet one."""


def mpirun(
    ranks: int, *command: str, seconds: int = ENDLESS, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command on ranks that share this machine's cores."""
    words = [str(MPIRUN), "-n", str(ranks), *command]
    return subprocess.run(
        words, capture_output=True, text=True, timeout=seconds, check=False, cwd=folder
    )


def python(ranks: int, *words: str, seconds: int = ENDLESS) -> subprocess.CompletedProcess[str]:
    return mpirun(ranks, sys.executable, *words, seconds=seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "backend"), [(1, "llvm"), (2, "c"), (2, "reference"), (4, "llvm")]
)
def test_ranks_of_mpi_compute_what_threads_do(ranks: int, backend: str) -> None:
    """Every number of ranks and every backend: each rank compiles, by the C compiler for long."""
    done = python(ranks, "-m", "tests.distributed.programs", backend)
    assert done.returncode == 0, done.stderr
    assert {line.split(":")[0] for line in done.stdout.splitlines()} == set(PROGRAMS)


@pytest.mark.slow
def test_results_are_equal_to_the_bit_from_run_to_run() -> None:
    words = ("-m", "tests.distributed.programs", "auto", "gradients", "overlapped")
    first, second = (python(2, *words) for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout.count("results agree") == 2
    assert first.stdout == second.stdout


FAILING = """
import rlx, rlx.distributed
from rlx.distributed import Mesh, P, shard_map
import numpy as np
world = rlx.distributed.initialize()
if world.rank == 1:
    raise ValueError("no luck")
mesh = Mesh({"ranks": world.size})
shard_map(lambda x: rlx.lax.psum(x, "ranks"), mesh, P(), P())(np.ones(3, np.float32))
"""


@pytest.mark.slow
def test_a_rank_that_raises_ends_all_and_says_which() -> None:
    done = python(2, "-c", FAILING)
    assert done.returncode != 0
    assert "rank 1 of 2" in done.stderr
    assert "ValueError: no luck" in done.stderr


CHECKPOINT = """
import sys, rlx.distributed
from rlx.distributed import Mesh, P, load, save, shard_map
import numpy as np
world = rlx.distributed.initialize()
mesh = Mesh({"ranks": world.size})
add = shard_map(lambda w, x: (w + 1, x * 2), mesh, (P(), P("ranks")), (P(), P("ranks")))
like = {"w": np.zeros(3, np.float32), "x": np.arange(8, dtype=np.float32)}
state = load(sys.argv[1], like) if sys.argv[2] == "resume" else like
w, x = add(state["w"], state["x"])
save(sys.argv[1], {"w": w, "x": x})
"""


@pytest.mark.slow
def test_a_checkpoint_is_resumed_on_another_number_of_ranks(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    path = str(tmp_path / "state.safetensors")
    for ranks, what in ((2, "start"), (4, "resume")):
        done = python(ranks, "-c", CHECKPOINT, path, what)
        assert done.returncode == 0, done.stderr
    found = numpy.load_file(path)
    np.testing.assert_array_equal(found["tree_w"], np.full(3, 2, np.float32))
    np.testing.assert_array_equal(found["tree_x"], 4 * np.arange(8, dtype=np.float32))


OTHER_RANKS = """
import numpy as np, rlx
from mpi4py import MPI
from rlx.distributed import Mesh, P, shard_map, simulate
from rlx.errors import CommunicationError

def program():
    step = shard_map(lambda x: rlx.lax.all_gather(x, "ranks"), Mesh({"ranks": 2}), P("ranks"), P())
    return step.graph(np.ones(4, np.float32))

run = rlx.compile(simulate(program, 2)[0], backend="c")
try:
    run(np.int64(MPI.COMM_WORLD.py2f()), np.ones(2, np.float32))
except CommunicationError as error:
    assert f"(code {MPI.ERR_COMM})" in str(error), error
    print("refused")
"""


IN_PLACE = """
import numpy as np, rlx, rlx.distributed
from rlx.distributed import Mesh, P, shard_map
from rlx.runtime.result_memory import address_of
world = rlx.distributed.initialize()
mesh = Mesh({"ranks": world.size})
step = shard_map(lambda w, x: w + rlx.lax.psum(x, "ranks"), mesh, (P(), P()), P(), donate_argnums=0)
w, places = np.zeros(9, np.float32), []
for _ in range(4):
    w = step(w, np.ones(9, np.float32))
    places.append(address_of(w))
assert len(set(places[1:])) == 1, places
assert (w == 4 * world.size).all(), w
"""


@pytest.mark.slow
def test_what_a_step_returned_is_replaced_in_place_by_the_next() -> None:
    done = python(2, "-c", IN_PLACE)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_communicator_of_other_ranks_than_the_program_is_refused() -> None:
    done = python(3, "-c", OTHER_RANKS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("refused") == 3  # lines of several ranks may be interleaved


def summed_over_two() -> Graph:
    def program() -> Graph:
        step = shard_map(lambda x: rlx.lax.psum(x, "ranks"), Mesh({"ranks": 2}), P("ranks"), P())
        return step.graph(np.ones(4, np.float32))

    graph: Graph = simulate(program, 2)[0]
    return graph


def test_an_artifact_with_collectives_is_rebuilt(tmp_path: Path) -> None:
    artifact = rlx.aot(summed_over_two(), tmp_path, name="step", backend="c")
    assert rebuild_artifact(tmp_path) == (artifact.library, artifact.archive)


def test_a_missing_mpicc_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_MPICC", str(tmp_path / "mpicc"))
    with pytest.raises(ToolchainError, match=r"cannot run .*mpicc"):
        mpi_flags()


SECONDS = 60
"""A hang is one that lasts longer."""

STOPPED = {
    "raises": ("rank [13] of {}, process", "ValueError: no luck"),
    "sys_exit": ("I leave", "the program of this rank has ended", "ended after exchange 3"),
    "returns_early": ("rank [13] ended after exchange 3", "rank 0 runs compiled code, exchange 4"),
    "is_killed": ("EXIT CODE: 9",),
    "catches_a_wrong_argument": (
        "rank [13] of {}, process", "InputError: function is given 2 arguments",
        "rank 0 runs compiled code, exchange 5",
    ),
    "catches_an_error_of_a_run": ("rank [13] of {}, process", "SingularMatrixError"),
    "calls_another_program": ("programs are compared", "rank 0 runs compiled code"),
    "gathers_alone": (
        "on rank 0 programs are compared, on rank 1 an array is gathered", "rank 0 of {}, process",
    ),
}  # fmt: skip
WENT_ON = {
    "catches_an_error_where_nothing_is_exchanged": "went on",
    "other_programs_are_caught_by_all": "went on",
    "ends_later": "ended",
}


def test_every_fault_is_tested() -> None:
    assert {*STOPPED, *WENT_ON} == set(FAULTS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "ranks"),
    [*((fault, 2) for fault in STOPPED),
     *((fault, 4) for fault in ("raises", "returns_early", "catches_a_wrong_argument"))],
)  # fmt: skip
def test_what_one_rank_does_alone_stops_all(fault: str, ranks: int) -> None:
    done = python(ranks, "-m", "tests.distributed.faults", fault, seconds=SECONDS)
    assert done.returncode != 0
    for text in STOPPED[fault]:
        assert re.search(text.format(ranks), done.stdout + done.stderr)


@pytest.mark.slow
def test_a_killed_rank_ends_all_at_once() -> None:
    done = python(4, "-m", "tests.distributed.faults", "is_killed", seconds=SECONDS)
    assert time.time() - when_killed(done.stdout) < SECONDS / 2  # `python` waits twice as long


def when_killed(stdout: str) -> float:
    (found,) = re.findall(r"killed at (\S+)", stdout)
    return float(found)


@pytest.mark.slow
def test_a_killed_rank_is_named_by_the_process_that_waits_for_it() -> None:
    words = ("-m", "rlx.distributed", "-m", "tests.distributed.faults", "is_killed")
    done = python(4, *words, seconds=SECONDS)
    assert done.returncode != 0
    assert time.time() - when_killed(done.stdout) < SECONDS / 2
    (named,) = re.findall(r"^(.*) was ended by (.*)$", done.stderr, re.MULTILINE)
    assert re.fullmatch(r"rank 3, process \d+ on \S+,", named[0])
    assert named[1] == "SIGKILL"


@pytest.mark.parametrize(("program", "status"), [("print('ran')", 0), ("raise SystemExit(3)", 3)])
def test_a_rank_that_is_waited_for_ends_with_its_own_status(program: str, status: int) -> None:
    words = [sys.executable, "-m", "rlx.distributed", "-c", program]
    assert subprocess.run(words, timeout=SECONDS, check=False).returncode == status


@pytest.mark.slow
@pytest.mark.parametrize("fault", WENT_ON)
def test_errors_that_all_ranks_raise_stop_none(fault: str) -> None:
    done = python(2, "-m", "tests.distributed.faults", fault, seconds=SECONDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(WENT_ON[fault]) == 2, done.stdout + done.stderr
