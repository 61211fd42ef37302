"""Polar decompositions beside SciPy's, by singular values and by Halley's iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import lax
from rlx.errors import InputError, ShapeError
from rlx.scipy import linalg

scipy = pytest.importorskip("scipy.linalg")

TOLERANCES = {"float32": 2e-5, "float64": 1e-12, "complex64": 2e-5, "complex128": 1e-12}


def matrix(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    drawn = random.normal(size=shape) + 1j * random.normal(size=shape)
    return (drawn if dtype.startswith("c") else drawn.real).astype(dtype)


@pytest.mark.parametrize("method", ["svd", "qdwh"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_polar_is_scipys(dtype: str, side: str, method: str) -> None:
    a = matrix((5, 3) if side == "right" else (3, 5), dtype)
    expected = scipy.polar(a, side)
    for found in (
        linalg.polar(a, side, method=method),
        rlx.jit(lambda a: linalg.polar(a, side, method=method))(a),
    ):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, atol=TOLERANCES[dtype])


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (5, 5), (9, 4), (40, 40)])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_halleys_iteration_converges_in_six_steps(dtype: str, shape: tuple[int, int]) -> None:
    a = matrix(shape, dtype)
    u, h, steps, converged = lax.linalg.qdwh(a)
    assert converged
    assert steps <= 6
    np.testing.assert_allclose(u @ h, a, atol=4 * TOLERANCES[dtype])
    np.testing.assert_allclose(np.conj(u).T @ u, np.eye(shape[1]), atol=TOLERANCES[dtype])
    np.testing.assert_array_equal(h, np.conj(h).T)


def test_small_singular_values_and_few_iterations() -> None:
    left, right = (np.linalg.qr(matrix((6, 6), "float64", seed))[0] for seed in (0, 1))
    a = left @ np.diag(10.0 ** -np.arange(0, 18, 3)) @ right
    u, h, _, converged = lax.linalg.qdwh(a)
    assert converged
    np.testing.assert_allclose(u.T @ u, np.eye(6), atol=1e-14)
    np.testing.assert_allclose(u @ h, a, atol=1e-14)
    _, _, steps, converged = lax.linalg.qdwh(a, max_iterations=2)
    assert steps == 2
    assert not converged


def test_a_matrix_in_the_corner_of_an_array() -> None:
    a = matrix((6, 4), "float64")
    padded = np.full((8, 6), np.nan)
    padded[:6, :4] = a
    u, h, _, converged = rlx.jit(lambda x: lax.linalg.qdwh(x, dynamic_shape=(6, 4)))(padded)
    assert converged
    np.testing.assert_allclose(u[:6, :4], scipy.polar(a)[0], atol=1e-12)
    assert not np.any(u[6:])
    assert not np.any(h[:, 4:])


def test_what_has_no_polar_decomposition_is_told() -> None:
    with pytest.raises(ShapeError, match="qdwh of shape"):
        lax.linalg.qdwh(np.ones((2, 3)))
    with pytest.raises(InputError, match="method is 'newton'"):
        linalg.polar(np.eye(2), method="newton")
