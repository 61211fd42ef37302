"""Polar decompositions compared with SciPy's, by singular values and by Halley's iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
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


def weighed_polar(a: Any, side: str, polar: Any = linalg.polar) -> Any:
    """The real part of some weighted sum of the entries of both factors."""
    parts = []
    for seed, factor in enumerate(polar(a, side)):
        weights = matrix(factor.shape, "complex128" if np.iscomplexobj(a) else "float64", seed + 9)
        parts.append(rnp.real(rnp.sum(rnp.asarray(weights) * factor)))
    return parts[0] + parts[1]


def equal_values(shape: tuple[int, ...], dtype: str) -> Any:
    """A matrix whose singular values are all 2."""
    return 2 * scipy.polar(matrix(shape, dtype, 3))[0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
@pytest.mark.parametrize("made", [matrix, equal_values])
def test_derivatives_are_right_where_singular_values_are_equal(
    made: Any, shape: tuple[int, int], dtype: str, side: str
) -> None:
    a, step, size = made(shape, dtype), matrix(shape, dtype, 5), 1e-5

    def along(t: Any) -> Any:
        return weighed_polar(rnp.asarray(a) + t * step, side)

    first = rlx.jit(rlx.grad(along))
    high, low = (np.real(sum_of(a + t * step, side)) for t in (size, -size))
    np.testing.assert_allclose(first(0.0), (high - low) / (2 * size), rtol=1e-7, atol=1e-8)
    _, pushed = rlx.jvp(along, (0.0,), (1.0,))
    np.testing.assert_allclose(pushed, first(0.0), rtol=1e-9)
    second = rlx.grad(rlx.grad(along))(0.0)
    expected = (first(size) - first(-size)) / (2 * size)
    np.testing.assert_allclose(second, expected, rtol=1e-6, atol=1e-7)


def sum_of(a: Any, side: str) -> Any:
    return weighed_polar(a, side, scipy.polar)


def test_gradient_of_the_unitary_factor_at_the_identity() -> None:
    slope = rlx.grad(lambda a: rnp.sum(linalg.polar(a)[0] * np.array([[0.0, 1], [2, 3]])))
    np.testing.assert_allclose(slope(np.eye(2)), [[0, -0.5], [0.5, 0]], atol=1e-12)


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


def test_what_has_no_polar_decomposition_is_reported() -> None:
    with pytest.raises(ShapeError, match="qdwh of shape"):
        lax.linalg.qdwh(np.ones((2, 3)))
    with pytest.raises(InputError, match="method is 'newton'"):
        linalg.polar(np.eye(2), method="newton")
