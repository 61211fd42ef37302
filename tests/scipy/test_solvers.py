"""Krylov methods, `minimize` and `map_coordinates`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.errors import InputError, ShapeError, UnsupportedError
from rlx.scipy import ndimage, optimize
from rlx.scipy.sparse import linalg

RANDOM = np.random.default_rng(0)
A = RANDOM.normal(size=(10, 10))
B = RANDOM.normal(size=10)
POSITIVE = A @ A.T + np.eye(10)
GENERAL = A + 8 * np.eye(10)


@pytest.mark.parametrize(
    ("solve", "matrix"),
    [(linalg.cg, POSITIVE), (linalg.bicgstab, GENERAL), (linalg.gmres, GENERAL[:5, :5])],
)
def test_solutions_of_matrices_and_of_functions(solve: Callable[..., Any], matrix: Any) -> None:
    given = B[: len(matrix)]
    expected = np.linalg.solve(matrix, given)
    found, info = solve(matrix, given, tol=1e-10)
    assert info is None
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    compiled = rlx.jit(lambda b: solve(lambda v: matrix @ v, b, tol=1e-10)[0])(given)
    np.testing.assert_allclose(compiled, expected, rtol=1e-7)


def test_unknowns_may_be_a_tree_and_be_preconditioned() -> None:
    def apply(tree: Any) -> Any:
        whole = POSITIVE @ rnp.concatenate([tree["a"], tree["b"]])
        return {"a": whole[:4], "b": whole[4:]}

    given = {"a": B[:4], "b": B[4:]}
    found, _ = linalg.cg(apply, given, tol=1e-10, M=lambda t: rlx.tree_map(lambda x: x / 2, t))
    both = np.concatenate([found["a"], found["b"]])
    np.testing.assert_allclose(both, np.linalg.solve(POSITIVE, B), rtol=1e-7)


@pytest.mark.parametrize(
    ("solve", "matrix"),
    [(linalg.cg, POSITIVE), (linalg.bicgstab, GENERAL), (linalg.gmres, GENERAL)],
)
def test_solutions_have_gradients_by_their_equation(solve: Callable[..., Any], matrix: Any) -> None:
    """`M` and the start move nothing; the gradient by the matrix is that of any solver."""
    weights = np.arange(10.0)

    def loss(a: Any, b: Any, start: Any) -> Any:
        found, _ = solve(lambda v: a @ v, b, start, tol=1e-13, M=lambda v: v / start[1])
        return rnp.sum(found**2 * weights)

    def exact(a: Any, b: Any) -> Any:
        return rnp.sum(rnp.linalg.solve(a, b) ** 2 * weights)

    *found, still = rlx.jit(rlx.grad(loss, (0, 1, 2)))(matrix, B, np.ones(10))
    for one, other in zip(found, rlx.grad(exact, (0, 1))(matrix, B), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(still, 0.0)
    direction = RANDOM.normal(size=10)
    moved = rlx.jvp(lambda b: loss(matrix, b, np.ones(10)), (B,), (direction,))[1]
    np.testing.assert_allclose(moved, found[1] @ direction, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("restart", [3, 20])
def test_restarted_residuals_solve_complex_systems_for_several_right_sides(restart: int) -> None:
    matrix = GENERAL + 1j * RANDOM.normal(size=(10, 10))
    sides = RANDOM.normal(size=(3, 10)) + 1j
    each = rlx.vmap(lambda b: linalg.gmres(matrix, b, tol=1e-12, restart=restart)[0])
    np.testing.assert_allclose(each(sides), np.linalg.solve(matrix, sides.T).T, rtol=1e-9)


def rosenbrock(x: Any, scale: float = 100.0) -> Any:
    return rnp.sum(scale * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_minimize_finds_the_end_of_a_valley() -> None:
    start = np.array([-1.2, 1.0, 0.7])
    found = optimize.minimize(rosenbrock, start, method="BFGS")
    assert bool(found.success)
    assert int(found.status) == 0
    np.testing.assert_allclose(found.x, 1.0, atol=1e-5)
    short = optimize.minimize(rosenbrock, start, (10.0,), options={"maxiter": 2})
    assert int(short.nit) == 2
    assert not bool(short.success)
    with pytest.raises(UnsupportedError, match="Newton"):
        optimize.minimize(rosenbrock, start, method="Newton")


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
def test_coordinates_inside_and_outside(order: int, mode: str) -> None:
    theirs = pytest.importorskip("jax.scipy.ndimage")
    image = RANDOM.normal(size=(9, 8)).astype("f4")
    places = [RANDOM.uniform(-5, 13, 40).astype("f4") for _ in range(2)]
    expected = np.asarray(theirs.map_coordinates(image, places, order, mode, 0.5))
    found = rlx.jit(lambda x, *p: ndimage.map_coordinates(x, p, order, mode, 0.5))(image, *places)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_search_among_nan_has_no_success() -> None:
    found = optimize.minimize(lambda x: rnp.sum(rnp.sqrt(x)), -np.ones(3))
    assert (bool(found.success), int(found.status)) == (False, 3)
    none = optimize.minimize(lambda x: rnp.sum(x**2), np.ones(3), options={"maxiter": 0})
    assert (bool(none.success), int(none.status), int(none.nit)) == (False, 1, 0)


def test_wrong_arguments_of_a_search_are_reported() -> None:
    with pytest.raises(InputError, match="no option 'maxitre'"):
        optimize.minimize(rnp.sum, np.ones(3), options={"maxitre": 9})
    with pytest.raises(ShapeError, match="x0 has 0 axes"):
        optimize.minimize(lambda x: x * x, 1.0)


def test_halves_go_away_from_zero() -> None:
    image = np.array([[1.0, 2.0], [3.0, 4.0]])
    places = [np.array([0.5, -0.5, 0.0]), np.array([0.0, 0.0, 1.5])]
    np.testing.assert_array_equal(
        ndimage.map_coordinates(image, places, 0, cval=9.0), [3.0, 9.0, 9.0]
    )
    numbers = np.array([2, 3, -4, -5], np.int32)
    found = ndimage.map_coordinates(numbers, [np.array([0.5, 2.5])], 1)
    np.testing.assert_array_equal(found, [3, -5])


def test_coordinates_need_one_array_per_axis() -> None:
    with pytest.raises(ShapeError, match="1 arrays of coordinates for 2 axes"):
        ndimage.map_coordinates(A, [B], 1)
