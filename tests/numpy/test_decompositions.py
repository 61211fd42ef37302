"""Decompositions, exponentials and functions of matrices, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import rlx
import rlx.numpy as rnp
from rlx.numpy import linalg

RNG = np.random.default_rng(3)
A = RNG.standard_normal((2, 5, 3))
S = A.swapaxes(-1, -2) @ A
DEFICIENT = np.concatenate([A, A[..., :1] + A[..., 1:2]], -1)
B = RNG.standard_normal((5, 2))

SAME: dict[str, Callable[[Any], Any]] = {
    "qr": lambda n: n.qr(A),
    "qr complete": lambda n: n.qr(A, mode="complete"),
    "qr of wide": lambda n: n.qr(A.swapaxes(-1, -2)),
    "eigvalsh": lambda n: n.eigvalsh(S),
    "svdvals": lambda n: n.svdvals(A),
    "pinv": lambda n: n.pinv(A),
    "pinv deficient": lambda n: n.pinv(DEFICIENT),
    "pinv wide": lambda n: n.pinv(A.swapaxes(-1, -2)),
    "matrix_rank": lambda n: n.matrix_rank(DEFICIENT),
    "cond": lambda n: n.cond(A),
    "lstsq": lambda n: n.lstsq(A[0], B)[0],
    "spectral norm": lambda n: (n.norm(A, 2, (1, 2)), n.matrix_norm(A, ord="nuc")),
    "multi_dot": lambda n: n.multi_dot([A[0], S[0], A[1].T, B[:, 0]]),
    "tensorinv": lambda n: n.tensorinv(S.reshape(18)[:16].reshape(2, 2, 4)),
    "tensorsolve": lambda n: n.tensorsolve(S.reshape(18)[:16].reshape(2, 2, 4), B[:2]),
}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SAME)
def test_function_is_numpys(name: str) -> None:
    expected = SAME[name](np.linalg)
    same(SAME[name](linalg), expected)
    same(rlx.jit(lambda: SAME[name](linalg))(), expected)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [A, A.swapaxes(-1, -2), DEFICIENT, np.zeros((3, 2))])
def test_svd_is_orthogonal_and_multiplies_to_the_matrix(matrix: Any, full: bool) -> None:
    u, s, vh = rlx.jit(lambda a: linalg.svd(a, full))(matrix)
    count = s.shape[-1]
    same((u[..., :count] * s[..., None, :]) @ vh[..., :count, :], matrix)
    same(
        u.swapaxes(-1, -2) @ u,
        np.broadcast_to(np.eye(u.shape[-1]), (*u.shape[:-2], *u.shape[-1:] * 2)),
    )
    same(s, np.linalg.svd(matrix, compute_uv=False))


def test_eigenvectors_of_equal_eigenvalues_are_orthogonal() -> None:
    matrix = np.diag([2.0, 1, 2, 2]) + 0.0
    w, v = rlx.jit(linalg.eigh)(matrix)
    same(w, np.array([1.0, 2, 2, 2]))
    same(v.T @ v, np.eye(4))


def test_matrices_that_are_not_finite_are_nan_and_leave_the_others() -> None:
    spoiled = S.copy()
    spoiled[0, 1, 1] = np.inf
    w, v = rlx.jit(linalg.eigh)(spoiled)
    assert np.isnan(w[0]).all()
    assert np.isnan(v[0]).all()
    same(w[1], np.linalg.eigvalsh(S[1]))


def test_large_and_tiny_matrices_neither_overflow_nor_vanish() -> None:
    for scale in (1e200, 1e-200):
        same(rlx.jit(linalg.svdvals)(A * scale) / scale, np.linalg.svd(A, compute_uv=False))
        same(rlx.jit(linalg.eigvalsh)(S * scale) / scale, np.linalg.eigvalsh(S))


SMOOTH: dict[str, Callable[[Any], Any]] = {
    "qr": lambda a: linalg.qr(a)[1][0] + linalg.qr(a)[0][1],
    "eigh": lambda a: linalg.eigh(a.T @ a)[0] * linalg.eigh(a.T @ a)[1][0] ** 2,
    "svd": lambda a: linalg.svd(a, full_matrices=False)[0][0] ** 2 * linalg.svdvals(a),
    "pinv": linalg.pinv,
    "lstsq": lambda a: linalg.lstsq(a, B)[0],
    "expm": lambda a: linalg.expm(a.T @ a / 3),
    "cho_solve": lambda a: linalg.cho_solve(linalg.cho_factor(a.T @ a), a.T @ B),
    "nuclear norm": lambda a: linalg.norm(a, "nuc"),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives_of_one_matrix_and_of_many(name: str) -> None:
    def loss(a: Any) -> Any:
        return rnp.sum(rnp.sin(SMOOTH[name](a)))

    slopes = rlx.jit(rlx.vmap(rlx.grad(loss)))(A)
    step = RNG.standard_normal(A.shape) * 1e-6
    for a, da, slope in zip(A, step, slopes, strict=True):
        expected = (loss(a + da) - loss(a - da)) / 2
        np.testing.assert_allclose(np.sum(slope * da), expected, rtol=1e-5, atol=1e-11)


@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (2, 4, 2)])
@pytest.mark.parametrize("name", ["pinv", "lstsq"])
def test_derivatives_are_right_where_singular_values_are_equal(
    name: str, shape: tuple[int, ...]
) -> None:
    if name == "lstsq" and len(shape) > 2:
        shape = shape[1:]
    random = np.random.default_rng(6)
    drawn, step = random.normal(size=(2, *shape))
    left, _, right = np.linalg.svd(drawn, full_matrices=False)
    a, sides, size = 2 * left @ right, random.normal(size=(*shape[:-1], 2)), 1e-5

    def along(t: Any, n: Any = linalg) -> Any:
        moved = a + t * step
        found = n.pinv(moved) if name == "pinv" else n.lstsq(moved, sides)[0]
        return rnp.sum(rnp.sin(found))

    first = rlx.jit(rlx.grad(along))
    expected = (along(size, np.linalg) - along(-size, np.linalg)) / (2 * size)
    np.testing.assert_allclose(first(0.0), expected, rtol=1e-7, atol=1e-8)
    second = rlx.grad(rlx.grad(along))(0.0)
    expected = (first(size) - first(-size)) / (2 * size)
    np.testing.assert_allclose(second, expected, rtol=1e-6, atol=1e-7)


def test_functions_of_matrices_are_scipys() -> None:
    scipy = pytest.importorskip("scipy.linalg")
    square = RNG.standard_normal((4, 4))
    for scale in (0.1, 1.0, 30.0):
        expected = scipy.expm(square * scale)
        np.testing.assert_allclose(rlx.jit(linalg.expm)(square * scale), expected, rtol=1e-9)
    same(linalg.block_diag(A[0], B, np.ones(2)), scipy.block_diag(A[0], B, np.ones(2)))
    same(linalg.toeplitz(B[:, 0], np.arange(3.0)), scipy.toeplitz(B[:, 0], np.arange(3.0)))
    same(linalg.lu(square), scipy.lu(square))
    for trans in (0, 1):
        factors = scipy.lu_factor(square)
        same(linalg.lu_solve(factors, B[:4], trans), scipy.lu_solve(factors, B[:4], trans))
    same(linalg.hilbert(3), scipy.hilbert(3))


def test_the_exponential_of_a_matrix_without_rows_is_empty() -> None:
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        assert rlx.jit(linalg.expm)(np.zeros(shape)).shape == shape


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


@pytest.mark.slow
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
