"""Sparse factors in an order of minimum degree: SciPy's solutions, derivatives, batches, faults."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse.linalg import splu

import rlx
import rlx.numpy as jnp
from rlx.errors import ShapeError, SingularMatrixError, UnsupportedError
from rlx.sparse import SparseMatrix, elimination
from rlx.sparse.elimination import needs_factors
from rlx.sparse.ordering import minimum_degree, structure_of
from rlx.sparse.pattern import Pattern, from_entries
from tests.sparse.test_elimination import SYSTEMS, drawn, matrix_of

Array = Any
METHODS: dict[str, Callable[[SparseMatrix], Any]] = {
    "lu": SparseMatrix.lu,
    "ldl": SparseMatrix.ldl,
}


def grid(n: int) -> Pattern:
    """Return the pattern of the five-point stencil on `n * n` points."""
    at = np.arange(n * n).reshape(n, n)
    pairs = [(at[1:], at[:-1]), (at[:, 1:], at[:, :-1])]
    left, right = (np.concatenate([pair[side].ravel() for pair in pairs]) for side in (0, 1))
    rows = np.concatenate([left, right, at.ravel()])
    columns = np.concatenate([right, left, at.ravel()])
    return from_entries(rows, columns, (n * n, n * n))


def symmetric(dense: Array) -> Array:
    return dense + dense.T


def quasidefinite(n: int, k: int) -> Array:
    """Return conditions of optimality, regularized as those of an interior point method."""
    rng = np.random.default_rng(4)
    rows = np.where(rng.random((k, n)) < 0.2, rng.normal(size=(k, n)), 0)
    return np.block([[np.diag(rng.uniform(1e-6, 1, n)), rows.T], [rows, -1e-8 * np.eye(k)]])


CASES = {name: dense for name, (dense, _) in SYSTEMS.items() if name != "stages"} | {
    "network": drawn(np.random.default_rng(7).random((60, 60)) < 0.03),
    "quasidefinite": quasidefinite(20, 8),
}


@pytest.mark.parametrize("transform", ["eager", "c", "llvm", "reference"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", CASES)
def test_solutions_are_those_of_scipy(name: str, method: str, transform: str) -> None:
    dense = CASES[name] if method == "lu" or name == "quasidefinite" else symmetric(CASES[name])
    matrix = matrix_of(dense)

    def solve(matrix: SparseMatrix, b: Array) -> Array:
        return METHODS[method](matrix).solve(b)

    run = solve if transform == "eager" else rlx.jit(solve, backend=transform)
    right = np.random.default_rng(2).standard_normal((len(dense), 2))
    expected = splu(matrix.to_scipy().tocsc()).solve(right)
    np.testing.assert_allclose(run(matrix, right), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run(matrix, right[:, 0]), expected[:, 0], rtol=1e-9, atol=1e-12)


def test_the_order_keeps_factors_sparse() -> None:
    """An arrow that points at row 0 fills its factor whole in the natural order."""
    n = 50
    places = np.arange(n)
    rows = np.concatenate([places, places, 0 * places])
    columns = np.concatenate([places, 0 * places, places])
    arrow = matrix_of(drawn(from_entries(rows, columns, (n, n)).todense()))
    assert arrow.lu().nnz == n - 1
    sizes = structure_of(grid(40)).upper.nnz
    assert sizes < 0.5 * 40 * 40 * 40  # of a band


def test_every_vertex_is_eliminated_once_and_joined_to_later_ones() -> None:
    order, columns = minimum_degree(grid(7))
    place = np.argsort(order)
    assert sorted(order) == list(range(49))
    for own, joined in zip(order, columns, strict=True):
        assert all(place[other] > place[own] for other in joined)


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_are_finite_differences_to_second_order(method: str) -> None:
    dense = symmetric(CASES["grid"])
    matrix, n = matrix_of(dense), len(dense)
    rng = np.random.default_rng(3)
    change = symmetric(rng.uniform(-1, 1, (n, n)))[matrix.pattern.rows, matrix.indices]
    data, right, other = np.asarray(matrix.data), rng.normal(size=n), rng.normal(size=n)

    def along(t: Array) -> Array:
        moved = SparseMatrix(data + t * change, matrix.pattern)
        return other @ METHODS[method](moved).solve(right + t * other)

    step = 1e-3
    low, at, high = (float(along(t)) for t in (-step, 0.0, step))
    first, second = (high - low) / (2 * step), (high - 2 * at + low) / step**2
    assert abs(float(rlx.jvp(along, (0.0,), (1.0,))[1]) - first) < 1e-5
    slope = rlx.jit(rlx.grad(along))
    assert abs(float(slope(0.0)) - first) < 1e-5
    for curvature in (rlx.grad(rlx.grad(along))(0.0), rlx.jvp(slope, (0.0,), (1.0,))[1]):
        assert abs(float(curvature) - second) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_batches_of_values_and_of_right_sides_are_solved(method: str) -> None:
    dense = symmetric(CASES["band"])
    matrix = matrix_of(dense)
    right = np.random.default_rng(2).standard_normal((3, len(dense)))
    expected = np.linalg.solve(dense, right.T).T
    factors = METHODS[method](matrix)
    np.testing.assert_allclose(rlx.vmap(factors.solve)(right), expected, rtol=1e-9)
    scales = np.array([1.0, 2.0, 4.0])

    @rlx.jit
    @rlx.vmap
    def scaled(scale: Array, b: Array) -> Array:
        return METHODS[method](SparseMatrix(scale * matrix.data, matrix.pattern)).solve(b)

    np.testing.assert_allclose(scaled(scales, right), expected / scales[:, None], rtol=1e-9)


def test_factors_are_kept_through_a_loop() -> None:
    matrix = matrix_of(CASES["network"])

    @rlx.jit
    def inverse_power(matrix: SparseMatrix, x: Array) -> Array:
        factors = matrix.lu()
        return rlx.fori_loop(0, 3, lambda _, x: factors.solve(x), x)

    start = np.ones(matrix.shape[0])
    expected = np.linalg.matrix_power(np.linalg.inv(CASES["network"]), 3) @ start
    np.testing.assert_allclose(inverse_power(matrix, start), expected, rtol=1e-9)


def test_small_pivots_are_made_up_for_by_refinement() -> None:
    matrix = matrix_of(np.array([[1e-20, 1.0], [1.0, 1.0]]))
    np.testing.assert_allclose(matrix.lu().solve(np.array([1.0, 2.0])), [1, 1], rtol=1e-12)


def test_matrices_of_single_precision_stay_so() -> None:
    matrix = matrix_of(CASES["grid"].astype(np.float32))
    b = np.ones(matrix.shape[0], np.float32)
    x = np.asarray(rlx.jit(lambda matrix, b: matrix.lu().solve(b))(matrix, b))
    assert x.dtype == np.float32
    np.testing.assert_allclose(CASES["grid"] @ x, b, rtol=1e-5)


def test_systems_that_cannot_be_solved_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"factors of a sparse matrix of shape \(2, 3\)"):
        matrix_of(np.ones((2, 3))).lu()
    with pytest.raises(ShapeError, match=r"a right side of shape \(3,\)"):
        matrix_of(np.eye(2)).ldl().solve(np.ones(3))
    with pytest.raises(UnsupportedError, match="complex128"):
        matrix_of(np.eye(2) * 1j).lu()
    for transform in (lambda f: f, rlx.jit):
        with pytest.raises(SingularMatrixError):
            transform(lambda m: m.lu().solve(np.ones(2)))(matrix_of(np.ones((2, 2))))


def test_solve_exchanges_rows_where_blocks_are_not_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wide matrix whose diagonal is stored and 0 has no factors, and a solution."""
    rng = np.random.default_rng(0)
    rows, columns = np.nonzero(drawn(rng.random((150, 150)) < 0.05))
    pattern = from_entries(rows, columns, (150, 150))
    values = np.where(pattern.rows == pattern.indices, 0, rng.normal(size=pattern.nnz))
    b = rng.normal(size=150)
    matrix = SparseMatrix(values, pattern)
    with pytest.raises(SingularMatrixError):
        matrix.lu().solve(b)
    np.testing.assert_allclose(matrix @ matrix.solve(b), b, rtol=1e-8, atol=1e-8)
    needs_factors.cache_clear()
    monkeypatch.setattr(elimination, "_LARGEST", 100)
    assert needs_factors(pattern)
    absent = np.where(np.eye(150), 0, matrix.todense())
    assert not needs_factors(matrix_of(absent).pattern)  # rows must be exchanged
    network = CASES["network"]
    np.testing.assert_allclose(network @ matrix_of(network).solve(b[:60]), b[:60], rtol=1e-10)
    needs_factors.cache_clear()


