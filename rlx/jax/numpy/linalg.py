"""`jax.numpy.linalg`: `rlx.numpy.linalg`, and `matrix_rank`, whose `rtol` is a number in JAX."""

from __future__ import annotations

from typing import Any

from rlx.errors import InputError
from rlx.ir.source_lines import calling_source
from rlx.numpy import linalg
from rlx.numpy.linalg import *  # noqa: F403
from rlx.public_names import names_of as _names_of


def matrix_rank(  # type: ignore[no-redef]  # a ratio of the largest singular value, in NumPy
    M: Any,  # noqa: N803
    rtol: Any = None,
    *,
    hermitian: bool = False,
    tol: Any = None,
) -> Any:
    """How many singular values are larger than `rtol`, which is no ratio, in spite of its name."""
    if rtol is not None and tol is not None:
        raise InputError(
            f"matrix_rank: rtol={rtol!r} and tol={tol!r} are two names of one limit",
            source=calling_source(),
            remedy="pass one of them",
        )
    return linalg.matrix_rank(M, tol if rtol is None else rtol, hermitian)


__dir__ = _names_of(__name__)
