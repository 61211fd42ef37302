"""`sqp`: smooth nonlinear programs by sequential quadratic programming.

    minimize    cost(x)
    subject to  equations(x) = 0,  lower <= inequalities(x) <= upper

Nocedal and Wright, Numerical Optimization (2006), 18: each iteration solves the quadratic program
of the Lagrangian's curvature and of the linearized constraints by `solve_qp`, and searches along
its solution for a decrease of the cost and the weighted 1-norm of what is violated. Where the
linearized constraints contradict each other, the quadratic program may violate them, at a price
that grows from one such iteration to the next (elastic mode, ibid. 18.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.source_lines import calling_source
from rlx.optimize.qp import QPSolution, solve_qp
from rlx.optimize.status import Status
from rlx.optimize.tangents import solve_dense, with_status
from rlx.tracing.trace import shape_of
from rlx.transforms.batch import hessian as second_derivatives
from rlx.transforms.batch import jacfwd
from rlx.transforms.branches import cond
from rlx.transforms.control import while_loop
from rlx.transforms.differentiate import grad
from rlx.transforms.implicit import custom_root

_DECREASE = 1e-4
"""Part of the expected decrease that a step must achieve (Armijo)."""

_DEAREST = 1e6
"""Price of a violation, relative to the cost's slope, at which a point that stays is infeasible."""

_LEAST_CURVATURE = 1e-8
"""Eigenvalues of the Lagrangian's Hessian are raised to this part of the largest."""


class SQPSolution(NamedTuple):
    """The last iterate of `sqp`, and how the iterations ended."""

    x: Any
    """The minimizer, `[n]`."""
    y: Any
    """The multipliers of the equations, `[k]`."""
    lower: Any
    """The multipliers of the lower bounds, `[m]`, not negative."""
    upper: Any
    """The multipliers of the upper bounds, `[m]`, not negative."""
    cost: Any
    """The cost of `x`."""
    status: Any
    """A `Status`, i32; `INFEASIBLE` where no smaller violation is near `x`."""
    iterations: Any
    """How many quadratic programs were solved, i32."""


class _Point(NamedTuple):
    """A point and its multipliers."""

    x: Any
    y: Any
    lower: Any
    upper: Any


class _Nonlinear(NamedTuple):
    """The functions and the bounds of a program."""

    cost: Callable[[Any], Any]
    equations: Callable[[Any], Any]
    inequalities: Callable[[Any], Any]
    lower: Any
    upper: Any

    def lagrangian(self, x: Any, at: _Point) -> Any:
        """Return the cost plus the constraints, weighted by the multipliers of `at`."""
        pulled = at.y @ self.equations(x) + (at.upper - at.lower) @ self.inequalities(x)
        return self.cost(x) + pulled

    def violation(self, x: Any) -> Any:
        """Return the 1-norm of what is violated."""
        return _outside(self.equations(x), self.inequalities(x), self.lower, self.upper)

    def conditions(self, at: _Point) -> _Point:
        """Return what is zero at a solution: gradient, equations, multiplier or gap of each bound.

        The smaller of both has exact derivatives, where their product mixes nearly active bounds.
        """
        bounded = self.inequalities(at.x)
        gaps = bounded - self.lower, self.upper - bounded
        prices = at.lower, at.upper
        smaller = [rnp.minimum(price, gap) for price, gap in zip(prices, gaps, strict=True)]
        slope = grad(lambda x: self.lagrangian(x, at))(at.x)
        return _Point(slope, self.equations(at.x), *smaller)


class _State(NamedTuple):
    """An iterate and how the search goes."""

    at: _Point
    weight: Any
    """Of what is violated, in the function that decreases."""
    status: Any
    count: Any


def sqp(
    cost: Callable[[Any], Any],
    x: Any,
    equations: Callable[[Any], Any] | None = None,
    inequalities: Callable[[Any], Any] | None = None,
    lower: Any = None,
    upper: Any = None,
    *,
    hessian: Callable[[Any], Any] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 50,
) -> SQPSolution:
    """Minimize `cost(x)` from the start `x`, `[n]`, subject to `equations(x) = 0` and bounds.

    `lower <= inequalities(x) <= upper`, vectors `[m]`; without `inequalities` the bounds are those
    of `x`. Bounds may be infinite. `hessian(x)`, `[n, n]`, positive semidefinite, takes the place
    of the Lagrangian's Hessian (Gauss-Newton); without, that is computed and made convex by its
    eigenvalues, as many operations as some factorizations.

        solution = rlx.optimize.sqp(rosenbrock, x, inequalities=lambda x: x @ x, upper=2.0)

    `SOLVED` where a step and what is violated are below `tolerance` (by default the square root of
    the dtype's epsilon) relative to `x`. `INFEASIBLE` where all points near `x` violate more, and
    `UNBOUNDED` where `x` satisfies the constraints and exceeds `1 / tolerance`. Derivatives by
    what the functions capture are those of the solution, by the implicit function theorem, NaN if
    there is none; they need multipliers that are unique.

    Raises:
        ShapeError: `x` is no vector.
    """
    dtype = rnp.result_type(x, 0.0)
    x = rnp.asarray(x, dtype)
    if len(shape_of(x)) != 1:
        raise ShapeError(
            f"sqp: a start of shape {shape_of(x)}",
            source=calling_source(),
            remedy="give a vector; rlx.ravel_pytree makes one of a tree",
        )
    program, first = _program(cost, x, equations, inequalities, lower, upper)
    limit = float(np.finfo(np.dtype(dtype)).eps) ** 0.5 if tolerance is None else tolerance

    def solve(_: Any, first: _Point) -> Any:
        found = _iterate(program, first, hessian, limit, max_iterations)
        return found.at, (found.status, found.count)

    at, (status, count) = custom_root(program.conditions, first, solve, solve_dense, has_aux=True)
    at = with_status(at, status)
    return SQPSolution(at.x, at.y, at.lower, at.upper, program.cost(at.x), status, count)


