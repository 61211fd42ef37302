"""Commands and exports in directories with blanks, quotes, backslashes and other letters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.ir.serialize import save
from tests.aot.building import needs_compiler, run

DIRECTORY = "a b\\n é'$x\" #%{{" if os.name == "posix" else "a b é'$x #%{{"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / DIRECTORY
    directory.mkdir()
    graph = rlx.Graph("mlp")
    x, w = graph.input("x", (4, 8), "f32"), graph.param("w", (8, 3), "f32")
    graph.set_outputs([graph.softmax(graph.matmul(x, w), axis=-1)])
    save(graph, directory / "mödel x.rlx")
    np.save(directory / "in put.npy", np.ones((4, 8), np.float32))
    np.savez(directory / "par ams.npz", w=np.ones((8, 3), np.float32))
    return directory


def command(place: Path, *words: str) -> str:
    environment = {
        **os.environ, "PYTHONPATH": str(Path(rlx.__file__).parents[1]),
        "RLX_CACHE_DIR": str(place / "cache ü"), "TMPDIR": str(place),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "rlx", *words], cwd=place, env=environment, capture_output=True,
        text=True, check=False, timeout=300, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_compiler
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_commands_run_in_any_directory(place: Path, backend: str) -> None:
    model = "mödel x.rlx"
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    given = (model, "--params", "par ams.npz", "--backend", backend)
    command(place, "run", *given, "--input", "x=in put.npy", "--output", "y ü.npy")
    np.testing.assert_allclose(np.load(place / "y ü.npy"), 1 / 3, rtol=1e-6)
    command(place, "inspect", model, "--html", "re port.html")
    assert (place / "re port.html").stat().st_size > 1000
    command(place, "compile", *given, "-o", "out é")
    sources = ["mlp.c"] if backend == "c" else ["mlp_api.c", "libmlp.a"]
    run("cc", "-O1", "main.c", *sources, "-lm", "-o", "pro gram", cwd=place / "out é")
    assert run("./pro gram", "mlp.weights", cwd=place / "out é").startswith("y: 0.333333")


@pytest.mark.slow
def test_the_doctor_names_the_cache_as_it_is(place: Path) -> None:
    assert str(place / "cache ü") in command(place, "doctor")
