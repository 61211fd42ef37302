"""LU factors and polar decompositions, compared with SciPy's."""

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

SHAPES = ((4, 4), (3, 4, 4), (2, 3, 4, 4), (3, 5), (5, 3), (2, 5, 3), (1, 1), (1, 4), (4, 1))


def matrices(shape: tuple[int, ...]) -> Any:
    a = np.random.default_rng(0).normal(size=shape)
    if len(shape) > 2:
        a[0] = 0  # a singular one among others
    return a


@pytest.mark.whole
@pytest.mark.parametrize("backend", ["llvm", "c", "none"])
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_are_scipys(shape: tuple[int, ...], backend: str) -> None:
    a = matrices(shape)
    for joined in (False, True):
        factor = linalg.lu
        if backend != "none":
            factor = rlx.jit(factor, static_argnums=1, backend=backend)
        for found, expected in zip(factor(a, joined), scipy.lu(a, joined), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_exchanges_amount_to_the_permutation(shape: tuple[int, ...]) -> None:
    a = matrices(shape)
    factors, pivots, permutation = lax.linalg.lu(a)
    assert permutation.dtype == np.int32
    found = lax.linalg.lu_pivots_to_permutation(pivots, shape[-2])
    np.testing.assert_array_equal(found, permutation)
    if len(shape) == 2:
        own, exchanged = scipy.lu_factor(a)
        np.testing.assert_allclose(factors, own, atol=1e-12)
        np.testing.assert_array_equal(pivots, exchanged)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2), (5, 3), (2, 5, 3), (2, 3, 5)])
def test_factors_of_rectangles_have_the_derivatives_of_scipys(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(2)
    a, weights, step = random.normal(size=(3, *shape))
    size = 1e-6

    def weighed(a: Any) -> float:
        lower, upper = scipy.lu(a)[1:]
        count = upper.shape[-2]
        padded = np.zeros_like(a)
        padded[..., :count] += np.tril(lower, -1)
        padded[..., :count, :] += upper
        return float(np.sum(padded * weights))

    expected = np.zeros_like(a)
    for place in np.ndindex(*shape):
        moved = np.zeros_like(a)
        moved[place] = size
        expected[place] = (weighed(a + moved) - weighed(a - moved)) / (2 * size)

    def loss(a: Any) -> Any:
        return rnp.sum(linalg.lu_factor(a)[0] * weights)

    np.testing.assert_allclose(rlx.grad(loss)(a), expected, rtol=1e-6, atol=1e-6)
    _, slope = rlx.jvp(loss, (a,), (step,))
    np.testing.assert_allclose(slope, np.sum(expected * step), rtol=1e-6, atol=1e-6)
    if len(shape) == 2:
        _, slope = rlx.jit(rlx.vmap(lambda a: rlx.jvp(loss, (a,), (step,))))(np.stack([a, a]))
        np.testing.assert_allclose(slope, 2 * [np.sum(expected * step)], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("trans", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_systems_are_solved(batch: tuple[int, ...], dtype: str, trans: int) -> None:
    random = np.random.default_rng(1)
    a, b = (random.normal(size=(*batch, 5, n)) + 1j * random.normal(size=(*batch, 5, n))
            for n in (5, 2))  # fmt: skip
    a, b = (x.astype(dtype) if dtype == "complex128" else x.real for x in (a, b))
    turned = (a, np.swapaxes(a, -1, -2), np.conj(np.swapaxes(a, -1, -2)))[trans]
    factored = linalg.lu_factor(a)
    found = rlx.jit(lambda b: linalg.lu_solve(factored, b, trans))(b)
    np.testing.assert_allclose(found, np.linalg.solve(turned, b), atol=1e-11)
    found = linalg.lu_solve(factored, b[..., 0], trans)
    np.testing.assert_allclose(found, np.linalg.solve(turned, b)[..., 0], atol=1e-11)


def test_the_program_of_a_solution_does_not_grow_with_the_matrix() -> None:
    def solve(a: Any, b: Any) -> Any:
        return linalg.lu_solve(linalg.lu_factor(a), b)

    sizes = [
        len(rlx.make_graph(solve)(np.eye(n), np.ones(n)).nodes) for n in (8, 64, 512)
    ]  # a node or more for each row, once
    assert sizes[0] == sizes[1] == sizes[2]


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
