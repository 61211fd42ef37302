"""Eigenvalues and eigenvectors of general matrices, against NumPy's, and roots of polynomials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import RlxError, ShapeError
from rlx.numpy import linalg
from rlx.tracing.errors import ConcretizationError

RNG = np.random.default_rng(5)
COMPILED = rlx.jit(linalg.eig, backend="llvm")
_PRECISION = {"f4": 1e-6, "f8": 2e-15, "c8": 1e-6, "c16": 2e-15}

ODD: dict[str, Any] = {
    "zero": np.zeros((3, 3)),
    "identity": np.eye(3),
    "one pair": np.array([[0.0, 1], [-1, 0]]),
    "defective": np.array([[2.0, 1, 0], [0, 2, 1], [0, 0, 2]]),
    "nilpotent": np.diag(np.ones(5), 1),
    "nilpotent, below": np.diag(np.ones(5), -1),
    "cycle": np.roll(np.eye(6), 1, 0),
    "badly scaled": np.array([[1, 1e10, 1e20], [1e-10, 2, 1e10], [1e-20, 1e-10, 3]]),
    "graded": np.diag([1e-20, 1, 1e20]) + np.triu(np.ones((3, 3)), 1) * 1e-5,
    "large": np.array([[1e300, 2e300], [3e300, 4e300]]),
    "tiny": np.array([[1e-300, 2e-300], [3e-300, 4e-300]]),
}


def random(n: int, dtype: str) -> Any:
    found = RNG.standard_normal((2, n, n))
    if dtype.startswith("c"):
        found = found + 1j * RNG.standard_normal((2, n, n))
    return found.astype(dtype)


def assert_solves(a: Any, w: Any, v: Any, tolerance: float) -> None:
    """Vectors have norm 1 and are stretched by their values."""
    residual = np.abs(a @ v - v * w[..., None, :]).max(initial=0)
    assert residual <= tolerance * max(1, a.shape[-1]) * np.abs(a).max(initial=0)
    np.testing.assert_allclose(np.linalg.norm(v, axis=-2), 1, rtol=1e-5)


@pytest.mark.parametrize("dtype", _PRECISION)
def test_values_and_vectors_are_numpys(dtype: str) -> None:
    a = random(6, dtype)
    w, v = COMPILED(a)
    assert w.dtype == v.dtype == ("c16" if dtype in ("f8", "c16") else "c8")
    expected = np.sort(np.linalg.eigvals(a.astype("c16" if dtype[0] == "c" else "f8")))
    np.testing.assert_allclose(w, expected, atol=100 * _PRECISION[dtype])
    assert_solves(a, np.array(w), np.array(v), _PRECISION[dtype])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 11, 20])
def test_matrices_of_all_sizes_are_solved(n: int) -> None:
    a = random(n, "f8")
    w, v = COMPILED(a)
    assert_solves(a, np.array(w), np.array(v), _PRECISION["f8"])


@pytest.mark.parametrize("backend", ["c", "reference"])
def test_other_backends_agree(backend: str) -> None:
    a = random(5, "c16")
    w, v = rlx.jit(linalg.eig, backend=backend)(a)
    assert_solves(a, np.array(w), np.array(v), _PRECISION["c16"])
    np.testing.assert_allclose(w, COMPILED(a)[0], atol=1e-13)


@pytest.mark.parametrize("name", ODD)
def test_odd_matrices_are_solved(name: str) -> None:
    a = ODD[name]
    w, v = map(np.array, COMPILED(a))
    assert_solves(a, w, v, 1e-15)
    size = np.abs(a).max()
    np.testing.assert_allclose(w / (size or 1), np.sort(np.linalg.eigvals(a)) / (size or 1),
                               atol=1e-14)  # fmt: skip


def test_real_matrices_have_real_values_and_conjugate_pairs_exactly() -> None:
    a = RNG.standard_normal((9, 9))
    w, v = map(np.array, COMPILED(a))
    real = np.isreal(np.linalg.eigvals(a))
    assert 0 < real.sum() < 9
    assert (w.imag == 0).sum() == real.sum()
    assert (v[:, w.imag == 0].imag == 0).all()
    np.testing.assert_array_equal(np.sort(w), np.sort(w.conj()))


def test_matrices_that_are_not_finite_are_nan_and_leave_the_others() -> None:
    for poison in (np.nan, np.inf):
        a = random(6, "f8")
        a[1, 2, 0] = poison
        for run in (linalg.eig, COMPILED):
            w, v = map(np.array, run(a))
            assert np.isnan(w[1]).all()
            assert np.isnan(v[1]).all()
            assert_solves(a[0], w[0], v[0], 2e-15)


def test_matrices_must_be_square() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 3\).*must be equal"):
        linalg.eig(np.ones((2, 3)))


def objective(a: Any) -> Any:
    """A function of everything that `eig` gives."""
    w, v = linalg.eig(a)
    weights = np.arange(9.0).reshape(3, 3) - 3
    total = rnp.sum(rnp.abs(w) ** 3 + rnp.imag(w) ** 2)
    return total + rnp.sum(weights * rnp.real(v) ** 3 + rnp.imag(v) * weights.T)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_derivatives_forward_and_backward(kind: str) -> None:
    a, da = (random(3, "f8" if kind == "real" else "c16")[0] for _ in range(2))
    step = 1e-6
    expected = (objective(a + step * da) - objective(a - step * da)) / (2 * step)
    _, forward = rlx.jit(lambda a, da: rlx.jvp(objective, (a,), (da,)))(a, da)
    np.testing.assert_allclose(forward, expected, rtol=1e-6)
    if kind == "real":
        slope = np.array(rlx.jit(rlx.grad(objective))(a))
        np.testing.assert_allclose(np.sum(slope * da), expected, rtol=1e-6)


def test_derivative_of_values_is_the_diagonal_in_the_basis_of_the_vectors() -> None:
    a, da = random(5, "f8")
    w, v = linalg.eig(a)
    found, dw = rlx.jvp(linalg.eigvals, (a,), (da,))
    np.testing.assert_allclose(found, w)
    np.testing.assert_allclose(dw, np.diag(np.linalg.inv(v) @ da @ np.array(v)), rtol=1e-9)


def test_values_and_their_gradient_are_jaxs() -> None:
    jax = pytest.importorskip("jax")
    a = random(4, "f4")[0]

    def loss(numpy: Any) -> Any:
        return lambda a: numpy.sum(numpy.abs(numpy.linalg.eigvals(a)) ** 3)

    np.testing.assert_allclose(rlx.grad(loss(rnp))(a), jax.grad(loss(jax.numpy))(a), rtol=1e-3)


def test_examples_are_slices() -> None:
    a = random(4, "f8")
    mapped = rlx.jit(rlx.vmap(linalg.eigvals, in_axes=2))(np.moveaxis(a, 0, 2))
    np.testing.assert_array_equal(mapped, rlx.jit(linalg.eigvals)(a))


POLYNOMIALS = ([1, -3, 2], [0, 0, 1.0, 0, 1], [5.0], [1, 2, 3, 0, 0, 0], [0, 2j, 1], [7, 1],
               [0, 0, 0], [1, 0, 0, 0])  # fmt: skip


@pytest.mark.parametrize("p", POLYNOMIALS)
def test_roots_are_numpys(p: list[complex]) -> None:
    expected = np.sort(np.roots(p))
    np.testing.assert_allclose(np.sort(rnp.roots(p)), expected, atol=1e-14)
    padded = np.array(rlx.jit(lambda p: rnp.roots(p, strip_zeros=False))(np.array(p)))
    assert padded.shape == (len(p) - 1,)
    np.testing.assert_allclose(np.sort(padded[: len(expected)]), expected, atol=1e-14)
    assert np.isnan(padded[len(expected) :]).all()


def test_the_number_of_roots_is_not_known_while_tracing() -> None:
    with pytest.raises(ConcretizationError, match="strip_zeros=False") as caught:
        rlx.jit(rnp.roots)(np.ones(3))
    assert isinstance(caught.value, RlxError)
    with pytest.raises(ShapeError, match="2 axes"):
        rnp.roots(np.ones((2, 2)), strip_zeros=False)
