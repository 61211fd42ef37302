"""Model files where programs are taken: ahead of time and on the command line."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

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
    assert ctypes.CDLL(str(built.library)).two_layers_run is not None


def test_only_known_kinds_of_files_are_taken(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a kind of model file"):
        rlx.aot(tmp_path / "model.pb", tmp_path)


def test_the_command_runs_a_model(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = path.parent / "x.npy"
    np.save(x, np.ones((3, 4), np.float32))
    assert main(["run", str(path), "--input", f"x={x}", "--backend", "reference"]) == 0
    assert "output y: float32[3, 3]" in capsys.readouterr().out


def test_the_command_shows_a_model_for_all_extents(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(path), "--shape", "x=f32[n<=8, 4]", "--stage", "graph"]) == 0
    shown = capsys.readouterr().out
    assert "f32[n, 8] = matmul" in shown
    assert "two_layers.onnx:0 in Gemm_hidden" in shown


def test_the_command_compiles_a_model(path: Path, tmp_path: Path) -> None:
    build = tmp_path / "build"
    assert (
        main(["compile", str(path), "--shape", "x=f32[2, 4]", "-o", str(build), "--emit-only"]) == 0
    )
    assert "float *y" in (build / "two_layers.h").read_text()


@pytest.mark.parametrize(
    ("target", "shown"), [("cortex-m4", "float total = 0.0f;"), ("x86-64-v3", "float sums[8];")]
)
def test_the_command_shows_what_a_model_is_for_a_target(
    path: Path, capsys: pytest.CaptureFixture[str], target: str, shown: str
) -> None:
    shape = ["--shape", "x=f32[2, 4]", "--stage", "c"]
    assert main(["inspect", str(path), *shape, "--target", target]) == 0
    assert shown in capsys.readouterr().out


def test_the_command_times_the_kernels_of_a_model(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(path), "--shape", "x=f32[2, 4]", "--repeats", "2"]) == 0
    table = capsys.readouterr().out
    assert "two_layers, " in table
    assert "matmul_relu_2x8" in table
    assert "whole run" in table


def test_an_open_extent_is_asked_for(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(path), "--random", "0"]) == 1
    assert "--shape" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ({"bacth": 2}, "dims= has 'bacth', which no input has"),
        ({"batch": -1}, "dims= has the extent -1 for 'batch'"),
        ({"batch": 2.5}, "dims= has the extent 2.5 for 'batch'"),
        ({"x": (2, 5)}, r"dims= has the shape \(2, 5\) for input 'x', which .* \(batch, 4\)"),
        ({"x": (2,)}, r"dims= has the shape \(2,\) for input 'x'"),
    ],
)
def test_extents_that_no_input_has_are_errors_at_once(
    path: Path, dims: dict[str, Any], said: str
) -> None:
    for read in (rlx.onnx.load, rlx.onnx.InferenceSession):
        with pytest.raises(InputError, match=said):
            read(path, dims=dims)


def test_an_artifact_has_the_name_of_its_file(tmp_path: Path) -> None:
    for file, name in (("a-b.v1.onnx", "a_b_v1"), ("18.onnx", "model_18")):
        onnx.save(perceptron(), tmp_path / file)
        assert rlx.onnx.load(tmp_path / file, dims={"batch": 1}).name == name
