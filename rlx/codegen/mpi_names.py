"""Names of the functions by which kernels reach other ranks.

What folds elements is named by what it does: `rlx_mpi_all_reduce_sum_f32`.
"""

from __future__ import annotations

from rlx.ir.dtype import DType

PREFIX = "rlx_mpi_"


def is_collective(symbol: str) -> bool:
    """True for a function that reaches other ranks, and is built with MPI."""
    return symbol.startswith(PREFIX)


def fold_name(collective: str, reduction: str, dtype: DType) -> str:
    """Return the name, without prefix, of the function that folds `dtype` over ranks."""
    return f"{collective}_{reduction}_{dtype}"
