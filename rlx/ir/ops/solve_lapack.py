"""Linear systems solved by the BLAS library; passes make this op, people write `solve`."""

from __future__ import annotations

from typing import Literal

from rlx.ir.composite import composite
from rlx.ir.graph import Value
from rlx.ir.ops.solve import solve

__all__ = ["solve_lapack"]


@composite("linalg")
def solve_lapack(
    a: Value,
    b: Value,
    *,
    vector: bool = False,
    transposed: bool = False,
    on_singular: Literal["error", "nan"] = "error",
) -> Value:
    """`solve` by LAPACK's `gesv`, one slice after the other."""
    x: Value = solve(a, b, vector=vector, transposed=transposed, on_singular=on_singular)
    return x
