"""Quadratic programs, random and degenerate, and infeasible and unbounded ones."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[np.float64]]
Problem = dict[str, Array]
"""Arguments of `solve_qp`: p, q, a, b, g, lower, upper."""

KINDS = (
    "random", "bounds", "one_sided", "flat", "linear", "equations", "dependent_rows",
    "touching_bounds", "tight", "scaled",
)  # fmt: skip


def drawn(kind: str, seed: int) -> Problem:
    """Return a feasible and bounded problem of up to 12 unknowns."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n, m, k = int(rng.integers(2, 13)), int(rng.integers(1, 16)), int(rng.integers(1, 3))
    inside = rng.normal(size=n)
    factor = rng.normal(size=(n, n if kind not in ("flat", "tight") else max(1, n // 2)))
    p, q = factor @ factor.T, rng.normal(size=n)
    a, g = np.zeros((0, n)), rng.normal(size=(m, n))
    lower, upper = g @ inside - rng.random(m), g @ inside + rng.random(m)
    if kind == "bounds":
        g, lower, upper = np.eye(n), inside - rng.random(n), inside + rng.random(n)
    if kind == "one_sided":
        lower[rng.random(m) < 0.6] = -np.inf
        upper[rng.random(m) < 0.6] = np.inf
    if kind in ("flat", "linear", "tight"):  # bounds of x, which the objective lacks
        g = np.vstack([g, np.eye(n)])
        lower, upper = np.append(lower, inside - 1), np.append(upper, inside + 1)
    if kind == "linear":
        p = np.zeros((n, n))
    if kind in ("equations", "dependent_rows", "scaled"):
        a = rng.normal(size=(min(k, n - 1), n))
    if kind == "dependent_rows":
        a = np.vstack([a, a.sum(0), 2 * a[0]])
        g, lower, upper = (np.concatenate([x, x]) for x in (g, lower, upper))
    if kind == "touching_bounds":  # an equation among the inequalities
        upper[0] = lower[0]
    if kind == "tight":  # the corner of many bounds is the solution
        q = -p @ inside - (g * rng.random((len(g), 1))).sum(0)
        upper = g @ inside
    if kind == "scaled":
        sizes = 10.0 ** rng.uniform(-2, 2, n)
        p, q, a, g = p * np.outer(sizes, sizes), q * sizes, a * sizes, g * sizes
        inside = inside / sizes
    return {"p": p, "q": q, "a": a, "b": a @ inside, "g": g, "lower": lower, "upper": upper}


UNKNOWNS, EQUATIONS, BOUNDS = 12, 4, 32


def padded(problem: Problem) -> Problem:
    """Return the problem with rows of zeros and without bounds, and unknowns that are zero."""
    n = len(problem["q"])
    p = np.eye(UNKNOWNS)
    p[:n, :n] = problem["p"]
    return {
        "p": p,
        "q": _grown(problem["q"], (UNKNOWNS,)),
        "a": _grown(problem["a"], (EQUATIONS, UNKNOWNS)),
        "b": _grown(problem["b"], (EQUATIONS,)),
        "g": _grown(problem["g"], (BOUNDS, UNKNOWNS)),
        "lower": _grown(problem["lower"], (BOUNDS,), -np.inf),
        "upper": _grown(problem["upper"], (BOUNDS,), np.inf),
    }


def _grown(array: Array, shape: tuple[int, ...], fill: float = 0.0) -> Array:
    grown = np.full(shape, fill)
    grown[tuple(slice(extent) for extent in array.shape)] = array
    return grown


def cost(problem: Problem, x: Array) -> float:
    return float(x @ problem["p"] @ x / 2 + problem["q"] @ x)


def violation(problem: Problem, x: Array) -> float:
    """Return by how much a point violates the constraints, relative to their terms."""
    along = problem["g"] @ x
    parts = (problem["a"] @ x - problem["b"], problem["lower"] - along, along - problem["upper"])
    off = max(abs(parts[0]).max(initial=0), parts[1].max(initial=0), parts[2].max(initial=0))
    return float(off / (1 + abs(along).max(initial=0)))
