"""Runs that look for the first NaN or infinity."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.errors import NonFiniteError, UnsupportedError
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.runtime.compile import compile

BACKENDS = ["c", "llvm"]


def log_of_difference() -> Graph:
    g = Graph("difference")
    x = g.input("x", (4, 6))
    shifted = g.exp(x) - 2.0
    g.set_outputs([g.softmax(g.log(shifted) * 3.0, axis=-1)])
    return g


@pytest.mark.parametrize("backend", BACKENDS)
def test_finite_runs_give_what_plain_runs_give(backend: str) -> None:
    x = np.linspace(1, 2, 24, dtype=np.float32).reshape(4, 6)
    plain = compile(log_of_difference(), backend=backend, threads=1)
    checked = compile(log_of_difference(), backend=backend, nan_check=True)
    np.testing.assert_array_equal(checked(x=x)[0], plain(x=x)[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_op_inside_a_fused_kernel_is_blamed_with_its_numbers(backend: str) -> None:
    x = np.ones((4, 6), np.float32)
    x[2, 3] = 0.0
    checked = compile(log_of_difference(), backend=backend, nan_check=True)
    with pytest.raises(NonFiniteError, match=r"log: makes a NaN.*\(2, 3\).*log\(-1.0\)") as caught:
        checked(x=x)
    source = caught.value.source
    assert source is not None
    assert source.function == "log_of_difference"


def test_an_executable_runs_again_after_it_was_stopped() -> None:
    checked = compile(log_of_difference(), nan_check=True)
    with pytest.raises(NonFiniteError):
        checked(x=np.zeros((4, 6), np.float32))
    assert np.isfinite(checked(x=np.ones((4, 6), np.float32))[0]).all()


def test_overflow_is_called_an_infinity() -> None:
    g = Graph("overflow")
    g.set_outputs([g.exp(g.input("x", (3,)))])
    checked = compile(g, nan_check=True)
    with pytest.raises(NonFiniteError, match=r"exp: makes an infinity .*\(1,\)"):
        checked(x=np.array([1, 100, 2], np.float32))


def test_infinities_of_inputs_are_no_fault_of_a_kernel() -> None:
    g = Graph("masked")
    scores, mask = g.input("scores", (2, 3)), g.input("mask", (2, 3))
    g.set_outputs([scores + mask, g.softmax(scores + mask, axis=-1)])
    mask_value = np.array([[0, -np.inf, 0], [0, 0, 0]], np.float32)
    sums, weights = compile(g, nan_check=True)(scores=np.ones((2, 3), np.float32), mask=mask_value)
    assert np.isneginf(sums[0, 1])
    assert weights[0, 1] == 0


def test_what_setup_derives_from_params_is_checked() -> None:
    g = Graph("derived")
    w = g.param("w", (3,))
    g.set_outputs([g.input("x", (3,)) * g.log(g.cumsum(w, axis=0))])
    checked = compile(g, nan_check=True, params={"w": np.array([1, -3, 1], np.float32)})
    with pytest.raises(NonFiniteError, match="log: makes a NaN"):
        checked(x=np.ones(3, np.float32))


def test_extents_of_the_call_bound_what_is_looked_at() -> None:
    g = Graph("dynamic")
    x = g.input("x", (Dim("n", max=8), 2))
    g.set_outputs([g.log(g.reduce_sum(x, axes=(1,)))])
    checked = compile(g, nan_check=True)
    np.testing.assert_allclose(checked(x=np.ones((3, 2), np.float32))[0], np.log(2), rtol=1e-6)
    with pytest.raises(NonFiniteError, match=r"\(4,\)"):
        checked(x=np.array([[1, 1]] * 4 + [[-1, 0]], np.float32))


def test_clones_check_too() -> None:
    clone = compile(log_of_difference(), nan_check=True).clone()
    with pytest.raises(NonFiniteError):
        clone(x=np.zeros((4, 6), np.float32))


def test_the_reference_has_no_kernels_to_check() -> None:
    with pytest.raises(UnsupportedError, match="no kernels to check"):
        compile(log_of_difference(), backend="reference", nan_check=True)
