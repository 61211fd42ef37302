"""Optimal control: the linear regulator, a swing-up, derivatives, statuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg import solve_discrete_are

import rlx
import rlx.numpy as jnp
from rlx.errors import ShapeError
from rlx.optimize import Status, ilqr

A, B = np.array([[1.0, 0.1], [0.2, 0.9]]), np.array([[0.0], [0.3]])
Q, R = np.diag([1.0, 0.1]), np.array([[0.05]])


def linear(x: Any, u: Any) -> Any:
    return A @ x + B @ u


def quadratic(x: Any, u: Any) -> Any:
    return (x @ Q @ x + u @ R @ u) / 2


def test_a_linear_system_has_the_gain_of_the_regulator_in_one_iteration() -> None:
    value = solve_discrete_are(A, B, Q, R)
    gain = -np.linalg.solve(R + B.T @ value @ B, B.T @ value @ A)
    x = np.array([1.0, -0.5])
    found = rlx.jit(
        lambda x: ilqr(linear, quadratic, lambda x: x @ value @ x / 2, x, np.zeros((15, 1)))
    )(x)
    assert int(found.status) == Status.SOLVED
    assert int(found.iterations) == 2
    np.testing.assert_allclose(found.gains, np.broadcast_to(gain, (15, 1, 2)), atol=1e-9)
    np.testing.assert_allclose(found.cost, x @ value @ x / 2, rtol=1e-9)
    np.testing.assert_allclose(
        found.inputs[:, 0], np.asarray(found.states)[:-1] @ gain[0], atol=1e-9
    )


def test_the_start_follows_a_plan_by_its_gains() -> None:
    def unstable(x: Any, u: Any) -> Any:
        return 2 * x + u

    def cost(x: Any, u: Any) -> Any:
        return x @ x + u @ u

    steps, x = 30, np.array([0.1])
    states, gains = np.zeros((steps, 1)), np.full((steps, 1, 1), -1.5)

    @rlx.jit
    def started(x: Any, **plan: Any) -> Any:
        inputs = np.zeros((steps, 1))
        return ilqr(unstable, cost, lambda x: x @ x, x, inputs, max_iterations=0, **plan)

    np.testing.assert_allclose(started(x).states[-1], 0.1 * 2.0**steps)
    followed = started(x, states=states, gains=gains)
    np.testing.assert_allclose(followed.states[:, 0], 0.1 * 0.5 ** np.arange(steps + 1))
    np.testing.assert_allclose(followed.inputs, -1.5 * followed.states[:-1])
    with pytest.raises(ShapeError, match=r"plan of states of shape \(30, 1\) and gains of shape"):
        started(x, states=states)


def swing_up(angle: Any, effort: Any) -> Any:
    """Turn a hanging pendulum up, with little torque."""

    def dynamics(x: Any, u: Any) -> Any:
        speed = x[1] + 0.05 * (u[0] - 9.81 * jnp.sin(x[0]))
        return jnp.stack([x[0] + 0.05 * speed, speed])

    def distance(x: Any) -> Any:
        return 100 * (1 + jnp.cos(x[0])) + x[1] ** 2

    start = jnp.stack([angle, 0 * angle])
    return ilqr(
        dynamics, lambda x, u: effort * u[0] ** 2 + 0.01 * distance(x), distance, start,
        0.1 * jnp.ones((40, 1)), tolerance=1e-9, max_iterations=100,
    )  # fmt: skip


def test_a_pendulum_swings_up() -> None:
    found = rlx.jit(swing_up)(0.3, 0.02)
    assert int(found.status) == Status.SOLVED
    assert abs(float(found.states[-1, 0])) == pytest.approx(np.pi, abs=0.1)


@rlx.jit
def first_input(x: Any) -> Any:
    def planned(x: Any) -> Any:
        def dynamics(x: Any, u: Any) -> Any:
            return jnp.stack([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - 3 * jnp.sin(x[0]))])

        found = ilqr(
            dynamics, lambda x, u: x @ x + 0.1 * u @ u, lambda x: 5 * x @ x, x,
            np.zeros((8, 1)), tolerance=1e-10,
        )  # fmt: skip
        return found.inputs[0, 0]

    return planned(x), rlx.jacfwd(planned)(x), rlx.jacrev(planned)(x)


@pytest.mark.slow
def test_derivatives_are_those_of_finite_differences() -> None:
    x = np.array([0.6, 0.1])
    _, forward, reverse = first_input(x)
    steps = 1e-5 * np.eye(2)
    numeric = [(float(first_input(x + s)[0]) - float(first_input(x - s)[0])) / 2e-5 for s in steps]
    np.testing.assert_allclose(forward, numeric, atol=1e-6)
    np.testing.assert_allclose(reverse, numeric, atol=1e-6)


@pytest.mark.slow
def test_derivatives_along_unstable_dynamics_are_those_of_finite_differences() -> None:
    """Forty steps that grow by 1.5 each: a Hessian by inputs alone has no digit left."""

    def planned(x: Any) -> Any:
        found = ilqr(
            lambda x, u: 1.5 * x + 0.1 * jnp.sin(3 * x) + u, lambda x, u: x @ x + u @ u,
            lambda x: x @ x, x, jnp.zeros((40, 1)), tolerance=1e-10,
        )  # fmt: skip
        return jnp.stack([found.inputs[0, 0], found.states[-1, 0], found.cost]), found.status

    value, slope = rlx.jit(planned), rlx.jit(rlx.jacrev(lambda x: planned(x)[0]))
    x, step = np.array([0.7]), 1e-5
    ends = [value(x + step), value(x - step)]
    assert all(int(status) == Status.SOLVED for _, status in ends)
    numeric = (np.asarray(ends[0][0]) - np.asarray(ends[1][0])) / (2 * step)
    np.testing.assert_allclose(slope(x)[:, 0], numeric, atol=1e-6)


@pytest.mark.slow
def test_trajectories_come_in_batches() -> None:
    starts = np.array([[1.0, 0.0], [0.0, 2.0], [-3.0, 1.0]])

    def plan(x: Any) -> Any:
        return ilqr(linear, quadratic, lambda x: x @ x, x, np.zeros((5, 1))).inputs

    single = rlx.jit(plan)
    expected = np.stack([single(x) for x in starts])
    np.testing.assert_allclose(rlx.jit(rlx.vmap(plan))(starts), expected, atol=1e-12)


def test_a_cost_without_minimum_fails() -> None:
    @rlx.jit
    def status(x: Any) -> Any:
        return ilqr(
            linear, lambda _, u: -u[0] ** 2, lambda x: 0 * x[0], x, np.ones((3, 1)),
            max_iterations=200,
        ).status  # fmt: skip

    assert int(status(np.ones(2))) in (Status.FAILED, Status.MAX_ITERATIONS)
    assert int(status(np.full(2, np.nan))) == Status.FAILED


def test_shapes_are_named() -> None:
    with pytest.raises(ShapeError, match=r"inputs of shape \(5,\)"):
        ilqr(linear, quadratic, lambda x: x @ x, np.ones(2), np.zeros(5))
