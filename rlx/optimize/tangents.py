"""Derivatives of solutions: small dense linear systems of any tree, NaN where nothing is solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rlx.numpy as rnp
from rlx.optimize.status import Status
from rlx.tracing.pytree import tree_map
from rlx.transforms.batch import jacfwd
from rlx.transforms.custom_jvp import custom_jvp
from rlx.transforms.ravel import ravel_pytree


def solve_dense(linear: Callable[[Any], Any], right: Any) -> Any:
    """Return the tree `x` with `linear(x) = right`, by elimination; NaN in a singular system."""
    vector, unravel = ravel_pytree(right)
    matrix = jacfwd(lambda v: ravel_pytree(linear(unravel(v)))[0])(vector)
    return unravel(rnp.linalg.solve(matrix, vector, on_singular="nan"))


def only_if_solved(change: Any, status: Any) -> Any:
    """Return a tangent as it is, or NaN: the implicit function theorem holds at solutions alone."""
    factor = rnp.where(status == Status.SOLVED, 1.0, rnp.nan)
    return tree_map(lambda x: x * factor.astype(x.dtype), change)


@custom_jvp
def with_status(point: Any, status: Any) -> Any:
    """Return `point`, whose derivatives are NaN where the status is not `SOLVED`."""
    del status
    return point


@with_status.defjvp
def _with_status(primals: Any, tangents: Any) -> Any:
    point, status = primals
    return point, only_if_solved(tangents[0], status)
