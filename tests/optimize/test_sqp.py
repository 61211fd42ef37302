"""Nonlinear programs: SciPy's minima, derivatives, statuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.optimize import NonlinearConstraint, minimize

import rlx
import rlx.numpy as jnp
from rlx.errors import ShapeError
from rlx.optimize import Status, sqp

Function = Callable[[Any], Any]


def rosenbrock(x: Any) -> Any:
    return ((1 - x[:-1]) ** 2).sum() + 100 * ((x[1:] - x[:-1] ** 2) ** 2).sum()


def saddle(x: Any) -> Any:
    """An objective that only the constraints bound."""
    return x[0] * x[1] + 0.1 * x[2]


CASES: dict[str, tuple[Function, list[float], dict[str, Any]]] = {
    "without constraints": (rosenbrock, [-1.2, 1.0], {}),
    "within a disk": (rosenbrock, [0.0, 0.0], {"inequalities": lambda x: x @ x, "upper": 1.0}),
    "bounds": (rosenbrock, [0.0, 0.0, 0.0], {"lower": [-1, -1, 0.5], "upper": 0.8}),
    "on a circle": (rosenbrock, [0.5, 0.5], {"equations": lambda x: x @ x - 2}),
    "indefinite": (
        saddle, [1.0, -0.5, 0.0],
        {"equations": lambda x: x @ x - 3, "lower": -1.2, "upper": 2.0},
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("name", CASES)
def test_minima_are_those_of_scipy(name: str) -> None:
    cost, start, constraints = CASES[name]
    found = rlx.jit(lambda x: sqp(cost, x, **constraints))(np.array(start))
    assert int(found.status) == Status.SOLVED
    function = constraints.get("inequalities", lambda x: x)
    low, high = constraints.get("lower", -np.inf), constraints.get("upper", np.inf)
    given = [NonlinearConstraint(function, low, high)] if len(constraints) > 1 else []
    if "equations" in constraints:
        given.append(NonlinearConstraint(constraints["equations"], 0, 0))
    peer = minimize(cost, start, method="SLSQP", constraints=given, options={"ftol": 1e-14})
    assert peer.success
    np.testing.assert_allclose(found.x, peer.x, atol=1e-5)
    assert float(found.cost) < peer.fun + 1e-7


def two_disks(x: Any) -> Any:
    return jnp.stack([x @ x, (x - 5) @ (x - 5)])


STATUSES: dict[str, tuple[Function, list[float], dict[str, Any], Status]] = {
    "an equation outside of bounds": (
        rosenbrock, [1.0, 1.0], {"equations": lambda x: x[0], "lower": 1.0}, Status.INFEASIBLE,
    ),
    "disks that do not touch": (
        lambda x: x[0], [0.0, 0.0], {"inequalities": two_disks, "upper": 1.0}, Status.INFEASIBLE,
    ),
    "linear": (lambda x: x.sum(), [0.0, 0.0], {}, Status.UNBOUNDED),
    "linear with bounds on one side": (
        lambda x: -x.sum(), [1.0, 2.0], {"lower": 0.0}, Status.UNBOUNDED,
    ),
    "concave": (lambda x: -(x @ x), [0.1, 0.0], {}, Status.UNBOUNDED),
    "few iterations": (rosenbrock, [-1.2, 1.0], {"max_iterations": 2}, Status.MAX_ITERATIONS),
    "not a number": (rosenbrock, [np.nan, 1.0], {}, Status.FAILED),
}  # fmt: skip


@pytest.mark.parametrize("name", STATUSES)
def test_statuses_name_what_went_wrong(name: str) -> None:
    cost, start, constraints, status = STATUSES[name]
    found = rlx.jit(lambda x: sqp(cost, x, **constraints).status)(np.array(start))
    assert Status(int(found)) is status


@pytest.mark.slow
def test_starts_whose_linearized_constraints_contradict_each_other_are_left() -> None:
    """The gradient of a circle is zero at its centre; of two bounds one must be violated first."""
    circle = rlx.jit(lambda x: sqp(rosenbrock, x, equations=lambda x: x @ x - 2))
    found = circle(np.zeros(2))
    assert int(found.status) == Status.SOLVED
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-6)

    @rlx.jit
    def bounded(x: Any) -> Any:
        return sqp(lambda x: x @ x, x, lambda x: x[0] * x[1] - 3, lower=0.5, upper=4.0)

    found = bounded(np.array([0.0, 0.0]))
    assert int(found.status) == Status.SOLVED
    np.testing.assert_allclose(found.x, [3**0.5, 3**0.5], atol=1e-6)


@pytest.mark.slow
def test_where_nothing_is_feasible_the_violation_is_least() -> None:
    found = rlx.jit(lambda x: sqp(lambda x: x[0], x, inequalities=two_disks, upper=1.0))(
        np.zeros(2)
    )
    np.testing.assert_allclose(found.x, [2.5, 2.5], atol=1e-2)


@pytest.mark.slow
def test_derivatives_are_those_of_the_solution_in_batches() -> None:
    """The nearest point of a circle: the derivative by its radius is the direction of it."""
    target = np.array([3.0, 4.0])

    @rlx.jit
    @rlx.vmap
    def slope(radius: Any) -> Any:
        def nearest(radius: Any) -> Any:
            found = sqp(
                lambda x: ((x - target) ** 2).sum(), jnp.ones(2),
                inequalities=lambda x: x @ x, upper=radius**2, tolerance=1e-10,
            )  # fmt: skip
            return found.x

        return nearest(radius), rlx.jacfwd(nearest)(radius), rlx.jacrev(nearest)(radius)

    radii = np.array([1.0, 2.0, 6.0])
    points, forward, reverse = slope(radii)
    expected = np.array([[0.6, 0.8], [0.6, 0.8], [0, 0]])
    np.testing.assert_allclose(points, np.array([[0.6, 0.8], [1.2, 1.6], [3, 4]]), atol=1e-7)
    np.testing.assert_allclose(forward, expected, atol=1e-6)
    np.testing.assert_allclose(reverse, expected, atol=1e-6)


@pytest.mark.slow
def test_the_curvature_may_be_given() -> None:
    def residuals(x: Any) -> Any:
        return jnp.stack([1 - x[0], 10 * (x[1] - x[0] ** 2)])

    def curvature(x: Any) -> Any:
        slopes = rlx.jacfwd(residuals)(x)
        return 2 * slopes.T @ slopes

    found = rlx.jit(lambda x: sqp(rosenbrock, x, hessian=curvature))(np.array([-1.2, 1.0]))
    assert int(found.status) == Status.SOLVED
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-7)


def test_a_start_that_is_no_vector_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"sqp: a start of shape \(2, 2\)"):
        sqp(rosenbrock, np.ones((2, 2)))
