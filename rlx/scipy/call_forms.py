"""SciPy's and JAX's names and order of parameters, where they are not those of ours."""

from __future__ import annotations

SPECIAL = """
kl_div: p=x q=y
log_ndtr: x series_order
rel_entr: p=x q=y
"""

LINALG = """
cho_factor: a lower overwrite_a check_finite
cho_solve: c_and_lower b overwrite_b check_finite
det: a overwrite_a check_finite
eigh_tridiagonal: d e eigvals_only select select_range tol key
expm: A=a upper_triangular max_squarings
inv: a overwrite_a check_finite
lu: a permute_l overwrite_a check_finite
lu_factor: a overwrite_a check_finite
lu_solve: lu_and_piv b trans overwrite_b check_finite
polar: a side method eps max_iterations
solve_triangular: a b trans lower unit_diagonal overwrite_b debug check_finite
"""

STATS = """
mode: a axis nan_policy keepdims
rankdata: a method axis nan_policy
sem: a axis ddof nan_policy keepdims
"""
