"""`linalg.expm` against SciPy's, for matrices that need many squarings, and few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import rlx
import rlx.numpy as rnp
from rlx.numpy import linalg

Array = np.ndarray[Any, Any]

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
DEFINITE = np.array([[2.0, 1.0], [1.0, 3.0]])


def rotation(angle: float) -> Array:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


CASES = {
    "negative definite": (-1e6 * DEFINITE, 0 * DEFINITE),
    "beyond all squarings": (-1e30 * DEFINITE, 0 * DEFINITE),
    "rotation": (1e5 * TURN, rotation(1e5)),
    "large rotation": (2.0**40 * TURN, rotation(2.0**40)),
    "far from normal": (np.array([[1, 1e6], [0, -1]]),
                        np.array([[np.e, 1e6 * np.sinh(1)], [0, np.exp(-1)]])),
    "nilpotent": (np.array([[0, 1e20], [0, 0]]), np.array([[1, 1e20], [0, 1]])),
    "diagonal": (np.diag([-1e10, -2.0]), np.diag([0, np.exp(-2)])),
    "zero": (0 * TURN, np.eye(2)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values_are_exact_to_the_rounding_of_the_matrix(dtype: str) -> None:
    """The error of a result is that of a matrix changed in its last digits (its condition)."""
    run = rlx.jit(linalg.expm, backend="reference")
    for name, (a, expected) in CASES.items():
        found = np.asarray(run(a.astype(dtype)))
        assert found.dtype == dtype
        condition = np.linalg.norm(a) if "rotation" in name else 1.0
        error = np.linalg.norm(found - expected) / max(float(np.linalg.norm(expected)), 1e-300)
        assert error <= 8 * np.finfo(dtype).eps * max(condition, 1.0), name


def taylor(a: Array) -> Array:
    """Return the exponential in extended precision: a series for a 4096th, squared 12 times."""
    part = a.astype(np.clongdouble) / 4096
    term = total = np.broadcast_to(np.eye(a.shape[-1], dtype=part.dtype), a.shape)
    for order in range(1, 20):
        term = term @ part / order
        total = total + term
    for _ in range(12):
        total = total @ total
    return total


def test_results_have_the_error_of_scipys() -> None:
    draws = (
        np.random.default_rng(0).normal(size=(20, 5, 5)) * np.logspace(-2, 1.3, 20)[:, None, None]
    )
    for dtype in ("f4", "f8", "c8", "c16"):
        a = draws.astype(dtype) * (1 + 0.5j if dtype[0] == "c" else 1)
        eps = np.finfo(a.real.dtype).eps
        exact = taylor(a)
        error, own = (
            np.linalg.norm(x - exact, axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
            for x in (
                np.asarray(rlx.jit(linalg.expm, backend="reference")(a)),
                scipy.linalg.expm(a),
            )
        )
        condition = np.linalg.norm(a, axis=(1, 2)) + 1
        assert (error <= own + 8 * eps * condition).all(), dtype


def test_half_precision_is_computed_in_single() -> None:
    found = rlx.jit(linalg.expm, backend="reference")(np.eye(2, dtype="f2"))
    np.testing.assert_array_equal(found, np.float16(np.e) * np.eye(2))


def test_a_bound_of_squarings_gives_nan_above() -> None:
    for bound, is_nan in ((3, True), (16, False)):
        found = rlx.jit(lambda a, n=bound: linalg.expm(a, max_squarings=n))(1e3 * TURN)
        assert np.isnan(found).all() == is_nan


MATRICES = np.stack([
    CASES["negative definite"][0], 1e3 * TURN, 0 * TURN, DEFINITE, np.diag([-1e5, 1.0]),
    np.array([[0.3, -0.8], [0.0, 0.7]]),
])  # fmt: skip


@pytest.mark.parametrize("backend", ["reference", pytest.param("c", marks=pytest.mark.slow)])
def test_batches_and_gradients_match_frechet_derivatives(backend: str) -> None:
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])

    def loss(a: Any) -> Any:
        return rnp.sum(weights * linalg.expm(a))

    def all_of(a: Any) -> Any:
        return linalg.expm(a), rlx.vmap(linalg.expm)(a), rlx.vmap(rlx.grad(loss))(a)

    stack, mapped, slopes = rlx.jit(all_of, backend=backend)(MATRICES)
    np.testing.assert_array_equal(stack, mapped)
    steps = np.eye(4).reshape(4, 2, 2)
    for a, found, slope in zip(MATRICES, stack, slopes, strict=True):
        np.testing.assert_allclose(found, scipy.linalg.expm(a), rtol=1e-10, atol=1e-10)
        along = [scipy.linalg.expm_frechet(a, s, compute_expm=False) for s in steps]
        expected = np.sum(weights * np.array(along), (1, 2)).reshape(2, 2)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-9)


def test_second_derivatives_match_differences() -> None:
    a, weights, size = MATRICES[-1], np.array([[1.0, 2.0], [3.0, 4.0]]), 1e-5

    def loss(a: Any) -> Any:
        return rnp.sum(weights * linalg.expm(a))

    gradient = rlx.jit(rlx.grad(loss), backend="reference")
    steps = size * np.eye(4).reshape(4, 2, 2)
    expected = [(gradient(a + s) - gradient(a - s)) / (2 * size) for s in steps]
    hessian = rlx.jit(rlx.hessian(loss), backend="reference")(a)
    np.testing.assert_allclose(np.reshape(hessian, (4, 2, 2)), expected, rtol=1e-7, atol=1e-7)
