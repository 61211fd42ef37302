"""Solutions of quadratic programs: SciPy's, with their derivatives and statuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import rlx
from rlx.errors import ShapeError
from rlx.optimize import QPSolution, Status, solve_qp
from rlx.sparse import SparseMatrix
from rlx.sparse.pattern import from_entries
from tests.aot.building import Loaded
from tests.optimize.problems import KINDS, Array, Problem, cost, drawn, padded, violation
from tests.sparse.test_elimination import matrix_of

NAMES = ("p", "q", "a", "b", "g", "lower", "upper")
SEEDS = range(7)
PROBLEMS = [(kind, seed) for kind in KINDS for seed in SEEDS]
NONE = np.zeros((0, 2))


@rlx.jit
@rlx.vmap
def solved(*arguments: Any) -> QPSolution:
    return solve_qp(*arguments)


def solutions(problems: list[Problem]) -> QPSolution:
    """Solve many problems at once."""
    grown = [padded(problem) for problem in problems]
    found: QPSolution = solved(*(np.stack([problem[name] for problem in grown]) for name in NAMES))
    return found


def by_scipy(problem: Problem) -> Array:
    """Return the minimizer by sequential least squares, without rows that depend on others."""
    p, q = problem["p"], problem["q"]
    rows = np.column_stack([problem["g"], problem["lower"], problem["upper"]])
    g, lower, upper = np.split(np.unique(rows, axis=0), [len(q), len(q) + 1], axis=1)
    rank = np.linalg.matrix_rank(problem["a"]) if problem["a"].size else 0
    a, b = problem["a"][:rank], problem["b"][:rank]
    bounds = [(g, lower[:, 0], 1), (g, upper[:, 0], -1)]
    constraints: list[dict[str, Any]] = [
        {"type": "ineq", "fun": lambda x, g=g[i], c=c[i], s=s: s * (g @ x - c), "jac": s * g[i]}
        for g, c, s in bounds for i in np.flatnonzero(np.isfinite(c))
    ]  # fmt: skip
    for each in constraints:
        each["jac"] = lambda x, row=each["jac"]: row  # noqa: ARG005  SciPy calls it with x
    constraints += [{"type": "eq", "fun": lambda x: a @ x - b, "jac": lambda _: a}] if rank else []
    found = minimize(
        lambda x: x @ p @ x / 2 + q @ x, np.zeros(len(q)), jac=lambda x: p @ x + q,
        method="SLSQP", constraints=constraints, options={"ftol": 1e-13, "maxiter": 1000},
    )  # fmt: skip
    return np.asarray(found.x)


@pytest.mark.slow
def test_random_and_degenerate_problems_have_scipys_minimum() -> None:
    found = solutions([drawn(*each) for each in PROBLEMS])
    assert (np.asarray(found.status) == Status.SOLVED).all()
    assert np.asarray(found.iterations).max() < 15
    for (kind, seed), x in zip(PROBLEMS, np.asarray(found.x), strict=True):
        problem = drawn(kind, seed)
        own, other = x[: len(problem["q"])], by_scipy(problem)
        assert violation(problem, own) < 1e-7, (kind, seed)
        if violation(problem, other) < 1e-7:
            least = cost(problem, other)
            assert abs(cost(problem, own) - least) < 1e-6 * (1 + abs(least)), (kind, seed)


def test_random_and_degenerate_problems_have_the_minimum_of_osqp() -> None:
    ca: Any = pytest.importorskip("casadi")
    found = solutions([drawn(*each) for each in PROBLEMS])
    for (kind, seed), x in zip(PROBLEMS, np.asarray(found.x), strict=True):
        problem = drawn(kind, seed)
        rows, n = np.vstack([problem["a"], problem["g"]]), len(problem["q"])
        sparsity = {"h": ca.Sparsity.dense(n, n), "a": ca.Sparsity.dense(*rows.shape)}
        options = {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iter": 400_000, "verbose": False}
        peer = ca.conic("peer", "osqp", sparsity, {"osqp": options})(
            h=problem["p"], g=problem["q"], a=rows,
            lba=np.append(problem["b"], problem["lower"]),
            uba=np.append(problem["b"], problem["upper"]),
        )  # fmt: skip
        least = cost(problem, np.array(peer["x"]).ravel())
        assert abs(cost(problem, x[:n]) - least) < 1e-6 * (1 + abs(least)), (kind, seed)


@rlx.jit
@rlx.vmap
def solved_sparse(p: Any, q: Any, a: Any, b: Any, g: Any, lower: Any, upper: Any) -> QPSolution:
    return solve_qp(stored(p), q, stored(a), b, stored(g), lower, upper)


def stored(x: Any) -> SparseMatrix:
    """Return a sparse matrix with all entries of an array."""
    rows, columns = np.indices(x.shape)
    return SparseMatrix(x.ravel(), from_entries(rows.ravel(), columns.ravel(), x.shape))


@pytest.mark.slow
def test_sparse_matrices_give_the_solutions_of_dense_ones() -> None:
    problems = [drawn(*each) for each in PROBLEMS]
    grown = [padded(problem) for problem in problems]
    given = [np.stack([problem[name] for problem in grown]) for name in NAMES]
    found, dense = solved_sparse(*given), solutions(problems)
    assert (np.asarray(found.status) == Status.SOLVED).all()
    for problem, own, other in zip(grown, np.asarray(found.x), np.asarray(dense.x), strict=True):
        assert violation(problem, own) < 1e-7
        assert abs(cost(problem, own) - cost(problem, other)) < 1e-6 * (1 + abs(cost(problem, own)))


@pytest.mark.slow
def test_a_long_horizon_is_solved_by_sparse_factors() -> None:
    """A double integrator of 100 steps to rest: the entries of the factors are few a step."""
    steps = 100
    n = 3 * steps
    states = np.kron(np.eye(steps), [[1.0, 0, 0], [0, 1, 0]])
    moves = np.kron(np.eye(steps, k=-1), [[1.0, 0.1, 0], [0, 1, 0]])
    inputs = np.kron(np.eye(steps), [[0.0, 0, 0.005], [0, 0, 0.1]])
    a, p = states - moves - inputs, np.kron(np.eye(steps), np.diag([1.0, 0.1, 0.01]))
    b = np.append([1.0, 0.5], np.zeros(2 * steps - 2))
    lower = np.tile([-np.inf, -0.6, -1.0], steps)
    arrays = (np.zeros(n), b, lower, -lower)

    def solve(p: Any, a: Any, q: Any, b: Any, lower: Any, upper: Any) -> QPSolution:
        return solve_qp(p, q, a, b, lower=lower, upper=upper)

    sparse = [matrix_of(each) for each in (p, a)]
    found, dense = rlx.jit(solve)(*sparse, *arrays), rlx.jit(solve)(p, a, *arrays)
    assert int(found.status) == int(dense.status) == Status.SOLVED
    np.testing.assert_allclose(found.x, dense.x, atol=1e-5)

    def first(b: Any, p: Any, a: Any) -> Any:
        q, _, low, high = arrays
        return solve(p, a, q, b, low, high).x[2]

    slopes = [rlx.jit(rlx.grad(first))(b, *matrices) for matrices in (sparse, (p, a))]
    np.testing.assert_allclose(slopes[0], slopes[1], atol=1e-5)


ROWS: tuple[tuple[str, tuple[Any, ...], Status], ...] = (
        ("crossed bounds", (np.eye(2), [0.0, 0], NONE, [], np.eye(2), [2.0, 0], [1.0, 1]),
         Status.INFEASIBLE),
        ("equation outside of bounds",
         (np.eye(2), [1.0, 1], [[1.0, 1]], [5.0], np.eye(2), [0.0, 0], [1.0, 1]),
         Status.INFEASIBLE),
        ("contradicting equations",
         (np.eye(2), [1.0, 1], [[1.0, 1], [1, 1]], [1.0, 2], NONE, [], []), Status.INFEASIBLE),
        ("linear without bounds", (np.zeros((2, 2)), [1.0, 0], NONE, [], NONE, [], []),
         Status.UNBOUNDED),
        ("linear with bounds on one side",
         (np.zeros((2, 2)), [-1.0, 1], NONE, [], np.eye(2), [0.0, 0], [np.inf] * 2),
         Status.UNBOUNDED),
        ("flat along an equation",
         (np.diag([1.0, 0]), [0.0, -1], [[1.0, 0]], [3.0], NONE, [], []), Status.UNBOUNDED),
        ("not a number", (np.eye(2), [np.nan, 0], NONE, [], NONE, [], []), Status.FAILED),
)  # fmt: skip
IMPOSSIBLE: dict[str, tuple[Problem, Status]] = {
    name: (dict(zip(NAMES, map(np.asarray, arrays), strict=True)), status)
    for name, arrays, status in ROWS
}


def test_problems_without_solution_are_named() -> None:
    found = solutions([problem for problem, _ in IMPOSSIBLE.values()])
    named = dict(zip(IMPOSSIBLE, map(Status, map(int, found.status)), strict=True))
    assert named == {name: status for name, (_, status) in IMPOSSIBLE.items()}


BOX = (
    np.array([[3.0, 1, 0], [1, 2, 0.5], [0, 0.5, 1]]), np.array([1.0, -2, 3]),
    np.array([[1.0, 1, 1]]), np.array([0.5]), np.eye(3), np.full(3, -0.6), np.full(3, 0.8),
)  # fmt: skip


@rlx.jit
def box(*arguments: Any) -> QPSolution:
    return solve_qp(*arguments, tolerance=1e-11)


@pytest.mark.slow
def test_a_start_near_the_solution_saves_iterations_and_keeps_it() -> None:
    cold = box(*BOX)
    moved = (BOX[0], BOX[1] + 1e-3, *BOX[2:])
    warm = rlx.jit(lambda start, *a: solve_qp(*a, start=start, tolerance=1e-11))(cold, *moved)
    again = box(*moved)
    assert int(warm.iterations) < int(again.iterations)
    np.testing.assert_allclose(warm.x, again.x, atol=1e-9)


@rlx.jit
@rlx.vmap
def solved_from(start: QPSolution, *arguments: Any) -> QPSolution:
    return solve_qp(*arguments, start=start)


@pytest.mark.slow
def test_any_start_leads_to_the_minimum() -> None:
    """The solution itself takes one system, where its active bounds are plain."""
    grown = [padded(drawn(*each)) for each in PROBLEMS]
    given = [np.stack([problem[name] for problem in grown]) for name in NAMES]
    found = solved(*given)
    rng = np.random.default_rng(5)
    starts = {
        "itself": found,
        "another": QPSolution(*(np.roll(np.asarray(part), 7, 0) for part in found)),
        "nothing": QPSolution(*map(np.zeros_like, found)),
        "noise": QPSolution(*(rng.normal(size=part.shape) for part in found[:4]), *found[4:]),
        "nan": QPSolution(*(np.full_like(part, np.nan) for part in found[:4]), *found[4:]),
    }
    for name, start in starts.items():
        again = solved_from(start, *given)
        if name == "nan":  # a point from which nothing leads on
            assert (np.asarray(again.status) == Status.FAILED).all()
            continue
        assert (np.asarray(again.status) == Status.SOLVED).all(), name
        for problem, x, other in zip(grown, np.asarray(again.x), np.asarray(found.x), strict=True):
            least = cost(problem, other)
            assert violation(problem, x) < 1e-7, name
            assert abs(cost(problem, x) - least) < 1e-6 * (1 + abs(least)), name
        if name == "itself":
            assert np.median(again.iterations) == 1


@pytest.mark.slow
def test_problems_without_solution_are_named_from_any_start() -> None:
    grown = [padded(problem) for problem, _ in IMPOSSIBLE.values()]
    given = [np.stack([problem[name] for problem in grown]) for name in NAMES]
    found = solved_from(solved(*given), *given)
    named = dict(zip(IMPOSSIBLE, map(Status, map(int, found.status)), strict=True))
    assert named == {name: status for name, (_, status) in IMPOSSIBLE.items()}


@pytest.mark.slow
def test_derivatives_are_those_of_the_solution_from_any_start() -> None:
    start = box(*BOX)

    def total(*arguments: Any, **start: Any) -> Any:
        found = solve_qp(*arguments, tolerance=1e-11, **start)
        return (found.x * found.x).sum() + found.y.sum()

    cold = rlx.jit(rlx.grad(total, argnums=tuple(range(7))))(*BOX)
    warm = rlx.jit(rlx.grad(lambda *a: total(*a, start=start), argnums=tuple(range(7))))(*BOX)
    for one, other in zip(cold, warm, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.slow
def test_derivatives_of_a_solution_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=3), rng.normal(size=1)

    @rlx.jit
    def value(arguments: Any) -> Any:
        found = solve_qp(*arguments, tolerance=1e-11)
        return weights[0] @ found.x + weights[1] @ found.y + found.lower.sum() - found.upper.sum()

    slopes = rlx.jit(rlx.grad(value))(BOX)
    for place, slope in enumerate(slopes):
        direction = rng.normal(size=BOX[place].shape)
        direction = direction + direction.T if place == 0 else direction
        ends = []
        for length in (1e-5, -1e-5):
            moved = list(BOX)
            moved[place] = BOX[place] + length * direction
            ends.append(float(value(tuple(moved))))
        numeric = (ends[0] - ends[1]) / 2e-5
        assert abs(float((slope * direction).sum()) - numeric) < 1e-5 * (1 + abs(numeric)), place


def test_single_precision_is_kept() -> None:
    single: list[Any] = [each.astype(np.float32) for each in BOX]
    found = rlx.jit(solve_qp)(*single)
    assert found.x.dtype == np.float32
    assert int(found.status) == Status.SOLVED
    np.testing.assert_allclose(found.x, box(*BOX).x, atol=2e-3)


@pytest.mark.slow
def test_c_of_a_solver_returns_the_solution(tmp_path: Path) -> None:
    p, q = BOX[0], BOX[1]
    bounded = rlx.jit(lambda q: solve_qp(p, q, lower=-np.ones(3), upper=np.ones(3)).x)
    loaded = Loaded(
        rlx.aot(bounded, tmp_path, name="qp", example_inputs=[q]), "int qp_run(void *);"
    )
    (given,), (found,) = loaded.manifest["inputs"], loaded.manifest["outputs"]
    assert loaded.call("init", loaded.arena, loaded.block.size) == 0
    loaded.view("inputs", given["name"])[:] = q
    assert loaded.call("setup", loaded.arena) == loaded.call("run", loaded.arena) == 0
    np.testing.assert_allclose(loaded.view("outputs", found["name"]), bounded(q), atol=1e-12)


@pytest.mark.parametrize("name", ["p", "b", "lower"])
def test_shapes_that_do_not_fit_are_named(name: str) -> None:
    arguments: dict[str, Any] = dict(zip(NAMES, BOX, strict=True))
    arguments[name] = np.ones(7)
    with pytest.raises(ShapeError, match=rf"solve_qp: {name} has shape"):
        solve_qp(**arguments)


@pytest.mark.parametrize(
    ("lower", "upper"), [([np.nan, 0], [1, 1]), ([np.inf, 0], [np.inf, 1]), ([0, 0], [1, -np.inf])]
)
def test_bounds_that_nothing_is_within_are_no_absent_ones(lower: Any, upper: Any) -> None:
    found = solve_qp(
        np.eye(2),
        np.ones(2),
        g=np.eye(2),
        lower=np.array(lower, float),
        upper=np.array(upper, float),
    )
    assert found.status == Status.FAILED
