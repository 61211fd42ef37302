"""`ilqr`: optimal control of smooth dynamics by an iterative linear-quadratic regulator.

    minimize    sum of cost(x[t], u[t]) + final_cost(x[steps])   over u
    subject to  x[t + 1] = dynamics(x[t], u[t])

Tassa, Erez and Todorov, Synthesis and stabilization of complex behaviors through online trajectory
optimization (2012): a sweep backward minimizes the second-order model of the cost along a
trajectory whose dynamics are linearized, a rollout forward searches along the change. Inputs are
damped (Levenberg) where the model has no minimum or a change is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.source_lines import calling_source
from rlx.numpy.systems import cholesky, solve_triangular
from rlx.optimize.status import Status
from rlx.optimize.tangents import solve_dense, with_status
from rlx.tracing.trace import shape_of
from rlx.transforms.batch import hessian, jacfwd, vmap
from rlx.transforms.control import scan, while_loop
from rlx.transforms.differentiate import grad
from rlx.transforms.implicit import custom_root

_LEAST_DAMPING, _MOST_DAMPING = 1e-6, 1e10
_DECREASE = 1e-4
"""Part of the expected decrease that a change must achieve (Armijo)."""


class ILQRSolution(NamedTuple):
    """The last trajectory of `ilqr`, and how the iterations ended."""

    states: Any
    """`[steps + 1, n]`, the first of which is given."""
    inputs: Any
    """`[steps, m]`."""
    gains: Any
    """Feedback `[steps, m, n]`: `inputs[t] + gains[t] @ (x - states[t])`; without derivatives."""
    cost: Any
    """The cost of the trajectory."""
    status: Any
    """A `Status`, i32."""
    iterations: Any
    """How often the dynamics were linearized, i32."""


class _Control(NamedTuple):
    """The functions of a problem and its first state."""

    dynamics: Callable[[Any, Any], Any]
    cost: Callable[[Any, Any], Any]
    final_cost: Callable[[Any], Any]
    x: Any

    def total(self, states: Any, inputs: Any) -> Any:
        """Return the cost of a trajectory."""
        return rnp.sum(vmap(self.cost)(states[:-1], inputs)) + self.final_cost(states[-1])

    def follow(self, plan: Callable[[Any, Any], Any], rows: Any) -> tuple[Any, Any]:
        """Return the states and the inputs `plan(x, row)` from the first state on."""

        def step(x: Any, row: Any) -> Any:
            u = plan(x, row)
            return self.dynamics(x, u), (x, u)

        last, (states, inputs) = scan(step, self.x, rows)
        return rnp.concatenate([states, last[None]]), inputs

    def rollout(self, inputs: Any) -> Any:
        """Return the states that inputs lead to."""
        return self.follow(lambda _, u: u, inputs)[0]


class _State(NamedTuple):
    """The best trajectory so far, and how the search goes."""

    states: Any
    inputs: Any
    gains: Any
    cost: Any
    damping: Any
    status: Any
    count: Any


def ilqr(
    dynamics: Callable[[Any, Any], Any],
    cost: Callable[[Any, Any], Any],
    final_cost: Callable[[Any], Any],
    x: Any,
    inputs: Any,
    *,
    tolerance: float | None = None,
    max_iterations: int = 50,
) -> ILQRSolution:
    """Minimize the cost of a trajectory from the state `x`, `[n]`, over inputs, `[steps, m]`.

    `dynamics(x, u)` returns the next state, `cost(x, u)` and `final_cost(x)` scalars. The given
    inputs are the start; those of the last solution, shifted by a step, are a warm one.

        plan = rlx.optimize.ilqr(cart_pole, effort, distance, x, np.zeros((50, 1)))
        u = plan.inputs[0]

    `SOLVED` where no input would change by more than `tolerance` (by default the square root of
    the dtype's epsilon) relative to the largest; `FAILED` where no damping makes the cost smaller
    or a number is NaN. Derivatives of states, inputs and cost, by `x` and by what the functions
    capture, are those of the solution, by the implicit function theorem; NaN if there is none.

    Raises:
        ShapeError: `x` is no vector, or `inputs` no matrix.
    """
    dtype = rnp.result_type(x, inputs, 0.0)
    x, inputs = rnp.asarray(x, dtype), rnp.asarray(inputs, dtype)
    if len(shape_of(x)) != 1 or len(shape_of(inputs)) != 2:
        raise ShapeError(
            f"ilqr: a state of shape {shape_of(x)} and inputs of shape {shape_of(inputs)}",
            source=calling_source(),
            remedy="give a state [n] and inputs [steps, m]",
        )
    control = _Control(dynamics, cost, final_cost, x)
    limit = float(np.finfo(np.dtype(dtype)).eps) ** 0.5 if tolerance is None else tolerance

    def solve(_: Any, inputs: Any) -> Any:
        found = _iterate(control, inputs, limit, max_iterations)
        return found.inputs, (found.gains, found.status, found.count)

    slope = grad(lambda inputs: control.total(control.rollout(inputs), inputs))
    inputs, (gains, status, count) = custom_root(slope, inputs, solve, solve_dense, has_aux=True)
    inputs = with_status(inputs, status)
    states = control.rollout(inputs)
    return ILQRSolution(states, inputs, gains, control.total(states, inputs), status, count)


def _iterate(control: _Control, inputs: Any, tolerance: float, max_iterations: int) -> _State:
    """Return the last state of the search from a start."""
    states = control.rollout(inputs)
    (steps, m), (n,) = shape_of(inputs), shape_of(control.x)
    zero = rnp.zeros((), inputs.dtype)
    unsolved = np.int32(Status.MAX_ITERATIONS)

    def continues(at: _State) -> Any:
        return (at.status == Status.MAX_ITERATIONS) & (at.count < max_iterations)

    first = _State(
        states, inputs, rnp.zeros((steps, m, n), inputs.dtype), control.total(states, inputs),
        zero, unsolved, np.int32(0),
    )  # fmt: skip
    found: _State = while_loop(continues, lambda at: _improved(control, at, tolerance), first)
    return found


def _improved(control: _Control, at: _State, tolerance: float) -> _State:
    """Return the state after one sweep backward and a search forward."""
    models = _models(control, at)

    def is_flat(swept: Any) -> Any:
        damping, (_, _, slope) = swept
        return ~rnp.isfinite(slope) & (damping < _MOST_DAMPING) & rnp.isfinite(at.cost)

    def damp(swept: Any) -> Any:
        damping = _more(swept[0])
        return damping, _swept(models, damping)

    damping, (changes, gains, slope) = while_loop(
        is_flat, damp, (at.damping, _swept(models, at.damping))
    )
    rounding = 8 * float(np.finfo(np.dtype(at.inputs.dtype)).eps) * rnp.abs(at.cost)

    def attempt(length: Any) -> tuple[Any, Any, Any]:
        def plan(x: Any, row: Any) -> Any:
            old, u, change, gain = row
            return u + length * change + gain @ (x - old)

        states, inputs = control.follow(plan, (at.states[:-1], at.inputs, changes, gains))
        return states, inputs, control.total(states, inputs)

    def is_better(length: Any, cost: Any) -> Any:
        return cost <= at.cost + _DECREASE * length * slope + rounding

    def refused(search: Any) -> Any:
        length, (_, _, cost) = search
        return ~is_better(length, cost) & (length > 1e-3) & rnp.isfinite(slope)

    def shorten(search: Any) -> Any:
        length = search[0] / 2
        return length, attempt(length)

    one = rnp.ones((), at.inputs.dtype)
    length, (states, inputs, cost) = while_loop(refused, shorten, (one, attempt(one)))
    better = is_better(length, cost)
    size = rnp.max(rnp.abs(changes)) * (1 + damping)
    weaker = rnp.where(damping > _LEAST_DAMPING, damping / 10, 0)
    damping = rnp.where(better, weaker, _more(damping)).astype(cost.dtype)
    solved = better & (size <= tolerance * (1 + rnp.max(rnp.abs(at.inputs))))
    failed = (damping > _MOST_DAMPING) | ~rnp.isfinite(at.cost)
    status = rnp.where(failed, Status.FAILED, Status.MAX_ITERATIONS)
    return _State(
        rnp.where(better, states, at.states),
        rnp.where(better, inputs, at.inputs),
        rnp.where(better, gains, at.gains),
        rnp.where(better, cost, at.cost),
        damping,
        rnp.where(solved, Status.SOLVED, status).astype(np.int32),
        at.count + 1,
    )


def _more(damping: Any) -> Any:
    return rnp.maximum(damping * 10, 1e-3).astype(damping.dtype)


def _models(control: _Control, at: _State) -> Any:
    """Return the derivatives along a trajectory: dynamics and cost once, cost twice; their ends."""
    x, u, last = at.states[:-1], at.inputs, at.states[-1]
    stages = (
        vmap(jacfwd(control.dynamics, (0, 1)))(x, u),
        vmap(grad(control.cost, (0, 1)))(x, u),
        vmap(hessian(control.cost, (0, 1)))(x, u),
    )
    return stages, grad(control.final_cost)(last), hessian(control.final_cost)(last)


def _swept(models: Any, damping: Any) -> tuple[Any, Any, Any]:
    """Return changes of the inputs, gains, and the slope of the cost along the changes.

    All are NaN where the damped model has no minimum.
    """
    stages, last_x, last_xx = models
    m = shape_of(stages[1][1])[1]
    damped = damping * rnp.eye(int(m), dtype=damping.dtype)

    def step(later: Any, model: Any) -> Any:
        value_x, value_xx, slope = later
        (f_x, f_u), (c_x, c_u), ((c_xx, _), (c_ux, c_uu)) = model
        q_x, q_u = c_x + value_x @ f_x, c_u + value_x @ f_u
        carried = value_xx @ f_x
        q_xx, q_ux = c_xx + f_x.T @ carried, c_ux + f_u.T @ carried
        q_uu = c_uu + f_u.T @ value_xx @ f_u
        factor = cholesky(q_uu + damped, on_singular="nan")
        right = rnp.concatenate([q_u[:, None], q_ux], axis=1)
        half = solve_triangular(factor, right, lower=True, on_singular="nan")
        found = -solve_triangular(factor, half, trans=1, lower=True, on_singular="nan")
        change, gain = found[:, 0], found[:, 1:]
        back = gain.T @ q_uu + q_ux.T
        value_x = q_x + back @ change + q_u @ gain
        value_xx = q_xx + back @ gain + gain.T @ q_ux
        return (value_x, (value_xx + value_xx.T) / 2, slope + q_u @ change), (change, gain)

    first = last_x, last_xx, rnp.zeros_like(damping)
    (_, _, slope), (changes, gains) = scan(step, first, stages, reverse=True)
    return changes, gains, slope
