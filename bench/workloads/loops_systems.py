"""Many small linear systems, and a likelihood of many small terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.routine import Bound, FrontEnd, Function, Routine, gradient, samples
from bench.workload import Array

SYSTEMS = 100_000
TERMS = 500


def solve(library: FrontEnd) -> Function:
    def solution(a: Any, b: Any) -> Any:
        return library.numpy.linalg.solve(a, b[..., None])[..., 0]

    return solution


def loss_of_solve(library: FrontEnd) -> Function:
    solution = solve(library)

    def loss(a: Any, b: Any) -> Any:
        x = solution(a, b)
        return (x * x).sum()

    return loss


def _solves(n: int) -> tuple[Routine, ...]:
    def arguments() -> tuple[Array, ...]:
        a, b = samples((SYSTEMS, n, n), (SYSTEMS, n))
        return a + 2.0 * np.sqrt(n) * np.eye(n), b

    value, size = f"loops.solve_{n}.value", (f"N={n}",)
    both = ((SYSTEMS, n, n), (SYSTEMS, n))
    return (
        Routine(value, solve, arguments, Bound("solve", "value", both[1:], size)),
        Routine(
            f"loops.solve_{n}.gradient",
            gradient(loss_of_solve, (0, 1)),
            arguments,
            Bound("solve", "gradient", both, size),
            value,
        ),
    )


def likelihood(library: FrontEnd) -> Function:
    """Each datum has a term of its own, written out: a mixture of two bells."""
    xp = library.numpy

    def loss(params: Any, data: Any) -> Any:
        mean, width, share = params[0], params[1], params[2]
        total = 0.0
        for i in range(TERMS):
            away = (data[i] - mean * (1.0 + 0.001 * i)) / width
            total = total - xp.log(share * xp.exp(-0.5 * away * away) / width + 0.01)
        return total

    return loss


def _likelihood_arguments() -> tuple[Array, ...]:
    (data,) = samples((TERMS,))
    return np.array([0.1, 1.2, 0.7]), data


SYSTEM_ROWS = (
    *(program for n in (3, 4, 6, 12) for program in _solves(n)),
    Routine(
        "loops.likelihood.value",
        likelihood,
        _likelihood_arguments,
        Bound("likelihood", "value", ((),)),
    ),
    Routine(
        "loops.likelihood.gradient",
        gradient(likelihood, (0,)),
        _likelihood_arguments,
        Bound("likelihood", "gradient", ((3,),)),
        "loops.likelihood.value",
        peers=("rlx_c", "bound"),  # JAX takes more than a minute to compile it
    ),
)
