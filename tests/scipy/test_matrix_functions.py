"""Schur's form by what defines it, and square roots of matrices compared with SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import linalg as scipy

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, RlxError, ShapeError
from rlx.scipy import linalg

RNG = np.random.default_rng(5)
REAL = RNG.standard_normal((7, 7))
BOTH = REAL + 1j * RNG.standard_normal((7, 7))
POSITIVE = REAL @ REAL.T + np.eye(7)
MATRICES: dict[str, Any] = {
    "real": REAL, "complex": BOTH, "symmetric": POSITIVE, "one": REAL[:1, :1],
    "without_a_basis": np.eye(5, k=1), "lower": np.tril(REAL), "zeros": np.zeros((3, 3)),
    "equal": np.ones((4, 4)), "rotation": np.array([[0.0, -1.0], [1.0, 0.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("run", ["at_once", "compiled"])
def test_schurs_form_is_a_triangle_in_a_unitary_basis(name: str, run: str) -> None:
    def form(a: Any) -> Any:
        return linalg.schur(a, output="complex")

    a = MATRICES[name]
    t, z = (form if run == "at_once" else rlx.jit(form))(a)
    np.testing.assert_array_equal(t, np.triu(t))
    np.testing.assert_allclose(z @ np.conj(z).T, np.eye(len(a)), atol=1e-13)
    np.testing.assert_allclose(z @ t @ np.conj(z).T, a, atol=1e-13)
    assert np.all(np.diff(np.diag(t).real) > -1e-13)
    found, expected = (np.sort_complex(np.round(np.diag(x), 6)) for x in (t, form(a)[0]))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_real_eigenvalues_make_a_real_form() -> None:
    t, z = rlx.jit(lambda a: linalg.schur(a, "complex"))(POSITIVE)
    np.testing.assert_array_equal(t.imag, 0)
    np.testing.assert_array_equal(z.imag, 0)


def test_forms_of_a_stack_are_those_of_its_matrices() -> None:
    stack = np.stack([BOTH, BOTH.T])
    for found in (linalg.schur(stack, "complex"), rlx.vmap(linalg.schur)(stack)):
        for one, other in zip(found[0], (linalg.schur(a)[0] for a in stack), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["real", "complex", "symmetric", "lower", "zeros", "rotation"])
def test_roots_are_scipys_and_their_squares_the_matrix(name: str) -> None:
    a = MATRICES[name]
    found = rlx.jit(linalg.sqrtm)(a)
    np.testing.assert_allclose(found @ found, a, atol=1e-12)
    np.testing.assert_allclose(found, scipy.sqrtm(a), atol=1e-11)
    np.testing.assert_allclose(linalg.sqrtm(a), found, atol=1e-11)
    single = linalg.sqrtm(np.float32(a)) if a.dtype == float else found
    np.testing.assert_allclose(single, found, atol=1e-4)


def test_what_has_no_root_is_nan() -> None:
    assert np.isnan(linalg.sqrtm(np.eye(2, k=1))).any()


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_roots_have_derivatives_in_both_modes(mode: str) -> None:
    way = RNG.standard_normal((7, 7))

    def total(a: Any) -> Any:
        return rnp.sum(rnp.real(linalg.sqrtm(a)) * np.arange(49.0).reshape(7, 7))

    slope = (total(POSITIVE + 1e-5 * way) - total(POSITIVE - 1e-5 * way)) / 2e-5
    if mode == "forward":
        found = rlx.jvp(total, (POSITIVE,), (way,))[1]
    else:
        found = np.sum(rlx.grad(total)(POSITIVE) * way)
    np.testing.assert_allclose(found, slope, rtol=1e-6)


def test_roots_are_mapped() -> None:
    found = rlx.vmap(linalg.sqrtm)(np.stack([POSITIVE, 4 * POSITIVE]))
    np.testing.assert_allclose(found[1], 2 * found[0], rtol=1e-9, atol=1e-12)


def test_what_is_not_there_is_reported() -> None:
    with pytest.raises(InputError, match="output is 'quick'"):
        linalg.schur(REAL, "quick")
    with pytest.raises(ShapeError, match=r"A has shape \(2, 7, 7\)"):
        linalg.sqrtm(np.stack([REAL, REAL]))
    with pytest.raises(RlxError, match="equal eigenvalues have many triangles"):
        rlx.grad(lambda a: rnp.sum(rnp.abs(linalg.schur(a, "complex")[0])))(REAL)
