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
from rlx.optimize.tangents import with_status
from rlx.tracing.pytree import tree_map
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


class _Trajectory(NamedTuple):
    """The unknowns of the conditions of optimality."""

    states: Any
    """`[steps, n]`, without the first."""
    inputs: Any
    """`[steps, m]`."""
    costates: Any
    """Multipliers of the dynamics, `[steps, n]`."""


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

    def hamiltonian(self, x: Any, u: Any, costate: Any) -> Any:
        """Return the cost of a stage and of what the next state, weighted by its costate, adds."""
        return self.cost(x, u) + costate @ self.dynamics(x, u)

    def costates(self, states: Any, inputs: Any) -> Any:
        """Return the derivatives of the rest of the cost by the states after the first."""

        def step(later: Any, stage: Any) -> tuple[Any, Any]:
            return grad(self.hamiltonian)(*stage, later), later

        last = grad(self.final_cost)(states[-1])
        return scan(step, last, (states[:-1], inputs), reverse=True)[1]

    def conditions(self, at: _Trajectory) -> _Trajectory:
        """Return what is zero at a solution: slopes by states and inputs, and the dynamics."""
        states = rnp.concatenate([self.x[None], at.states[:-1]])
        by_x, by_u = vmap(grad(self.hamiltonian, (0, 1)))(states, at.inputs, at.costates)
        by_last = grad(self.final_cost)(at.states[-1])
        return _Trajectory(
            rnp.concatenate([by_x[1:], by_last[None]]) - at.costates,
            by_u,
            vmap(self.dynamics)(states, at.inputs) - at.states,
        )


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
    states: Any = None,
    gains: Any = None,
    tolerance: float | None = None,
    max_iterations: int = 50,
) -> ILQRSolution:
    """Minimize the cost of a trajectory from the state `x`, `[n]`, over inputs, `[steps, m]`.

    `dynamics(x, u)` returns the next state, `cost(x, u)` and `final_cost(x)` scalars. The given
    inputs are the start; those of the last solution, shifted by a step, are a warm one. Given the
    plan's `states`, `[steps, n]`, and `gains`, `[steps, m, n]`, too, the start follows it by
    `inputs[t] + gains[t] @ (x - states[t])`: where dynamics are unstable, the inputs alone lead
    away from it.

        plan = rlx.optimize.ilqr(cart_pole, effort, distance, x, np.zeros((50, 1)))
        u = plan.inputs[0]

    `SOLVED` where no input would change by more than `tolerance` (by default the square root of
    the dtype's epsilon) relative to the largest; `FAILED` where no damping makes the cost smaller
    or a number is NaN. Derivatives of states, inputs and cost, by `x` and by what the functions
    capture, are those of the solution, by the implicit function theorem; NaN if there is none.

    Raises:
        ShapeError: `x` is no vector, `inputs` no matrix, or the plan's states or gains are missing
            or of another shape.
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

    def solve(_: Any, start: _Trajectory) -> Any:
        found = _iterate(control, followed, start.inputs, limit, max_iterations)
        costates = control.costates(found.states, found.inputs)
        trajectory = _Trajectory(found.states[1:], found.inputs, costates)
        return trajectory, (found.gains, found.status, found.count)

    followed, inputs = control.follow(*_policy(x, states, inputs, gains))
    start = _Trajectory(followed[1:], inputs, rnp.zeros_like(followed[1:]))
    found, (gains, status, count) = custom_root(
        control.conditions, start, solve, solve_stages, has_aux=True
    )
    found = with_status(found, status)
    states = rnp.concatenate([x[None], found.states])
    total = control.total(states, found.inputs)
    return ILQRSolution(states, found.inputs, gains, total, status, count)


def _policy(x: Any, states: Any, inputs: Any, gains: Any) -> tuple[Callable[[Any, Any], Any], Any]:
    """Return how the start is followed, and the rows that say it."""
    if states is None and gains is None:
        return lambda _, u: u, inputs
    (steps, m), n = shape_of(inputs), shape_of(x)[0]
    given = [() if rows is None else shape_of(rows) for rows in (states, gains)]
    if given != [(steps, n), (steps, m, n)]:
        raise ShapeError(
            f"ilqr: a plan of states of shape {given[0]} and gains of shape {given[1]}",
            source=calling_source(),
            remedy=f"give states {(steps, n)} and gains {(steps, m, n)}, or neither",
        )
    states, gains = rnp.asarray(states, inputs.dtype), rnp.asarray(gains, inputs.dtype)
    return lambda x, row: row[1] + row[2] @ (x - row[0]), (states, inputs, gains)


def _iterate(
    control: _Control, states: Any, inputs: Any, tolerance: float, max_iterations: int
) -> _State:
    """Return the last state of the search from a trajectory."""
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
    damping, changes, gains, slope = _swept_until_convex(control, at)
    rounding = 8 * float(np.finfo(np.dtype(at.inputs.dtype)).eps) * rnp.abs(at.cost)

    def is_better(length: Any, cost: Any) -> Any:
        return cost <= at.cost + _DECREASE * length * slope + rounding

    def refused(search: Any) -> Any:
        length, _, _, cost = search
        return ~is_better(length, cost) & (length > 1e-3) & rnp.isfinite(slope)

    def attempt(search: Any) -> tuple[Any, Any, Any, Any]:
        length = search[0] / 2

        def plan(x: Any, row: Any) -> Any:
            old, u, change, gain = row
            return u + length * change + gain @ (x - old)

        states, inputs = control.follow(plan, (at.states[:-1], at.inputs, changes, gains))
        return length, states, inputs, control.total(states, inputs)

    untried = rnp.full_like(at.cost, 2), at.states, at.inputs, rnp.full_like(at.cost, rnp.inf)
    length, states, inputs, cost = while_loop(refused, attempt, untried)
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


def _swept_until_convex(control: _Control, at: _State) -> tuple[Any, Any, Any, Any]:
    """Return the first damping with which the model has a minimum, and what `_swept` returns."""

    def is_flat(tried: Any) -> Any:
        damping, *_, slope = tried
        return ~rnp.isfinite(slope) & (damping < _MOST_DAMPING) & rnp.isfinite(at.cost)

    def sweep(tried: Any) -> tuple[Any, ...]:
        damping = tried[1]
        return damping, _more(damping), *_swept(control, at, damping)

    untried = at.damping, at.damping, at.inputs, at.gains, rnp.full_like(at.cost, rnp.nan)
    damping, _, changes, gains, slope = while_loop(is_flat, sweep, untried)
    return damping, changes, gains, slope


def _swept(control: _Control, at: _State, damping: Any) -> tuple[Any, Any, Any]:
    """Return changes of the inputs, gains, and the slope of the cost along the changes.

    All are NaN where the damped model has no minimum.
    """
    damped = damping * rnp.eye(int(shape_of(at.inputs)[1]), dtype=damping.dtype)

    def step(later: Any, stage: Any) -> Any:
        value_x, value_xx, slope = later
        f_x, f_u = jacfwd(control.dynamics, (0, 1))(*stage)
        c_x, c_u = grad(control.cost, (0, 1))(*stage)
        (c_xx, _), (c_ux, c_uu) = hessian(control.cost, (0, 1))(*stage)
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

    last, stages = at.states[-1], (at.states[:-1], at.inputs)
    first = grad(control.final_cost)(last), hessian(control.final_cost)(last)
    end, (changes, gains) = scan(step, (*first, rnp.zeros_like(damping)), stages, reverse=True)
    return changes, gains, end[2]


def solve_stages(linear: Callable[[Any], Any], right: _Trajectory) -> _Trajectory:
    """Return the trajectory `z` with `linear(z) = right` by a regulator's sweep and a rollout.

    `linear` is the derivative of `_Control.conditions`. By stages, with `p` of the next one,

        q @ x + s.T @ u + a.T @ p - p_before = right.states[t - 1]
        s @ x + r @ u + b.T @ p = right.inputs[t]
        a @ x + b @ u - x_next = right.costates[t]

    and `p_before = value @ x + rest` for a symmetric `value`: no state is eliminated by dynamics
    that may be unstable, as the Hessian by the inputs would have it.
    """
    zero = tree_map(rnp.zeros_like, right)
    unit_x = rnp.eye(int(shape_of(right.states)[1]), dtype=right.states.dtype)
    unit_u = rnp.eye(int(shape_of(right.inputs)[1]), dtype=right.inputs.dtype)

    def at_every_stage(x: Any, u: Any) -> _Trajectory:
        rows = shape_of(right.states)[0]
        states = rnp.broadcast_to(x, (rows, *shape_of(x)))
        inputs = rnp.broadcast_to(u, (rows, *shape_of(u)))
        moved: _Trajectory = linear(_Trajectory(states, inputs, zero.costates))
        return moved

    of_x = vmap(at_every_stage, in_axes=(0, None), out_axes=2)(unit_x, zero.inputs[0])
    of_u = vmap(at_every_stage, in_axes=(None, 0), out_axes=2)(zero.states[0], unit_u)
    none = rnp.zeros_like(unit_x)[None]
    q, last = rnp.concatenate([none, of_x.states[:-1]]), of_x.states[-1]
    s, r = of_x.inputs, of_u.inputs
    a, b = of_x.costates + unit_x, of_u.costates
    first = rnp.zeros_like(zero.states[:1])
    of_states = rnp.concatenate([first, right.states[:-1]])

    def backward(later: Any, stage: Any) -> Any:
        value, rest = later
        q, s, r, a, b, by_x, by_u, by_p = stage
        coupled, pulled = s + b.T @ value @ a, rest - value @ by_p
        sides = rnp.concatenate([(by_u - b.T @ pulled)[:, None], -coupled], axis=1)
        found = rnp.linalg.solve(r + b.T @ value @ b, sides, on_singular="nan")
        change, gain = found[:, 0], found[:, 1:]
        before = q + a.T @ value @ a + coupled.T @ gain, coupled.T @ change + a.T @ pulled - by_x
        return before, (change, gain, value, rest)

    def forward(x: Any, stage: Any) -> Any:
        change, gain, value, rest, a, b, by_p = stage
        u = change + gain @ x
        x = a @ x + b @ u - by_p
        return x, (x, u, value @ x + rest)

    stages = q, s, r, a, b, of_states, right.inputs, right.costates
    swept = scan(backward, (last, -right.states[-1]), stages, reverse=True)[1]
    return _Trajectory(*scan(forward, zero.states[0], (*swept, a, b, right.costates))[1])
