"""State that stays in the executable, and extents that change at every call."""

from __future__ import annotations

import numpy as np
import pytest

import rlx.runtime.compile as runtime
from rlx.errors import InputError
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.runtime.executable import Executable


def counter(size: int | Dim) -> Executable:
    """Return a program that adds the sum of x to its state and returns how large x was."""
    g = Graph("counter")
    x, total = g.input("x", (size,)), g.param("total", (3,))
    replaced = total + g.reduce_sum(x, axes=(0,))
    g.set_outputs([replaced, x * 2.0], donated={total: replaced})
    program = runtime.compile(g, params={"total": np.zeros(3, "f4")}, threads=1)
    assert isinstance(program, Executable)
    return program


@pytest.mark.parametrize("size", [4, Dim("n", max=4)])
def test_advance_returns_what_replaces_no_param(size: int | Dim) -> None:
    program = counter(size)
    for times in (1, 2):
        (doubled,) = program.advance({"x": np.ones(4, "f4")})
        assert doubled.tolist() == [2.0] * 4
        assert program.params["total"].tolist() == [4.0 * times] * 3


def test_state_is_read_and_written_in_place() -> None:
    program = counter(Dim("n", max=4))
    program.advance({"x": np.ones(4, "f4")})
    assert program.state("total").tolist() == [4.0] * 3
    program.state("total")[:] = 10.0
    program.advance({"x": np.ones(2, "f4")})
    assert program.state("total").tolist() == [12.0] * 3


def test_only_donated_params_are_state() -> None:
    with pytest.raises(InputError, match="no run replaces a param 'x'"):
        counter(4).state("x")


def test_large_state_of_static_extents_stays_too() -> None:
    g = Graph("large")
    x, total = g.input("x", (300, 300)), g.param("total", (300, 300))
    replaced = total + x
    g.set_outputs([g.reduce_sum(replaced, axes=(0, 1)), replaced], donated={total: replaced})
    program = runtime.compile(g, params={"total": np.zeros((300, 300), "f4")}, threads=1)
    assert isinstance(program, Executable)
    ones = {"x": np.ones((300, 300), "f4")}
    assert program.advance(ones)[0] == 90000.0
    program.state("total")[:] = 1.0
    assert program.advance(ones)[0] == 180000.0
    assert (program.state("total") == 2.0).all()
