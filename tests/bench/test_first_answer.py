"""The programs whose first answers are timed compute what they say, and a row holds their times."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from bench.first_answer import COLUMNS, is_run, measure
from bench.first_programs import PROGRAMS, elementwise, leaves, library, transformer_gradient
from bench.load import LOADED, busy_processes, describe_loaded, loaded_table
from bench.rounds import Row, Timing
from bench.worker import Made
from bench.workloads import WORKLOADS


@pytest.mark.slow
def test_a_first_call_takes_part_of_its_process(tmp_path: Path) -> None:
    call, process = measure("readme_step", "llvm", tmp_path)
    assert 0 < call < process


def test_every_program_runs_with_llvm_where_its_libraries_are() -> None:
    alone = {name for name, program in PROGRAMS.items() if not program.needs}
    assert alone <= {name for name in PROGRAMS if is_run(name, "llvm")}
    assert not is_run("resnet50", "jax")
    assert all(set(program.without) < set(COLUMNS) for program in PROGRAMS.values())


@pytest.mark.slow
def test_small_programs_give_what_their_formulas_give() -> None:
    lib = library("llvm")
    function, (params,) = leaves(lib, 3)
    assert [*function(params)] == ["k0", "k1", "k2"]
    np.testing.assert_array_equal(function(params)["k1"], params["k1"] * np.float32(0.9))
    function, (x, y) = elementwise(lib, 8)
    a, b = x, y
    for _ in range(2):
        a = np.sin(a) * b + np.float32(0.5)
        b = np.maximum(a, b)
    np.testing.assert_allclose(function(x, y), a + b, rtol=1e-5)


@pytest.mark.slow
def test_the_gradient_of_a_transformer_is_a_difference_quotient() -> None:
    function, (params, x) = transformer_gradient(library("llvm"), layers=1)
    value, gradient = function(params, x)

    def moved(step: float) -> Any:
        shifted = rlx.tree_map(lambda p, g: p + np.float32(step) * np.asarray(g), params, gradient)
        return function(shifted, x)[0]

    norm = sum(float(np.sum(np.square(g))) for p in gradient for g in p.values())
    quotient = (float(moved(1e-2)) - float(moved(-1e-2))) / 2e-2
    assert abs(quotient - norm) < 0.02 * norm, (value, quotient, norm)


KNOWN = {workload.name: workload for workload in WORKLOADS}


def row(ours: list[float], theirs: list[float]) -> Row:
    timings = {"rlx": Timing(Made([]), ours), "onnxruntime": Timing(Made([]), theirs)}
    return Row(KNOWN["matmul_256"], timings)


def test_ratios_are_of_medians_and_of_the_slowest_calls() -> None:
    made = row([1e-6] * 90 + [9e-3] * 10, [2e-6] * 100)
    assert "0.50 4500.00" in describe_loaded(made)
    assert "| 1 (9,000) | 2 (2) | 0.50 | 4500.00 |" in loaded_table([made])


def test_a_peer_that_did_not_run_has_no_times() -> None:
    assert "| 1 (1) | - |" in loaded_table([row([1e-6], [])])


def test_the_rows_are_workloads() -> None:
    assert set(LOADED) <= set(KNOWN)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc here")
def test_busy_processes_run_during_the_block_and_end_after_it() -> None:
    def children() -> set[str]:
        task = Path(f"/proc/self/task/{os.getpid()}/children")
        return set(task.read_text().split())

    before = children()
    with busy_processes(2):
        assert len(children() - before) == 2
    assert children() <= before
