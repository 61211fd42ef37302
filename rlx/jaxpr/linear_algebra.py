"""Rules of decompositions and solvers of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.lax as lax
from rlx.errors import UnsupportedError
from rlx.jaxpr.internals import JaxprEqn, user_source
from rlx.jaxpr.interpret import rule
from rlx.lax import linalg
from rlx.tracing.trace import element_type


def _refuse_subset(equation: JaxprEqn) -> None:
    if equation.params.get("subset_by_index") is not None:
        raise UnsupportedError(
            f"from_jax: {equation.primitive.name} of a part of the spectrum (subset_by_index)",
            source=user_source(equation),
            remedy="compute all values, and slice them",
        )


@rule("cholesky")
def cholesky(_: JaxprEqn, a: Any) -> Any:
    return linalg.cholesky(a, symmetrize_input=False)


@rule("cholesky_update")
def cholesky_update(_: JaxprEqn, r: Any, w: Any) -> Any:
    return linalg.cholesky_update(r, w)


@rule("lu")
def lu(_: JaxprEqn, a: Any) -> Any:
    return list(linalg.lu(a))


@rule("lu_pivots_to_permutation")
def lu_pivots_to_permutation(equation: JaxprEqn, pivots: Any) -> Any:
    return linalg.lu_pivots_to_permutation(pivots, int(equation.params["permutation_size"]))


@rule("triangular_solve")
def triangular_solve(equation: JaxprEqn, a: Any, b: Any) -> Any:
    if element_type(a).dtype.is_low_precision:
        a, b = (lax.convert_element_type(x, np.float32) for x in (a, b))
    names = ("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal")
    return linalg.triangular_solve(a, b, **{n: bool(equation.params[n]) for n in names})


@rule("tridiagonal_solve")
def tridiagonal_solve(equation: JaxprEqn, lower: Any, diagonal: Any, upper: Any, b: Any) -> Any:
    if equation.params.get("perturb_singular"):
        raise UnsupportedError(
            "from_jax: tridiagonal_solve with perturb_singular=True, which moves pivots near zero",
            source=user_source(equation),
            remedy="leave it out; solutions of singular systems are infinite or NaN",
        )
    return linalg.tridiagonal_solve(lower, diagonal, upper, b)


@rule("qr")
def qr(equation: JaxprEqn, a: Any) -> Any:
    params = equation.params
    return list(linalg.qr(a, pivoting=params["pivoting"], full_matrices=params["full_matrices"]))


@rule("geqrf")
def geqrf(_: JaxprEqn, a: Any) -> Any:
    return list(linalg.geqrf(a))


@rule("householder_product")
def householder_product(_: JaxprEqn, a: Any, taus: Any) -> Any:
    return linalg.householder_product(a, taus)


@rule("ormqr")
def ormqr(equation: JaxprEqn, a: Any, taus: Any, c: Any) -> Any:
    params = equation.params
    return linalg.ormqr(a, taus, c, left=params["left"], transpose=params["transpose"])


@rule("svd")
def svd(equation: JaxprEqn, a: Any) -> Any:
    _refuse_subset(equation)
    params = equation.params
    if not params["compute_uv"]:
        return [linalg.svd(a, full_matrices=False, compute_uv=False)]
    left, values, right = linalg.svd(a, full_matrices=params["full_matrices"])
    return [values, left, right]


@rule("eigh")
def eigh(equation: JaxprEqn, a: Any) -> Any:
    _refuse_subset(equation)
    return list(linalg.eigh(a, lower=equation.params["lower"], symmetrize_input=False))


@rule("eig")
def eig(equation: JaxprEqn, a: Any) -> Any:
    params = equation.params
    return linalg.eig(
        a,
        compute_left_eigenvectors=params["compute_left_eigenvectors"],
        compute_right_eigenvectors=params["compute_right_eigenvectors"],
    )


@rule("schur")
def schur(equation: JaxprEqn, a: Any) -> Any:
    params = equation.params
    return list(
        linalg.schur(
            a,
            compute_schur_vectors=params["compute_schur_vectors"],
            sort_eig_vals=params["sort_eig_vals"],
            select_callable=params["select_callable"],
        )
    )


@rule("hessenberg")
def hessenberg(_: JaxprEqn, a: Any) -> Any:
    return list(linalg.hessenberg(a))


@rule("tridiagonal")
def tridiagonal(equation: JaxprEqn, a: Any) -> Any:
    return list(linalg.tridiagonal(a, lower=equation.params["lower"]))


@rule("symmetric_product")
def symmetric_product(equation: JaxprEqn, a: Any, c: Any) -> Any:
    return linalg.symmetric_product(
        a, c, alpha=equation.params["alpha"], beta=equation.params["beta"]
    )
