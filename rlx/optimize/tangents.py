"""Linear systems of solutions' derivatives: small, dense, of any tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.transforms.batch import jacfwd
from rlx.transforms.ravel import ravel_pytree


def solve_dense(linear: Callable[[Any], Any], right: Any) -> Any:
    """Return the tree `x` with `linear(x) = right`, by elimination; NaN in a singular system."""
    vector, unravel = ravel_pytree(right)
    matrix = jacfwd(lambda v: ravel_pytree(linear(unravel(v)))[0])(vector)
    return unravel(rnp.linalg.solve(matrix, vector, on_singular="nan"))
