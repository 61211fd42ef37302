"""Pools: folds of windows, and the positions that they chose."""

from rlx.codegen.kernels.pool import pool as pool
from rlx.codegen.kernels.pool import select as select
