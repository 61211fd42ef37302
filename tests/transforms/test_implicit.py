"""Solutions with derivatives by the equation that they solve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.errors import InputError, ShapeError
from rlx.scipy.sparse import linalg

RANDOM = np.random.default_rng(3)
A = RANDOM.normal(size=(4, 4)) + 4 * np.eye(4)
B = RANDOM.normal(size=4)
WEIGHTS = RANDOM.normal(size=4)


def steps(matvec: Any, b: Any) -> Any:
    """Solve by a loop that ends by itself, which reverse mode cannot go through."""

    def moves(x: Any) -> Any:
        return rnp.max(rnp.abs(b - matvec(x))) > 1e-13

    return rlx.while_loop(moves, lambda x: x + (b - matvec(x)) / 8, b)


def solution(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(lambda x: a @ x, b, steps, steps)


def loss(a: Any, b: Any) -> Any:
    return rnp.sum(solution(a, b) ** 2 * WEIGHTS)


def exact(a: Any, b: Any) -> Any:
    return rnp.sum(rnp.linalg.solve(a, b) ** 2 * WEIGHTS)


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_system_solved_in_steps_has_gradients_in_both_back_ends(backend: Any) -> None:
    found = rlx.jit(rlx.value_and_grad(loss, (0, 1)), backend=backend)(A, B)
    expected = rlx.value_and_grad(exact, (0, 1))(A, B)
    leaves = (rlx.tree_util.tree_leaves(each) for each in (found, expected))
    for one, other in zip(*leaves, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.slow
def test_forward_and_second_derivatives_are_those_of_the_solution() -> None:
    directions = (RANDOM.normal(size=(4, 4)), RANDOM.normal(size=4))
    found = rlx.jit(lambda *t: rlx.jvp(loss, (A, B), t))(*directions)
    np.testing.assert_allclose(found, rlx.jvp(exact, (A, B), directions), rtol=1e-9)
    second = rlx.jit(rlx.jacfwd(rlx.grad(loss)))(A, B)
    np.testing.assert_allclose(second, rlx.jacfwd(rlx.grad(exact))(A, B), rtol=1e-8, atol=1e-10)
    reverse = rlx.jit(rlx.grad(lambda b: rnp.sum(rlx.grad(loss, 1)(A, b) ** 2)))(B)
    expected = rlx.grad(lambda b: rnp.sum(rlx.grad(exact, 1)(A, b) ** 2))(B)
    np.testing.assert_allclose(reverse, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_systems_are_solved_side_by_side() -> None:
    rights = RANDOM.normal(size=(3, 4))
    found = rlx.jit(rlx.vmap(rlx.grad(loss, 1), in_axes=(None, 0)))(A, rights)
    expected = rlx.vmap(rlx.grad(exact, 1), in_axes=(None, 0))(A, rights)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


def test_a_symmetric_system_and_its_diagnostics() -> None:
    symmetric = A + A.T

    def solve(matvec: Any, b: Any) -> Any:
        return rnp.linalg.solve(symmetric, b), {"steps": 1}

    def first(b: Any) -> Any:
        found, aux = lax.custom_linear_solve(
            lambda x: symmetric @ x, b, solve, symmetric=True, has_aux=True
        )
        return found @ WEIGHTS, aux["steps"]

    slope, count = rlx.jit(rlx.grad(first, has_aux=True))(B)
    np.testing.assert_allclose(slope, np.linalg.solve(symmetric, WEIGHTS), rtol=1e-12)
    assert int(count) == 1


def test_a_complex_system_has_the_gradient_of_its_solution() -> None:
    """The cotangent of b solves the transposed system."""
    a, b = A + 0.3j * A[::-1], B + 1j * WEIGHTS

    def energy(a: Any, b: Any) -> Any:
        return rnp.sum(rnp.abs(solution(a, b)) ** 2 * WEIGHTS)

    by_a, by_b = rlx.jit(rlx.grad(energy, (0, 1)))(a, b)
    x = np.linalg.solve(a, b)
    expected = np.linalg.solve(a.T, 2 * WEIGHTS * x.conj())
    np.testing.assert_allclose(by_b, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(by_a, -np.outer(expected, x), rtol=1e-9, atol=1e-12)


def test_without_a_transposed_solver_reverse_mode_takes_the_steps_of_the_solver() -> None:
    def exactly(a: Any, b: Any) -> Any:
        found = lax.custom_linear_solve(lambda x: a * x, b, lambda f, b: b / f(rnp.ones_like(b)))
        return rnp.sum(found)

    np.testing.assert_allclose(rlx.grad(exactly, 1)(B, WEIGHTS), 1 / B)
    with pytest.raises(rlx.errors.RlxError, match="while"):
        rlx.grad(lambda b: rnp.sum(lax.custom_linear_solve(lambda x: A @ x, b, steps)))(B)


def newton(f: Any, x: Any) -> Any:
    def step(x: Any) -> Any:
        value, slope = rlx.jvp(f, (x,), (rnp.ones_like(x),))
        return x - value / slope

    return rlx.while_loop(lambda x: rnp.max(rnp.abs(f(x))) > 1e-13, step, x)


def cube_root(y: Any) -> Any:
    return lax.custom_root(
        lambda x: x**3 - y, rnp.ones_like(y), newton, lambda g, z: z / g(rnp.ones_like(z))
    )


@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_a_root_moves_with_what_its_function_captures(backend: Any) -> None:
    y = np.array(5.0)
    expected = [5.0 ** (1 / 3), 5.0 ** (-2 / 3) / 3, -2 * 5.0 ** (-5 / 3) / 9]
    slopes = [cube_root, rlx.grad(cube_root), rlx.grad(rlx.grad(cube_root))]
    for f, value in zip(slopes, expected, strict=True):
        np.testing.assert_allclose(rlx.jit(f, backend=backend)(y), value, rtol=1e-10)
    forward = rlx.jvp(cube_root, (y,), (np.array(2.0),))
    np.testing.assert_allclose(forward, (expected[0], 2 * expected[1]), rtol=1e-10)
    many = np.array([1.0, 8.0, 27.0])
    slopes_of_many = rlx.jit(rlx.vmap(rlx.grad(cube_root)), backend=backend)(many)
    np.testing.assert_allclose(slopes_of_many, many ** (-2 / 3) / 3, rtol=1e-10)


@pytest.mark.slow
def test_a_root_of_several_numbers_moves_by_a_solver_in_steps() -> None:
    """The tangent's equation is solved by conjugate gradients, which reverse mode transposes."""
    symmetric = A + A.T + 8 * np.eye(4)

    def root(y: Any) -> Any:
        def residual(x: Any) -> Any:
            return symmetric @ x + x**3 / 9 - y

        def solve(f: Any, x: Any) -> Any:
            return rlx.fori_loop(0, 60, lambda _, x: x - f(x) / 18, x)

        found = lax.custom_root(residual, y, solve, lambda g, z: linalg.cg(g, z, tol=1e-13)[0])
        return found @ WEIGHTS

    x = y = np.asarray(B)
    for _ in range(60):
        x = x - (symmetric @ x + x**3 / 9 - y) / 18
    expected = np.linalg.solve(symmetric + np.diag(x**2 / 3), WEIGHTS)
    np.testing.assert_allclose(rlx.jit(rlx.grad(root))(y), expected, rtol=1e-8, atol=1e-10)
    moved = rlx.jvp(root, (y,), (WEIGHTS,))[1]
    np.testing.assert_allclose(moved, expected @ WEIGHTS, rtol=1e-8)


