"""Solutions of sparse systems are those of the dense ones, and so are their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as jnp
from rlx.errors import ShapeError, SingularMatrixError, UnsupportedError
from rlx.sparse import Pattern, SparseMatrix
from rlx.sparse.elimination import block_tridiagonal
from rlx.sparse.pattern import from_entries

Array = Any


def matrix_of(dense: Array) -> SparseMatrix:
    rows, columns = np.nonzero(dense)
    return SparseMatrix(dense[rows, columns], from_entries(rows, columns, dense.shape))


def drawn(mask: Array, seed: int = 0) -> Array:
    """Return a matrix of a pattern with a large diagonal."""
    values = np.random.default_rng(seed).uniform(-1, 1, mask.shape)
    return np.where(mask, values, 0) + np.diag(4.0 + np.arange(len(mask)) % 3)


def band(n: int, below: int, above: int) -> Array:
    return np.tril(np.triu(np.ones((n, n)), -below), above)


def stages(count: int) -> Array:
    """The conditions of optimality of a linear-quadratic problem, ordered by stages."""
    rng = np.random.default_rng(3)
    n = 5 * count
    matrix = np.zeros((n, n))
    for k in range(count):
        x, u, price = np.arange(5 * k, 5 * k + 2), 5 * k + 2, np.arange(5 * k + 3, 5 * k + 5)
        matrix[x, x], matrix[u, u] = 1, 0.5
        matrix[np.ix_(price, x)] = np.eye(2)
        if k:
            before = np.arange(5 * k - 5, 5 * k - 2)
            matrix[np.ix_(price, before)] = -rng.uniform(0, 1, (2, 3))
    return np.maximum(np.abs(matrix), np.abs(matrix.T)) * np.sign(matrix + matrix.T)


def shuffled(dense: Array) -> Array:
    order = np.random.default_rng(1).permutation(len(dense))
    return dense[np.ix_(order, order)]


GRID = np.kron(np.eye(5), band(5, 1, 1)) + np.kron(band(5, 1, 1), np.eye(5))
SYSTEMS: dict[str, tuple[Array, int]] = {
    "one": (np.array([[2.0]]), 1),
    "diagonal": (drawn(np.eye(9)), 1),
    "tridiagonal": (drawn(band(20, 1, 1)), 1),
    "band": (drawn(band(23, 1, 3)), 3),
    "shuffled_band": (shuffled(drawn(band(40, 1, 1))), 2),
    "grid": (drawn(GRID), 5),
    "stages": (stages(6), 7),
    "parts": (drawn(np.kron(np.eye(3), np.ones((4, 4)))), 3),
    "dense": (drawn(np.ones((8, 8))), 7),
    "random": (drawn(np.random.default_rng(5).random((30, 30)) < 0.05), 30),
}


@pytest.mark.parametrize("transform", [lambda f: f, rlx.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("name", SYSTEMS)
def test_solution_is_that_of_the_dense_system(name: str, transform: Callable[..., Any]) -> None:
    dense, width = SYSTEMS[name]
    matrix = matrix_of(dense)
    assert block_tridiagonal(matrix.pattern).size <= width
    right = np.random.default_rng(2).standard_normal((len(dense), 2))
    solve = transform(SparseMatrix.solve)
    np.testing.assert_allclose(solve(matrix, right), np.linalg.solve(dense, right), rtol=1e-10)
    np.testing.assert_allclose(dense @ solve(matrix, right[:, 0]), right[:, 0], rtol=1e-10)
    np.testing.assert_allclose(dense.T @ solve(matrix.T, right), right, rtol=1e-10)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_back_ends_agree_on_a_step_of_newtons_method(backend: str) -> None:
    def residual(x: Array) -> Array:
        around = jnp.pad(x, 1)
        return 3 * x - around[2:] - around[:-2] + jnp.exp(x) - 2

    def newton(x: Array) -> Array:
        value, jacobian = rlx.value_and_sparse_jacobian(residual)(x)
        return x - jacobian.solve(value)

    step, x = rlx.jit(newton, backend=backend), np.zeros(30)
    for _ in range(5):
        x = step(x)
    np.testing.assert_allclose(residual(x), np.zeros(30), atol=1e-14)


@pytest.mark.parametrize("name", ["band", "grid"])
def test_derivatives_are_those_of_the_dense_system(name: str) -> None:
    dense = SYSTEMS[name][0]
    matrix = matrix_of(dense)
    right = np.random.default_rng(2).standard_normal(len(dense))

    def by_entries(data: Array, b: Array) -> Array:
        return jnp.sum(SparseMatrix(data, matrix.pattern).solve(b) ** 2)

    def by_array(data: Array, b: Array) -> Array:
        a = jnp.zeros(dense.shape).at[matrix.pattern.rows, matrix.indices].set(data)
        return jnp.sum(jnp.linalg.solve(a, b) ** 2)

    given = np.asarray(matrix.data), right
    found, expected = (rlx.jit(rlx.grad(f, (0, 1)))(*given) for f in (by_entries, by_array))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    moved = [rlx.jvp(f, given, given)[1] for f in (by_entries, by_array)]
    np.testing.assert_allclose(moved[0], moved[1], atol=1e-12)


def test_batches_of_values_and_of_right_sides_are_solved() -> None:
    matrix = matrix_of(SYSTEMS["band"][0])
    right = np.random.default_rng(2).standard_normal((3, matrix.shape[0]))
    found = rlx.vmap(matrix.solve)(right)
    np.testing.assert_allclose(found, np.linalg.solve(matrix.todense(), right.T).T, rtol=1e-10)
    factors = np.array([1.0, 2.0, 4.0])
    scaled = rlx.vmap(lambda s, b: SparseMatrix(s * matrix.data, matrix.pattern).solve(b))
    np.testing.assert_allclose(scaled(factors, right), found / factors[:, None], rtol=1e-10)


@pytest.mark.parametrize("shape", [(0,), (0, 2), (3, 0)])
def test_systems_without_unknowns_or_right_sides_are_solved(shape: tuple[int, ...]) -> None:
    places = np.arange(shape[0])
    matrix = SparseMatrix(np.ones(shape[0]), from_entries(places, places, (shape[0],) * 2))
    assert matrix.solve(np.ones(shape)).shape == shape


def test_systems_that_have_no_solution_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"shape \(2, 3\) and a right side of shape \(2,\)"):
        matrix_of(np.ones((2, 3))).solve(np.ones(2))
    with pytest.raises(SingularMatrixError):
        rlx.jit(SparseMatrix.solve)(matrix_of(np.diag([1.0, 2.0]) @ np.ones((2, 2))), np.ones(2))


def test_an_elimination_that_is_too_large_says_how_large() -> None:
    n = 60_000
    partners = np.random.default_rng(0).integers(0, n, 4 * n)
    pattern = from_entries(np.arange(4 * n) % n, partners, (n, n))
    with pytest.raises(UnsupportedError, match="elimination of 60000 unknowns of bandwidth"):
        SparseMatrix(np.ones(pattern.nnz), pattern).solve(np.ones(n))


@pytest.mark.slow
def test_a_grid_of_1e4_unknowns_is_solved() -> None:
    n = 100
    grid = np.arange(n * n).reshape(n, n)
    pairs = [(grid[1:], grid[:-1]), (grid[:, 1:], grid[:, :-1])]
    left, right = (np.concatenate([pair[at].ravel() for pair in pairs]) for at in (0, 1))
    rows = np.concatenate([left, right, grid.ravel()])
    columns = np.concatenate([right, left, grid.ravel()])
    pattern: Pattern = from_entries(rows, columns, (n * n, n * n))
    data = np.where(pattern.rows == pattern.indices, 4.0, -1.0)
    matrix, b = SparseMatrix(data, pattern), np.ones(n * n)
    x = rlx.jit(SparseMatrix.solve)(matrix, b)
    np.testing.assert_allclose(matrix.to_scipy() @ np.asarray(x), b, rtol=1e-10)
