"""How the iterations of a solver ended."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """How the iterations of a solver ended; solvers return it as an i32."""

    SOLVED = 0
    """The conditions of optimality hold to the tolerance."""
    MAX_ITERATIONS = 1
    """The last of the iterations did not reach the tolerance."""
    INFEASIBLE = 2
    """No point satisfies the constraints: the multipliers are a certificate."""
    UNBOUNDED = 3
    """The objective has no lower bound: `x` is a direction in which it decreases forever."""
    FAILED = 4
    """A number is NaN: the arguments had one, or a matrix is indefinite."""