def test_a_call_outside_of_traces_traces_no_rules() -> None:
    calls = []

    def counted(f: Any, b: Any) -> Any:
        calls.append(b)
        return steps(f, b)

    lax.custom_linear_solve(lambda x: A @ x, B, counted, counted)
    assert len(calls) == 1


def test_a_root_has_diagnostics_and_none_of_its_start() -> None:
    def root(y: Any, start: Any) -> Any:
        found, aux = lax.custom_root(
            lambda x: x * x - y, start, lambda f, x: (newton(f, x), f(x)),
            lambda g, z: z / g(rnp.ones_like(z)), has_aux=True,
        )  # fmt: skip
        return found, aux

    (value, aux), slopes = rlx.jit(
        lambda y, s: (root(y, s), rlx.grad(lambda *a: root(*a)[0], (0, 1))(y, s))
    )(4.0, 3.0)
    np.testing.assert_allclose((value, aux), (2.0, 5.0))
    np.testing.assert_allclose(slopes, (0.25, 0.0))


def test_what_solves_no_equation_is_refused() -> None:
    with pytest.raises(ShapeError, match="both must be of one floating type"):
        lax.custom_linear_solve(lambda x: x[:2], B, steps)
    with pytest.raises(InputError, match="returns"):
        lax.custom_linear_solve(lambda x: (x, x), B, steps)
    with pytest.raises(ShapeError, match="the solution of"):
        lax.custom_linear_solve(lambda x: A @ x, B, lambda f, b: b[:2])
    with pytest.raises(InputError, match=r"returns \(solution, aux\)"):
        lax.custom_linear_solve(lambda x: A @ x, B, steps, has_aux=True)
    with pytest.raises(ShapeError, match="floating type"):
        lax.custom_root(lambda x: x, 3, newton, lambda g, y: y)


def test_derivatives_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax")

    def of(lib: Any, np_: Any) -> Any:
        def solve(matvec: Any, b: Any) -> Any:
            return np_.linalg.solve(lib.vmap(matvec, out_axes=1)(np_.eye(4, dtype="f4")), b)

        def root(a: Any, b: Any) -> Any:
            start = lib.lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)
            bent = lib.lax.custom_root(
                lambda x: np_.tanh(x) + x - start, start,
                lambda f, x: lib.lax.fori_loop(0, 30, lambda _, x: x - f(x) / 2, x),
                lambda g, y: solve(g, y),
            )  # fmt: skip
            return np_.sum(bent**3)

        return root

    given = A.astype("f4"), B.astype("f4")
    expected = jax.grad(of(jax, jax.numpy), (0, 1))(*given)
    found = rlx.jit(rlx.grad(of(rlx, rnp), (0, 1)))(*given)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
