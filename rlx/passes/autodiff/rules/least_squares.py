"""Derivatives of pseudo-inverses and solutions of least squares, of matrices that keep their rank.

The formulas of Golub and Pereyra (1973): of singular values, equal ones too, no gap divides.
"""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Value
from rlx.passes.algebra import adjoint
from rlx.passes.autodiff.registry import Derivatives, Pushforward, jvp


@jvp(ops.pseudo_inverse)
def pseudo_inverse_jvp(at: Pushforward, a: Value, rtol: Value) -> Derivatives:
    """dp = -p da p + p p.H da.H (1 - a p) + (1 - p a) da.H p.H p."""
    p, da = at.result, at.tangents[0]
    if da is None:
        return None
    down = ops.matmul(ops.matmul(p, adjoint(p)), adjoint(da))
    up = ops.matmul(adjoint(da), ops.matmul(adjoint(p), p))
    down = down - ops.matmul(ops.matmul(down, a), p)
    up = up - ops.matmul(p, ops.matmul(a, up))
    return down + up - ops.matmul(p, ops.matmul(da, p))


@jvp(ops.least_squares)
def least_squares_jvp(at: Pushforward, a: Value, b: Value, rtol: Value) -> Derivatives:
    """dx = p (db - da x) + p p.H da.H (b - a x) + (1 - p a) da.H p.H x."""
    x, (da, db, _) = at.result, at.tangents
    p = ops.pseudo_inverse(a, rtol)
    if da is None:
        return None if db is None else ops.matmul(p, db)
    moved = -ops.matmul(da, x) if db is None else db - ops.matmul(da, x)
    residual = ops.matmul(adjoint(da), b - ops.matmul(a, x))
    up = ops.matmul(adjoint(da), ops.matmul(adjoint(p), x))
    inside = moved + ops.matmul(adjoint(p), residual)
    return ops.matmul(p, inside - ops.matmul(a, up)) + up
