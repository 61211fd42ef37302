"""The programs whose first answers are timed compute what they say, and a row holds their times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from bench.first_answer import COLUMNS, is_run, measure
from bench.first_programs import PROGRAMS, elementwise, leaves, library, transformer_gradient


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