def test_artifacts_solve_and_return_a_status(tmp_path: Path) -> None:
    matrix = matrix_of(CASES["grid"])
    values, b = np.array(matrix.data), np.arange(25.0)

    @rlx.jit
    def solve(data: Array, b: Array) -> Array:
        return SparseMatrix(data, matrix.pattern).lu().solve(b)

    artifact = rlx.aot(solve, tmp_path, name="grid", example_inputs=[values, b], target="native")
    library = ctypes.CDLL(str(artifact.library))
    block = np.zeros(artifact.arena_bytes + 64, np.uint8)
    arena = ctypes.c_void_p(block.ctypes.data + -block.ctypes.data % 64)
    assert library.grid_init(arena, ctypes.c_size_t(artifact.arena_bytes)) == 0
    assert library.grid_setup(arena) == 0
    x = np.zeros(25)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (values, b, x)]
    assert library.grid_call(arena, *pointers) == 0
    np.testing.assert_allclose(CASES["grid"] @ x, b, rtol=1e-10)
    values[:] = 0
    assert library.grid_call(arena, *pointers) != 0


def test_many_columns_are_laid_out_as_given() -> None:
    matrix = matrix_of(CASES["band"])
    inverse = rlx.jit(lambda b: matrix.lu().solve(b))(jnp.eye(matrix.shape[0]))
    np.testing.assert_allclose(inverse, np.linalg.inv(CASES["band"]), rtol=1e-9, atol=1e-14)