def _program(
    cost: Callable[[Any], Any], x: Any, equations: Any, inequalities: Any, lower: Any, upper: Any
) -> tuple[_Nonlinear, _Point]:
    """Return the program with all that was left out, and the first point."""
    is_bounded = lower is not None or upper is not None
    all_or_none: Callable[[Any], Any] = _identity if is_bounded else _nothing
    equal = _nothing if equations is None else _vector(equations)
    bounded = all_or_none if inequalities is None else _vector(inequalities)
    k, m = shape_of(equal(x)), shape_of(bounded(x))
    low = rnp.broadcast_to(rnp.asarray(-rnp.inf if lower is None else lower, x.dtype), m)
    high = rnp.broadcast_to(rnp.asarray(rnp.inf if upper is None else upper, x.dtype), m)
    prices = rnp.zeros(k, x.dtype), rnp.zeros(m, x.dtype), rnp.zeros(m, x.dtype)
    return _Nonlinear(cost, equal, bounded, low, high), _Point(x, *prices)


def _identity(x: Any) -> Any:
    return x


def _nothing(x: Any) -> Any:
    return x[:0]


def _vector(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the function with a scalar as a vector of one element."""
    return lambda x: rnp.atleast_1d(function(x))


def _iterate(
    program: _Nonlinear, first: _Point, hessian: Any, tolerance: float, max_iterations: int
) -> _State:
    def continues(state: _State) -> Any:
        return (state.status == Status.MAX_ITERATIONS) & (state.count < max_iterations)

    unsolved, zero = np.int32(Status.MAX_ITERATIONS), np.int32(0)
    start = _State(first, rnp.ones((), first.x.dtype), unsolved, zero)
    found: _State = while_loop(
        continues, lambda state: _stepped(program, state, hessian, tolerance), start
    )
    return found


class _Subproblem(NamedTuple):
    """A quadratic program: the cost's slope and curvature, and the linearized constraints."""

    curvature: Any
    slope: Any
    a: Any
    b: Any
    g: Any
    lower: Any
    upper: Any

    def violation(self, x: Any) -> Any:
        """Return the 1-norm of what a step violates."""
        return _outside(self.a @ x - self.b, self.g @ x, self.lower, self.upper)


class _Step(NamedTuple):
    """The solution of a subproblem, and the status of its solver."""

    x: Any
    y: Any
    lower: Any
    upper: Any
    status: Any


def _outside(off: Any, bounded: Any, lower: Any, upper: Any) -> Any:
    """Return the 1-norm of what is off zero or outside of bounds."""
    outside = rnp.maximum(lower - bounded, 0) + rnp.maximum(bounded - upper, 0)
    return rnp.sum(rnp.abs(off)) + rnp.sum(outside)


def _subproblem(program: _Nonlinear, at: _Point, hessian: Any) -> _Subproblem:
    bounded = program.inequalities(at.x)
    return _Subproblem(
        _convex(program, at) if hessian is None else hessian(at.x),
        grad(program.cost)(at.x),
        jacfwd(program.equations)(at.x),
        -program.equations(at.x),
        jacfwd(program.inequalities)(at.x),
        program.lower - bounded,
        program.upper - bounded,
    )


def _elastic(problem: _Subproblem, reach: Any, price: Any, tolerance: float) -> _Step:
    """Solve a subproblem whose constraints may be violated, each at a price.

    Steps of `reach` cost as much as the slope saves, so that they are bounded. The unknowns after
    the step are by how much each constraint is exceeded, and by how much it falls short.
    """
    (k, n), m = problem.a.shape, problem.g.shape[0]
    dtype, count = problem.slope.dtype, 2 * (k + m)
    units = np.eye(k + m, dtype=dtype)
    signs = np.concatenate([-units, units], 1)
    steep = rnp.max(rnp.abs(problem.slope), initial=0)
    proximal = problem.curvature + (steep / reach) * np.eye(n, dtype=dtype)
    small = float(np.finfo(np.dtype(dtype)).eps) ** 0.5
    found = solve_qp(
        _block_diagonal(proximal / price, small * np.eye(count, dtype=dtype)),
        rnp.concatenate([problem.slope / price, np.ones(count, dtype)]),
        rnp.concatenate([problem.a, signs[:k]], 1),
        problem.b,
        rnp.concatenate(
            [
                rnp.concatenate([problem.g, signs[k:]], 1),
                np.eye(count, n + count, n, dtype=dtype),
            ]
        ),
        rnp.concatenate([problem.lower, np.zeros(count, dtype)]),
        rnp.concatenate([problem.upper, np.full(count, np.inf, dtype)]),
        tolerance=tolerance,
    )
    y, low, high = (price * each for each in (found.y, found.lower[:m], found.upper[:m]))
    return _Step(found.x[:n], y, low, high, found.status)


def _largest(found: Any) -> Any:
    """Return the largest multiplier."""
    return rnp.max(rnp.abs(rnp.concatenate([found.y, found.lower, found.upper])), initial=0)


def _block_diagonal(a: Any, b: Any) -> Any:
    n, m = a.shape[0], b.shape[0]
    return rnp.block([[a, np.zeros((n, m), b.dtype)], [np.zeros((m, n), b.dtype), b]])


def _stepped(program: _Nonlinear, state: _State, hessian: Any, tolerance: float) -> _State:
    """Return the state after one quadratic program and a search along its solution."""
    at, cost = state.at, program.cost(state.at.x)
    problem = _subproblem(program, at, hessian)
    warm = QPSolution(rnp.zeros_like(at.x), *at[1:], state.status, state.count)
    strict = solve_qp(*problem, start=warm, tolerance=tolerance)
    scale = 1 + rnp.max(rnp.abs(problem.slope), initial=0)
    dearest = _DEAREST * scale
    contradicts = (strict.status == Status.INFEASIBLE) | (_largest(strict) > dearest)
    price = rnp.where(contradicts, 10, 2) * rnp.maximum(state.weight, scale)
    price = rnp.minimum(price, dearest)
    reach = 1 + rnp.max(rnp.abs(at.x), initial=0)
    found = cond(
        contradicts | (strict.status == Status.UNBOUNDED),
        lambda: _elastic(problem, reach, price, tolerance),
        lambda: _Step(*strict[:4], strict.status),
    )
    weight = rnp.maximum(state.weight, rnp.where(contradicts, price, 2 * _largest(found)))
    violated = program.violation(at.x)
    mended = violated - problem.violation(found.x)
    expected = problem.slope @ found.x - weight * mended
    before = cost + weight * violated
    rounding = 8 * float(np.finfo(np.dtype(at.x.dtype)).eps) * (1 + rnp.abs(before))

    def refused(length: Any) -> Any:
        x = at.x + length * found.x
        after = program.cost(x) + weight * program.violation(x)
        is_better = after <= before + _DECREASE * length * expected + rounding
        return ~is_better & (length > 1e-6)

    length = while_loop(refused, lambda length: length / 2, rnp.ones((), at.x.dtype))
    x = at.x + length * found.x
    moved = [old + length * (new - old) for old, new in zip(at[1:], found[1:4], strict=True)]
    small = tolerance * (1 + rnp.max(rnp.abs(x)))
    stays = rnp.max(rnp.abs(found.x)) <= small
    feasible = program.violation(x) <= small
    failed = ~rnp.isfinite(cost + rnp.sum(found.x)) | (found.status == Status.FAILED)
    status = rnp.where(stays & feasible, Status.SOLVED, Status.MAX_ITERATIONS)
    hopeless = contradicts & (price == dearest) & (mended <= tolerance**0.5 * violated)
    status = rnp.where(hopeless, Status.INFEASIBLE, status)
    unbounded = feasible & ~stays & (tolerance * rnp.max(rnp.abs(x), initial=0) > 1)
    status = rnp.where(unbounded, Status.UNBOUNDED, status)
    status = rnp.where(failed, Status.FAILED, status).astype(np.int32)
    return _State(_Point(x, *moved), weight, status, state.count + 1)


def _convex(program: _Nonlinear, at: _Point) -> Any:
    """Return the Hessian of the Lagrangian, with eigenvalues that are positive."""
    matrix = second_derivatives(lambda x: program.lagrangian(x, at))(at.x)
    values, vectors = rnp.linalg.eigh((matrix + matrix.T) / 2)
    least = _LEAST_CURVATURE * rnp.maximum(rnp.max(rnp.abs(values)), 1)
    return (vectors * rnp.maximum(values, least)) @ vectors.T
