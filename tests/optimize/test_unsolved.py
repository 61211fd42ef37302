"""Where a solver stops early its result is no solution, and has no derivative."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.optimize import ilqr, solve_qp, sqp


def quadratic(x: Any, iterations: int) -> Any:
    found = solve_qp(np.eye(2), x, lower=-np.ones(2), upper=np.ones(2), max_iterations=iterations)
    return rnp.sum(found.x)


def nonlinear(x: Any, iterations: int) -> Any:
    found = sqp(
        lambda y: rnp.sum((y - x) ** 4 + y**2), rnp.ones(2),
        inequalities=lambda y: y @ y, upper=1.0, max_iterations=iterations,
    )  # fmt: skip
    return rnp.sum(found.x)


def control(x: Any, iterations: int) -> Any:
    found = ilqr(
        lambda x, u: rnp.stack([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] + rnp.sin(x[0]))]),
        lambda x, u: 0.1 * x @ x + 0.01 * u[0] ** 2, lambda x: x @ x,
        x, np.zeros((10, 1)), max_iterations=iterations,
    )  # fmt: skip
    return found.inputs[0, 0]


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("transform", [rlx.grad, rlx.jacfwd])
@pytest.mark.parametrize("solve", [quadratic, nonlinear, control])
def test_derivatives_are_nan_unless_the_problem_is_solved(solve: Any, transform: Any) -> None:
    x = np.array([0.7, 1.3])
    assert np.isfinite(solve(x, 1))
    assert np.isnan(transform(solve)(x, 1)).all()
    assert np.isfinite(transform(solve)(x, 50)).all()
