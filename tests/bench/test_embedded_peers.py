"""The C of peers that the bench of small programs runs computes what our programs mean."""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from bench.embedded.programs import PROGRAMS, training_step
from tests.aot.building import require, run


def peer_of(package: str) -> Any:
    """Return the module that writes a peer's C, without its types."""
    pytest.importorskip(package)
    return importlib.import_module(f"bench.embedded.peer_{package}")


def filled(*shape: int) -> np.ndarray:
    """Return what the bench fills every input with."""
    at = np.arange(np.prod(shape), dtype=np.int64)
    return (at % 7 / 7 + np.where(at % 4 == 0, 2, 0)).astype(np.float32).reshape(shape)


def library(source: Path) -> ctypes.CDLL:
    """Return a peer's program, run once; GCC lacks words that tinygrad uses."""
    out = source.with_suffix(".so")
    run(
        require("clang"),
        "-O2",
        "-w",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        source,
        "-lm",
        "-o",
        out,
    )
    loaded = ctypes.CDLL(str(out))
    loaded.fill_inputs()
    loaded.run_once()
    return loaded


def floats(program: ctypes.CDLL, name: str, shape: tuple[int, ...]) -> np.ndarray:
    place = (ctypes.c_float * int(np.prod(shape))).in_dll(program, name)
    return np.array(place, np.float32).reshape(shape)


def close(found: np.ndarray, expected: Any) -> None:
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, atol=2e-4 * float(np.abs(expected).max()))


@pytest.mark.parametrize("name", ["mlp", "attention"])
def test_results_of_tinygrads_c_are_ours(name: str, tmp_path: Path) -> None:
    peer = peer_of("tinygrad")
    function, inputs, _ = PROGRAMS[name]
    given = rlx.tree_map(lambda x: filled(*x.shape), inputs)
    expected = np.asarray(function(*given))
    program = library(peer.write(name, tmp_path))
    close(floats(program, "result_0", expected.shape), expected)


def test_a_training_step_of_tinygrads_c_is_ours(tmp_path: Path) -> None:
    """Every param is written, and reads what the step computed before it."""
    peer = peer_of("tinygrad")
    params, x, y = PROGRAMS["training_step"][1]
    params = {name: filled(*value.shape) for name, value in params.items()}
    stepped, loss = rlx.jit(training_step)(params, filled(*x.shape), filled(*y.shape))
    program = library(peer.write("training_step", tmp_path))
    close(floats(program, "result_0", ()), loss)
    for number, name in enumerate(params, start=1):
        close(floats(program, f"result_{number}", params[name].shape), stepped[name])


def test_results_of_casadis_c_are_ours(tmp_path: Path) -> None:
    """CasADi stores matrices by columns."""
    peer = peer_of("casadi")
    params, x, y = PROGRAMS["training_step"][1]
    params = {name: filled(*value.shape[::-1]).T for name, value in params.items()}
    stepped, loss = rlx.jit(training_step)(params, filled(*x.shape), filled(*y.shape))
    program = library(peer.write("training_step", tmp_path))
    for number, name in enumerate(params):
        found = floats(program, f"out{number}", params[name].shape[::-1]).T
        close(found, stepped[name])
    close(floats(program, f"out{len(params)}", ()), loss)


def test_solutions_of_casadis_c_are_ours(tmp_path: Path) -> None:
    peer = peer_of("casadi")
    matrices, right = filled(16, 3, 3).transpose(0, 2, 1), filled(16, 3, 1)
    expected = np.asarray(PROGRAMS["solve_3x3"][0](matrices, right))
    close(floats(library(peer.write("solve_3x3", tmp_path)), "out0", (16, 3, 1)), expected)
