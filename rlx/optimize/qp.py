"""`solve_qp`: convex quadratic programs by a primal-dual interior point method.

    minimize    x @ p @ x / 2 + q @ x
    subject to  a @ x = b,  lower <= g @ x <= upper

Mehrotra's predictor and corrector (1992) as in Nocedal and Wright, Numerical Optimization (2006),
16.6, for two-sided bounds. Each bound has a slack and a multiplier, both positive; elimination
leaves one symmetric system in `x` and the multipliers of the equations, which is factored once an
iteration. It is regularized by small multiples of the identity while its right side is exact: a
proximal method of multipliers, which dependent rows and flat objectives do not stop. From a start
the bounds that are active there are tried as equations first.
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
from rlx.transforms.control import scan, while_loop
from rlx.transforms.custom_jvp import CustomJvp, custom_jvp
from rlx.transforms.differentiate import jvp

_NEAR_BOUNDARY = 0.995
"""Part of the way to the first slack or multiplier that a step would make zero."""

_GUESSES = 3
"""Sets of active bounds that are tried before an interior point method starts from a start."""

_CORRECTIONS = 2
"""Solutions with one factor: of a guess, and of what its stiff bounds are off by."""

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
    bounds: Any
    """Lower and upper ones, `[2, m]`."""
    is_bound: Any
    """1, or 0 for a lower bound of -inf and an upper one of inf, `[2, m]`."""


class _Iterate(NamedTuple):
    """A point, its multipliers, and the slacks of its bounds; those that are absent are one."""

    x: Any
    y: Any
    prices: Any
    """Multipliers of the lower and the upper bounds, `[2, m]`."""
    slacks: Any
    """`[2, m]`."""


class _Guess(NamedTuple):
    """A point, its multipliers, and the differences of those of the upper and the lower bounds."""

    x: Any
    y: Any
    pull: Any


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
    guess = None if start is None else _guess(problem, start)
    at, status, count = _solver(limit, max_iterations)(problem, guess)
    return QPSolution(at.x, at.y, at.prices[0], at.prices[1], status, count)


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
    bounds = rnp.stack([lower, upper])
    # Infinite bounds of the other sign, and NaN, stay: no point is within them.
    is_bound = bounds != np.array([[-np.inf], [np.inf]], dtype)
    return _Problem(p, q, a, b, g, rnp.where(is_bound, bounds, 0), is_bound.astype(dtype))


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


def _guess(problem: _Problem, start: QPSolution) -> _Guess:
    """Return the solution of a problem nearby."""
    x, y, lower, upper = (rnp.asarray(v, problem.q.dtype) for v in start[:4])
    return _Guess(x, y, upper - lower)


def _cold(problem: _Problem) -> _Iterate:
    """Return zeros, with slacks and multipliers of one."""
    x, y = rnp.zeros_like(problem.q), rnp.zeros_like(problem.b)
    return _inside(problem, x, y, problem.is_bound, 1.0)


def _warm(problem: _Problem, guess: _Guess) -> _Iterate:
    """Return a guess, moved from the boundary."""
    return _inside(problem, guess.x, guess.y, _prices(problem, guess.pull), 1e-2)


def _prices(problem: _Problem, pull: Any) -> Any:
    """Return the multipliers of the lower and the upper bounds, `[2, m]`."""
    return problem.is_bound * rnp.maximum(rnp.stack([-pull, pull]), 0)


def _inside(problem: _Problem, x: Any, y: Any, prices: Any, least: float) -> _Iterate:
    """Return an iterate whose slacks and multipliers are `least` or more."""
    slacks = rnp.maximum(_within(problem, problem.g @ x), least)
    return _Iterate(
        x,
        y,
        problem.is_bound * rnp.maximum(prices, least),
        rnp.where(problem.is_bound > 0, slacks, 1),
    )


def _signed(sides: Any) -> Any:
    """Return what is added to the lower and the upper side of a constraint, `[2, m]` or `[m]`."""
    return sides * np.array([[1], [-1]], sides.dtype)


def _pulled(problem: _Problem, y: Any, pull: Any) -> Any:
    """Return the derivatives of the constraints, weighted by their multipliers."""
    pulled = pull @ problem.g
    return y @ problem.a + pulled if y.shape[0] else pulled


def _within(problem: _Problem, bounded: Any) -> Any:
    """Return how far inside of its bounds `g @ x` is, `[2, m]`."""
    return _signed(bounded - problem.bounds)


class _Residuals(NamedTuple):
    """What the conditions of optimality are off by, and the size of their terms."""

    dual: Any
    equal: Any
    bounds: Any
    scale_dual: Any
    scale_primal: Any


def _residuals(problem: _Problem, at: _Iterate) -> _Residuals:
    curved, pulled = problem.p @ at.x, _pulled(problem, at.y, at.prices[1] - at.prices[0])
    equal, bounded = problem.a @ at.x, problem.g @ at.x
    return _Residuals(
        curved + problem.q + pulled,
        equal - problem.b,
        problem.is_bound * (_within(problem, bounded) - at.slacks),
        1 + _largest(problem.q, curved, pulled),
        1 + _largest(problem.b, equal, bounded),
    )


def _largest(*arrays: Any) -> Any:
    sizes = [rnp.max(rnp.abs(x)) for x in arrays if 0 not in x.shape]
    return functools.reduce(rnp.maximum, sizes) if sizes else 0


def _factored(problem: _Problem, at: _Iterate) -> System:
    """Factor the matrix of `x` and `y` that is left when bounds are eliminated."""
    ratios = at.prices / at.slacks
    return factored(problem.p, problem.a, problem.g, ratios[0] + ratios[1])


def _step(
    problem: _Problem, at: _Iterate, system: System, dual: Any, equal: Any, products: Any
) -> _Iterate:
    """Return the solution of the Newton equations for their right sides.

    p @ x + a.T @ y + g.T @ (upper - lower) = dual               a @ x = equal
    prices * slacks' + slacks * prices' = products, where slacks' = g @ x or -g @ x

    `products` of bounds that are absent are zero.
    """
    n = problem.q.shape[0]
    ratios = products / at.slacks
    right = dual + (ratios[0] - ratios[1]) @ problem.g
    found = system(rnp.concatenate([right, equal]))
    x, y = found[:n], found[n:]
    slacks = problem.is_bound * _signed(problem.g @ x)
    return _Iterate(x, y, (products - at.prices * slacks) / at.slacks, slacks)


def _solver(tolerance: float, max_iterations: int) -> CustomJvp:
    """Return the iterations as a function whose derivatives are those of the solution."""
    solve = custom_jvp(functools.partial(_iterate, tolerance, max_iterations))

    def moved(primals: Any, tangents: Any) -> Any:
        problem = primals[0]
        found = solve(*primals)
        change = _moved(problem, found, tangents[0])
        return found, change

    solve.defjvp(moved)
    return solve


def _iterate(
    tolerance: float, max_iterations: int, problem: _Problem, guess: _Guess | None
) -> tuple[_Iterate, Any, Any]:
    """Return the last iterate, the status and the number of steps."""

    def continues(state: Any) -> Any:
        *_, status, count = state
        return (status == Status.MAX_ITERATIONS) & (count < max_iterations)

    def step(state: Any) -> Any:
        at, off, _, count = state
        at = _predicted_and_corrected(problem, at, off)
        off = _residuals(problem, at)
        return at, off, _status(problem, at, off, tolerance), count + 1

    first, status, count = _cold(problem), np.int32(Status.MAX_ITERATIONS), np.int32(0)
    if guess is not None:
        first, status, count = _guessed(problem, guess, tolerance, max_iterations)
    at, _, status, count = while_loop(
        continues, step, (first, _residuals(problem, first), status, count)
    )
    return at, status, count


def _guessed(
    problem: _Problem, guess: _Guess, tolerance: float, max_iterations: int
) -> tuple[_Iterate, Any, Any]:
    """Return the solution, if few guesses of the active bounds find it, or where to start.

    Of a guess one system is solved; the signs of its multipliers and of its slacks are the next
    guess (a primal-dual active set method; Hintermueller, Ito and Kunisch, 2002).
    """

    def continues(state: Any) -> Any:
        *_, is_solved, count = state
        return ~is_solved & (count < min(_GUESSES, max_iterations))

    def step(state: Any) -> Any:
        guess, _, _, count = state
        guess = _with_active(problem, guess)
        slacks = rnp.maximum(_within(problem, problem.g @ guess.x), np.finfo(guess.x.dtype).eps)
        slacks = rnp.where(problem.is_bound > 0, slacks, 1)
        at = _Iterate(guess.x, guess.y, _prices(problem, guess.pull), slacks)
        status = _status(problem, at, _residuals(problem, at), tolerance)
        return guess, at, status == Status.SOLVED, count + 1

    start = guess, _warm(problem, guess), np.bool_(False), np.int32(0)
    _, at, is_solved, count = while_loop(continues, step, start)
    first = tree_map(lambda a, b: rnp.where(is_solved, a, b), at, start[1])
    status = rnp.where(is_solved, Status.SOLVED, Status.MAX_ITERATIONS).astype(np.int32)
    return first, status, count


def _with_active(problem: _Problem, guess: _Guess) -> _Guess:
    """Return the solution with the bounds as equations at which a guess has its multipliers.

    They are stiff terms of the cost first, whose forces are multipliers then (Hestenes, 1969).
    """
    within = _within(problem, problem.g @ guess.x)
    active = problem.is_bound * (_prices(problem, guess.pull) > within)
    is_active = rnp.max(active, 0)
    bound = rnp.where(active[0] > 0, *problem.bounds)
    curvature = problem.p.data if isinstance(problem.p, SparseMatrix) else problem.p
    root = float(np.finfo(np.dtype(problem.q.dtype)).eps) ** 0.5
    stiff = rnp.maximum(_largest(curvature), 1) / root * is_active
    system = factored(problem.p, problem.a, problem.g, stiff)

    def corrected(at: _Guess, _: Any) -> Any:
        dual = problem.p @ at.x + problem.q + _pulled(problem, at.y, at.pull)
        beyond = is_active * (problem.g @ at.x - bound)
        right = rnp.concatenate([dual + (stiff * beyond) @ problem.g, problem.a @ at.x - problem.b])
        x, y = rnp.split(-system(right), [at.x.shape[0]])
        return _Guess(at.x + x, at.y + y, at.pull + stiff * (problem.g @ x + beyond)), None

    first = guess._replace(pull=is_active * guess.pull)
    found: _Guess = scan(corrected, first, None, length=_CORRECTIONS)[0]
    return found


def _predicted_and_corrected(problem: _Problem, at: _Iterate, off: _Residuals) -> _Iterate:
    """Return the next iterate: a step to the boundary says how far to centre the step taken."""
    system = _factored(problem, at)
    count = rnp.maximum(rnp.sum(problem.is_bound), 1)
    products = at.prices * at.slacks
    mean = rnp.sum(products) / count

    def towards(state: Any, _: Any) -> Any:
        """Return the step that makes the products smaller, and what they are off then."""
        less, _, _ = state
        right = -problem.is_bound * less - at.prices * off.bounds
        change = _step(problem, at, system, -off.dual, -off.equal, right)
        change = change._replace(slacks=change.slacks + off.bounds)
        length = _length(at, change)
        end = _moved_by(at, change, length)
        left = rnp.sum(end.prices * end.slacks) / count
        centre = (left / rnp.maximum(mean, np.finfo(problem.q.dtype).tiny)) ** 3 * mean
        return (products + change.prices * change.slacks - centre, change, length), None

    start = products, tree_map(rnp.zeros_like, at), rnp.zeros_like(mean)
    _, change, length = scan(towards, start, None, length=2)[0]
    return _moved_by(at, change, rnp.minimum(_NEAR_BOUNDARY * length, 1))


def _moved_by(at: _Iterate, change: _Iterate, length: Any) -> _Iterate:
    return _Iterate(*(v + length * dv for v, dv in zip(at, change, strict=True)))


def _length(at: _Iterate, change: _Iterate) -> Any:
    """Return how often a step can be taken until a slack or a multiplier is zero."""

    def ratios(positive: Any, moves: Any) -> Any:
        shrinks = moves < 0
        return rnp.where(shrinks, -positive / rnp.where(shrinks, moves, 1), 1 / _NEAR_BOUNDARY)

    least = rnp.minimum(ratios(at.prices, change.prices), ratios(at.slacks, change.slacks))
    return rnp.min(least, initial=1 / _NEAR_BOUNDARY)


def _status(problem: _Problem, at: _Iterate, off: _Residuals, tolerance: float) -> Any:
    """Return how far the iterations are: `MAX_ITERATIONS` as long as they go on."""
    products = rnp.sum(at.prices * at.slacks)
    cost = rnp.abs(problem.q @ at.x) + at.x @ (problem.p @ at.x)
    primal = _largest(off.equal, off.bounds)
    solved = (
        (primal <= tolerance * off.scale_primal)
        & (_largest(off.dual) <= tolerance * off.scale_dual)
        & (products <= _GAP * tolerance * (1 + cost))
    )
    infeasible = _is_infeasible(problem, at, tolerance)
    unbounded = _is_unbounded(problem, at, tolerance)
    failed = ~rnp.isfinite(rnp.sum(at.x) + products + primal)
    found = rnp.where(unbounded, Status.UNBOUNDED, Status.MAX_ITERATIONS)
    found = rnp.where(infeasible, Status.INFEASIBLE, found)
    found = rnp.where(solved, Status.SOLVED, found)
    return rnp.where(failed, Status.FAILED, found).astype(np.int32)


def _is_infeasible(problem: _Problem, at: _Iterate, tolerance: float) -> Any:
    """True if no point of a 1-norm below `1 / tolerance` satisfies the constraints (Farkas).

    Every feasible point has `rows @ x <= value` of the multipliers' combination of constraints.
    """
    rows = _pulled(problem, at.y, at.prices[1] - at.prices[0])
    value = problem.b @ at.y - rnp.sum(_signed(problem.bounds * at.prices))
    return _largest(rows) < -tolerance * value


def _is_unbounded(problem: _Problem, at: _Iterate, tolerance: float) -> Any:
    """True if no multipliers of a 1-norm below `1 / tolerance` balance the objective at `x`.

    Far along `x` the objective is linear, and decreases within the bounds.
    """
    leaves = -problem.is_bound * _signed(problem.g @ at.x)
    off = _largest(problem.p @ at.x, problem.a @ at.x, rnp.maximum(leaves, 0))
    return off < -tolerance * (problem.q @ at.x)


def _moved(problem: _Problem, found: Any, tangents: _Problem) -> Any:
    """Return the tangents of a solution: its conditions of optimality keep on holding."""
    at, status, count = found
    stiffest = float(np.finfo(np.dtype(problem.q.dtype)).eps) ** 0.5
    # Multipliers' changes are differences of products with the slacks' inverses.
    at = at._replace(slacks=rnp.maximum(at.slacks, stiffest * at.prices))

    def conditions(data: _Problem) -> tuple[Any, Any, Any]:
        off = _residuals(data, at)
        return off.dual, off.equal, at.prices * off.bounds

    changes = jvp(conditions, (problem,), (tangents,))[1]
    right = tree_map(rnp.negative, changes)
    change = _step(problem, at, _factored(problem, at), *right)
    return only_if_solved(change, status), rnp.zeros_like(status), rnp.zeros_like(count)
