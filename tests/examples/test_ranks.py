"""Examples over ranks: the same results for any number of them, from Python and from C."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples import digits, heat
from examples.data_parallel import MODELS
from rlx.distributed import Mesh, P, shard_map, simulate
from rlx.runtime.mpi import find_mpicc
from tests.distributed.test_mpi import MPIRUN, mpirun, python

pytest.importorskip("mpi4py")


def descended(ranks: int) -> Any:
    def program() -> Any:
        rows = P("rows")
        step = shard_map(heat.descend, Mesh({"rows": ranks}), (rows, rows), (rows, P()))
        measured = heat.first_temperature(16)
        better, distance = step(0.5 * measured, measured)
        return better.gather(), distance

    return simulate(program, ranks)[0]


def test_heat_and_its_gradient_do_not_depend_on_the_number_of_ranks() -> None:
    for one, two in zip(descended(1), descended(2), strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)


def losses_of_one_process(model: digits.Model, epochs: int) -> list[float]:
    """Train on batches in order, as `train.c` does."""
    data = digits.load_data()
    step, state = digits.make_step(model, "auto")
    params, losses, size = model.params, [], digits.BATCH
    for _ in range(epochs):
        for first in range(0, len(data.train_x) - size + 1, size):
            rows = slice(first, first + size)
            params, state, loss = step(params, state, data.train_x[rows], data.train_y[rows])
        losses.append(float(loss))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ranks", "epochs"),
    [("mlp", 1, 12), ("mlp", 2, 12), ("mlp", 4, 2), ("attention", 2, 12)],
)
def test_digits_are_learned_in_c_on_any_number_of_ranks(
    tmp_path: Path, name: str, ranks: int, epochs: int
) -> None:
    """Four ranks on two cores wait for each other by spinning: two passes take them long enough."""
    words = ("-m", "examples.data_parallel", "--model", name, "--export", str(tmp_path / "c"))
    exported = python(ranks, *words)
    assert exported.returncode == 0, exported.stderr
    program = tmp_path / "c" / "train"
    sources = [str(tmp_path / "c" / name) for name in ("step.c", "train.c")]
    command = [find_mpicc(), "-O3", "-std=c11", "-Wall", "-Wextra", "-Werror", *sources]
    subprocess.run([*command, "-lm", "-o", str(program)], check=True, timeout=600)
    runs = [
        subprocess.run(
            [str(MPIRUN), "-n", str(ranks), str(program), str(epochs)],
            cwd=program.parent, capture_output=True, text=True, check=True, timeout=120,
        ).stdout
        for _ in range(2)
    ]  # fmt: skip
    assert runs[0] == runs[1]  # bit-equal at a fixed number of ranks
    losses = [float(line.split()[-1]) for line in runs[0].splitlines()]
    assert len(losses) == epochs
    alone = losses_of_one_process(MODELS[name](), len(losses))
    np.testing.assert_allclose(losses, alone, rtol=2e-3, atol=1e-5)


@pytest.mark.slow
def test_digits_are_learned_on_two_ranks() -> None:
    words = (sys.executable, "-m", "examples.data_parallel", "--epochs", "1")
    done = mpirun(2, *words)
    assert done.returncode == 0, done.stderr
    assert "2 ranks: loss 2.351014" in done.stdout
