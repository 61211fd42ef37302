"""`jax.numpy.linalg`: `rlx.numpy.linalg`, and `matrix_rank`, whose `rtol` is second in JAX."""

from __future__ import annotations

from typing import Any

from rlx.numpy import linalg
from rlx.numpy.linalg import *  # noqa: F403


def matrix_rank(  # type: ignore[no-redef]  # NumPy's has a number, and no ratio, there
    M: Any,  # noqa: N803
    rtol: Any = None,
    hermitian: bool = False,
    *,
    tol: Any = None,
) -> Any:
    """How many singular values are larger than `rtol` of the largest."""
    ratio = rtol if rtol is not None else tol
    return linalg.matrix_rank(M, rtol=ratio, hermitian=hermitian)
