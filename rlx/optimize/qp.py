"""`solve_qp`: convex quadratic programs by a primal-dual interior point method.

    minimize    x @ p @ x / 2 + q @ x
    subject to  a @ x = b,  lower <= g @ x <= upper

Mehrotra's predictor and corrector (1992) as in Nocedal and Wright, Numerical Optimization (2006),
16.6, for two-sided bounds. Each bound has a slack and a multiplier, both positive; elimination
leaves one symmetric system in `x` and the multipliers of the equations, which is factored once an
iteration. It is regularized by small multiples of the identity while its right side is exact: a
proximal method of multipliers, which dependent rows and flat objectives do not stop.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.source_lines import calling_source
from rlx.optimize.kkt import System, as_sparse, factored, shape_of_matrix
from rlx.optimize.status import Status
from rlx.optimize.tangents import only_if_solved
from rlx.sparse.matrix import SparseMatrix
from rlx.sparse.pattern import from_entries
from rlx.tracing.pytree import tree_map
from rlx.transforms.control import while_loop
from rlx.transforms.custom_jvp import CustomJvp, custom_jvp
from rlx.transforms.differentiate import jvp

_NEAR_BOUNDARY = 0.995
"""Part of the way to the first slack or multiplier that a step would make zero."""

_GAP = 0.01
"""The tolerance of the products of slacks and multipliers, which round less than residuals."""


class QPSolution(NamedTuple):
    """The last iterate of `solve_qp`, and how the iterations ended."""

    x: Any
    """The minimizer, `[n]`; a direction of descent where the status is `UNBOUNDED`."""
    y: Any
    """The multipliers of the equations, `[p]`."""
    lower: Any
    """The multipliers of the lower bounds, `[m]`, not negative."""
    upper: Any
    """The multipliers of the upper bounds, `[m]`, not negative."""
    status: Any
    """A `Status`, i32."""
    iterations: Any
    """How many systems were factored, i32."""


class _Problem(NamedTuple):
    """The data of a problem; infinite bounds are replaced by zeros, and masked."""

    p: Any
    q: Any
    a: Any
    b: Any
    g: Any
    lower: Any
    upper: Any
    has_lower: Any
    has_upper: Any


class _Iterate(NamedTuple):
    """A point, its multipliers, and the slacks of its bounds; those that are absent are one."""

    x: Any
    y: Any
    lower: Any
    upper: Any
    slack_lower: Any
    slack_upper: Any


def solve_qp(
    p: Any,
    q: Any,
    a: Any = None,
    b: Any = None,
    g: Any = None,
    lower: Any = None,
    upper: Any = None,
    *,
    start: QPSolution | None = None,
    tolerance: float | None = None,
    max_iterations: int = 40,
) -> QPSolution:
    """Minimize `x @ p @ x / 2 + q @ x` subject to `a @ x = b` and `lower <= g @ x <= upper`.

    Of `p`, `[n, n]`, symmetric and positive semidefinite, `q`, `[n]`, `a`, `[k, n]`, `b`, `[k]`,
    `g`, `[m, n]`, `lower` and `upper`, `[m]`. Without `g` the bounds are those of `x`; bounds may
    be infinite. Rows may depend on one another. `start` is the solution of a problem nearby.
    If `p`, `a` or `g` is a `SparseMatrix`, systems are solved by sparse factors (`ldl`).

        solution = rlx.optimize.solve_qp(p, q, lower=-limit, upper=limit)

    The status is `SOLVED` where the residuals of the conditions of optimality are below
    `tolerance` (by default the square root of the dtype's epsilon) relative to their terms, and
    the duality gap below a hundredth of it; `INFEASIBLE` if no feasible point has a 1-norm below
    `1 / tolerance`, `UNBOUNDED` if no minimizer and multipliers have. Derivatives are those of the
    solution, by the implicit function theorem, NaN if there is none; `start` has none.

    Raises:
        ShapeError: the shapes of the arguments differ from the above.
    """
    problem = _problem(p, q, a, b, g, lower, upper)
    dtype = np.dtype(problem.q.dtype)
    limit = float(np.finfo(dtype).eps) ** 0.5 if tolerance is None else tolerance
    first = _cold(problem) if start is None else _warm(problem, start)
    at, status, count = _solver(limit, max_iterations)(problem, first)
    return QPSolution(at.x, at.y, at.lower, at.upper, status, count)


def _problem(p: Any, q: Any, a: Any, b: Any, g: Any, lower: Any, upper: Any) -> _Problem:
    """Return the data in one dtype, with empty arrays for what is left out."""
    given = [x for x in (p, q, a, b, g, lower, upper) if x is not None]
    is_sparse = any(isinstance(x, SparseMatrix) for x in given)
    dtype = rnp.result_type(*(x.data if isinstance(x, SparseMatrix) else x for x in given))
    dtype = dtype if rnp.issubdtype(dtype, rnp.floating) else rnp.result_type(dtype, 0.0)
    q = rnp.asarray(q, dtype)
    n = _extent("q", q, 0)
    matrix = as_sparse if is_sparse else rnp.asarray
    a = matrix(rnp.zeros((0, n)) if a is None else a, dtype)
    bounded = n if lower is not None or upper is not None else 0
    g = matrix(_identity(bounded, n, is_sparse=is_sparse) if g is None else g, dtype)
    k, m = _extent("a", a, 0), _extent("g", g, 0)
    b = rnp.zeros(k, dtype) if b is None else rnp.asarray(b, dtype)
    lower = rnp.full(m, -rnp.inf, dtype) if lower is None else rnp.asarray(lower, dtype)
    upper = rnp.full(m, rnp.inf, dtype) if upper is None else rnp.asarray(upper, dtype)
    p = matrix(p, dtype)
    shapes = {"p": (p, (n, n)), "q": (q, (n,)), "a": (a, (k, n)), "b": (b, (k,)),
              "g": (g, (m, n)), "lower": (lower, (m,)), "upper": (upper, (m,))}  # fmt: skip
    for name, (array, shape) in shapes.items():
        _require_shape(name, array, shape)
    has_lower, has_upper = rnp.isfinite(lower), rnp.isfinite(upper)
    bounds = rnp.where(has_lower, lower, 0), rnp.where(has_upper, upper, 0)
    masks = has_lower.astype(dtype), has_upper.astype(dtype)
    return _Problem(p, q, a, b, g, *bounds, *masks)


def _identity(rows: int, n: int, *, is_sparse: bool) -> Any:
    if not is_sparse:
        return rnp.eye(rows, n)
    places = np.arange(rows)
    return SparseMatrix(np.ones(rows), from_entries(places, places, (rows, n)))


def _extent(name: str, array: Any, axis: int) -> int:
    shape = shape_of_matrix(array)
    if not shape:
        raise ShapeError(
            f"solve_qp: {name} is a scalar",
            source=calling_source(),
            remedy="give vectors q, b, lower and upper, and matrices p, a and g",
        )
    return int(shape[axis])


def _require_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    if shape_of_matrix(array) != shape:
        raise ShapeError(
            f"solve_qp: {name} has shape {shape_of_matrix(array)}; the others need {shape}",
            source=calling_source(),
            remedy="give q of n elements, p [n, n], a [k, n], b [k], g [m, n], lower and upper [m]",
        )


def _cold(problem: _Problem) -> _Iterate:
    """Return zeros, with slacks and multipliers of one."""
    x, y = rnp.zeros_like(problem.q), rnp.zeros_like(problem.b)
    return _inside(problem, x, y, problem.has_lower, problem.has_upper, 1.0)


def _warm(problem: _Problem, start: QPSolution) -> _Iterate:
    """Return the solution of a problem nearby, moved from the boundary."""
    x, y, lower, upper = (rnp.asarray(v, problem.q.dtype) for v in start[:4])
    return _inside(problem, x, y, lower, upper, 1e-2)


def _inside(problem: _Problem, x: Any, y: Any, lower: Any, upper: Any, least: float) -> _Iterate:
    """Return an iterate whose slacks and multipliers are `least` or more."""
    at = problem.g @ x
    slacks = rnp.maximum(at - problem.lower, least), rnp.maximum(problem.upper - at, least)
    masks = problem.has_lower, problem.has_upper
    bounded = [rnp.where(mask > 0, s, 1) for mask, s in zip(masks, slacks, strict=True)]
    prices = [
        mask * rnp.maximum(price, least) for mask, price in zip(masks, (lower, upper), strict=True)
    ]
    return _Iterate(x, y, *prices, *bounded)


class _Residuals(NamedTuple):
    """What the conditions of optimality are off by, and the size of their terms."""

    dual: Any
    equal: Any
    lower: Any
    upper: Any
    scale_dual: Any
    scale_primal: Any


def _residuals(problem: _Problem, at: _Iterate) -> _Residuals:
    curved, pulled = problem.p @ at.x, (at.upper - at.lower) @ problem.g + at.y @ problem.a
    equal, bounded = problem.a @ at.x, problem.g @ at.x
    return _Residuals(
        curved + problem.q + pulled,
        equal - problem.b,
        problem.has_lower * (bounded - problem.lower - at.slack_lower),
        problem.has_upper * (problem.upper - bounded - at.slack_upper),
        1 + _largest(problem.q, curved, pulled),
        1 + _largest(problem.b, equal, bounded),
    )


def _largest(*vectors: Any) -> Any:
    return rnp.max(rnp.abs(rnp.concatenate(vectors)), initial=0)


def _factored(problem: _Problem, at: _Iterate) -> System:
    """Factor the matrix of `x` and `y` that is left when bounds are eliminated."""
    weights = at.lower / at.slack_lower + at.upper / at.slack_upper
    return factored(problem.p, problem.a, problem.g, weights)


def _step(
    problem: _Problem, at: _Iterate, system: System, dual: Any, equal: Any, lower: Any, upper: Any
) -> _Iterate:
    """Return the solution of the Newton equations for their right sides.

    p @ x + a.T @ y + g.T @ (upper - lower) = dual           a @ x = equal
    at.lower * (g @ x) + at.slack_lower * lower = lower'     and so for the upper ones
    """
    n = problem.q.shape[0]
    right = dual + (lower / at.slack_lower - upper / at.slack_upper) @ problem.g
    found = system(rnp.concatenate([right, equal]))
    x, y = found[:n], found[n:]
    moved = problem.g @ x
    return _Iterate(
        x,
        y,
        problem.has_lower * (lower - at.lower * moved) / at.slack_lower,
        problem.has_upper * (upper + at.upper * moved) / at.slack_upper,
        problem.has_lower * moved,
        -problem.has_upper * moved,
    )


def _solver(tolerance: float, max_iterations: int) -> CustomJvp:
    """Return the iterations as a function whose derivatives are those of the solution."""
    solve = custom_jvp(functools.partial(_iterate, tolerance, max_iterations))

    def moved(primals: Any, tangents: Any) -> Any:
        problem, _ = primals
        found = solve(*primals)
        change = _moved(problem, found, tangents[0])
        return found, change

    solve.defjvp(moved)
    return solve


def _iterate(
    tolerance: float, max_iterations: int, problem: _Problem, first: _Iterate
) -> tuple[_Iterate, Any, Any]:
    """Return the last iterate, the status and the number of steps."""

    def continues(state: Any) -> Any:
        _, status, count = state
        return (status == Status.MAX_ITERATIONS) & (count < max_iterations)

    def step(state: Any) -> Any:
        at, _, count = state
        at = _predicted_and_corrected(problem, at)
        return at, _status(problem, at, tolerance), count + 1

    zero, unsolved = np.int32(0), np.int32(Status.MAX_ITERATIONS)
    return while_loop(continues, step, (first, unsolved, zero))  # type: ignore[no-any-return]


def _predicted_and_corrected(problem: _Problem, at: _Iterate) -> _Iterate:
    """Return the next iterate: a step to the boundary says how far to centre the step taken."""
    off, system = _residuals(problem, at), _factored(problem, at)
    count = rnp.maximum(rnp.sum(problem.has_lower) + rnp.sum(problem.has_upper), 1)
    lower, upper = at.lower * at.slack_lower, at.upper * at.slack_upper
    mean = (rnp.sum(lower) + rnp.sum(upper)) / count

    def towards(lower: Any, upper: Any) -> _Iterate:
        """Return the step that makes the products of slacks and multipliers smaller by these."""
        found = _step(
            problem, at, system, -off.dual, -off.equal,
            -problem.has_lower * lower - at.lower * off.lower,
            -problem.has_upper * upper - at.upper * off.upper,
        )  # fmt: skip
        return found._replace(
            slack_lower=found.slack_lower + off.lower, slack_upper=found.slack_upper + off.upper
        )

    ahead = towards(lower, upper)
    end = _moved_by(at, ahead, _length(at, ahead))
    left = rnp.sum(end.lower * end.slack_lower) + rnp.sum(end.upper * end.slack_upper)
    centre = (left / count / rnp.maximum(mean, np.finfo(problem.q.dtype).tiny)) ** 3 * mean
    change = towards(
        lower + ahead.lower * ahead.slack_lower - centre,
        upper + ahead.upper * ahead.slack_upper - centre,
    )
    return _moved_by(at, change, rnp.minimum(_NEAR_BOUNDARY * _length(at, change), 1))


def _moved_by(at: _Iterate, change: _Iterate, length: Any) -> _Iterate:
    return _Iterate(*(v + length * dv for v, dv in zip(at, change, strict=True)))


def _length(at: _Iterate, change: _Iterate) -> Any:
    """Return how often a step can be taken until a slack or a multiplier is zero."""
    positive, moves = rnp.concatenate(at[2:]), rnp.concatenate(change[2:])
    shrinks = moves < 0
    ratios = rnp.where(shrinks, -positive / rnp.where(shrinks, moves, 1), 1 / _NEAR_BOUNDARY)
    return rnp.min(ratios, initial=1 / _NEAR_BOUNDARY)


def _status(problem: _Problem, at: _Iterate, tolerance: float) -> Any:
    """Return how far the iterations are: `MAX_ITERATIONS` as long as they go on."""
    off = _residuals(problem, at)
    products = rnp.concatenate([at.lower * at.slack_lower, at.upper * at.slack_upper])
    cost = rnp.abs(problem.q @ at.x) + at.x @ problem.p @ at.x
    primal = _largest(off.equal, off.lower, off.upper)
    solved = (
        (primal <= tolerance * off.scale_primal)
        & (_largest(off.dual) <= tolerance * off.scale_dual)
        & (rnp.sum(products) <= _GAP * tolerance * (1 + cost))
    )
    infeasible = _is_infeasible(problem, at, tolerance)
    unbounded = _is_unbounded(problem, at, tolerance)
    failed = ~rnp.isfinite(rnp.sum(at.x) + rnp.sum(products) + primal)
    found = rnp.where(unbounded, Status.UNBOUNDED, Status.MAX_ITERATIONS)
    found = rnp.where(infeasible, Status.INFEASIBLE, found)
    found = rnp.where(solved, Status.SOLVED, found)
    return rnp.where(failed, Status.FAILED, found).astype(np.int32)


def _is_infeasible(problem: _Problem, at: _Iterate, tolerance: float) -> Any:
    """True if no point of a 1-norm below `1 / tolerance` satisfies the constraints (Farkas).

    Every feasible point has `rows @ x <= value` of the multipliers' combination of constraints.
    """
    rows = at.y @ problem.a + (at.upper - at.lower) @ problem.g
    value = problem.b @ at.y + problem.upper @ at.upper - problem.lower @ at.lower
    return _largest(rows) < -tolerance * value


def _is_unbounded(problem: _Problem, at: _Iterate, tolerance: float) -> Any:
    """True if no multipliers of a 1-norm below `1 / tolerance` balance the objective at `x`.

    Far along `x` the objective is linear, and decreases within the bounds.
    """
    along = problem.g @ at.x
    leaves = rnp.maximum(-problem.has_lower * along, problem.has_upper * along)
    off = _largest(problem.p @ at.x, problem.a @ at.x, rnp.maximum(leaves, 0))
    return off < -tolerance * (problem.q @ at.x)


def _moved(problem: _Problem, found: Any, tangents: _Problem) -> Any:
    """Return the tangents of a solution: its conditions of optimality keep on holding."""
    at, status, count = found
    stiffest = float(np.finfo(np.dtype(problem.q.dtype)).eps) ** 0.5
    at = at._replace(  # multipliers' changes are differences of products with their inverses
        slack_lower=rnp.maximum(at.slack_lower, stiffest * at.lower),
        slack_upper=rnp.maximum(at.slack_upper, stiffest * at.upper),
    )

    def conditions(data: _Problem) -> tuple[Any, Any, Any, Any]:
        off = _residuals(data, at)
        return off.dual, off.equal, at.lower * off.lower, at.upper * off.upper

    changes = jvp(conditions, (problem,), (tangents,))[1]
    right = tree_map(rnp.negative, changes)
    change = _step(problem, at, _factored(problem, at), *right)
    return only_if_solved(change, status), rnp.zeros_like(status), rnp.zeros_like(count)
