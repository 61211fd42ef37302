"""Model files where programs are taken: ahead of time and on the command line."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
from rlx.cli.main import main  # noqa: E402
from rlx.errors import InputError  # noqa: E402
from tests.onnx.models import perceptron  # noqa: E402


@pytest.fixture
def path(tmp_path: Path) -> Path:
    onnx.save(perceptron(), tmp_path / "two_layers.onnx")
    return tmp_path / "two_layers.onnx"


def test_a_model_file_becomes_c_with_its_names(path: Path, tmp_path: Path) -> None:
    built = rlx.aot(path, tmp_path / "build", dims={"batch": 2}, weights="embed")
    header = built.header.read_text()
    assert "// x: f32[2, 4], 32 bytes" in header
    assert "// y: f32[2, 3], 24 bytes" in header
    assert "two_layers.onnx:0" in built.source.read_text()
    assert built.library is not None
    assert ctypes.CDLL(str(built.library)).small_run is not None


def test_only_known_kinds_of_files_are_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a kind of model file"):
        rlx.aot(tmp_path / "model.pb", tmp_path)


def test_the_command_runs_a_model(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = path.parent / "x.npy"
    np.save(x, np.ones((3, 4), np.float32))
    assert main(["run", str(path), "--input", f"x={x}", "--backend", "reference"]) == 0
    assert "output 0: float32[3, 3]" in capsys.readouterr().out


def test_the_command_shows_a_model_for_all_extents(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(path), "--shape", "x=f32[n<=8, 4]", "--stage", "graph"]) == 0
    shown = capsys.readouterr().out
    assert "f32[n, 8] = matmul" in shown
    assert "two_layers.onnx:0 in Gemm_hidden" in shown


def test_an_open_extent_is_asked_for(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(path), "--random", "0"]) == 1
    assert "--shape" in capsys.readouterr().err
