"""The linear systems of an interior point method, with dense or with sparse matrices.

    p x + a.T y + g.T v = right        a x = equal        g x = v / weights

They are regularized by a small multiple of the identity, positive for `x` and negative for `y`.
Dense ones are of `x` and `y`, by elimination of `v`; sparse ones of all three, whose matrix is
quasidefinite: every order of elimination has factors (Vanderbei 1995).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.errors import ShapeError
from rlx.ir.shape import Shape
from rlx.ir.source_lines import calling_source
from rlx.numpy.systems import cholesky, lu_with_order, solve_triangular
from rlx.sparse.matrix import SparseMatrix
from rlx.sparse.pattern import from_entries
from rlx.tracing.trace import shape_of

System = Callable[[Any], Any]
"""Returns `x` and `y` for `right` and `equal`, each pair as one vector."""


def shape_of_matrix(x: Any) -> Shape:
    """Return the shape of an array or of a sparse matrix."""
    return x.shape if isinstance(x, SparseMatrix) else shape_of(x)


def as_sparse(x: Any, dtype: Any) -> SparseMatrix:
    """Return a matrix as a sparse one; of a dense one, all entries are stored."""
    if isinstance(x, SparseMatrix):
        return SparseMatrix(rnp.asarray(x.data, dtype), x.pattern)
    shape = shape_of(x)
    if len(shape) != 2:
        raise ShapeError(
            f"solve_qp: a matrix of shape {shape} with sparse ones",
            source=calling_source(),
            remedy="give matrices p, a and g",
        )
    height, width = map(int, shape)
    rows, columns = np.indices((height, width))
    pattern = from_entries(rows.ravel(), columns.ravel(), (height, width))
    return SparseMatrix(rnp.ravel(rnp.asarray(x, dtype)), pattern)


def factored(p: Any, a: Any, g: Any, weights: Any) -> System:
    """Factor the regularized system of an iterate."""
    make = _sparse if isinstance(p, SparseMatrix) else _dense
    return make(p, a, g, weights, float(np.finfo(np.dtype(weights.dtype)).eps) ** 0.75)


def _dense(p: Any, a: Any, g: Any, weights: Any, small: float) -> System:
    """Return a solver whose solutions are NaN where the matrix is singular."""
    k = a.shape[0]
    hessian = p + (g * weights[:, None]).T @ g
    least = rnp.maximum(float(np.finfo(np.dtype(p.dtype)).eps) * rnp.diag(hessian), small)
    if k == 0:
        return _definite(hessian + rnp.diag(least))
    diagonal = rnp.concatenate([least, rnp.full(k, -small, p.dtype)])
    matrix = rnp.block([[hessian, a.T], [a, rnp.zeros((k, k), p.dtype)]])
    factors, _, order = lu_with_order(matrix + rnp.diag(diagonal))

    def solve(right: Any) -> Any:
        nan = "nan"
        half = solve_triangular(
            factors, right[order], lower=True, unit_diagonal=True, on_singular=nan
        )
        return solve_triangular(factors, half, on_singular=nan)

    return solve


def _definite(matrix: Any) -> System:
    factor = cholesky(matrix, symmetrize_input=False, on_singular="nan")

    def solve(right: Any) -> Any:
        half = solve_triangular(factor, right, lower=True, on_singular="nan")
        return solve_triangular(factor, half, trans=1, lower=True, on_singular="nan")

    return solve


def _sparse(p: Any, a: Any, g: Any, weights: Any, small: float) -> System:
    (k, n), m = a.shape, g.shape[0]
    ends, size = np.arange(n + k + m), n + k + m
    dtype = p.dtype
    parts = [
        (p.pattern.rows, p.indices, p.data),
        *_beside(a, n),
        *_beside(g, n + k),
        (ends[:n], ends[:n], rnp.full(n, small, dtype)),
        (ends[n : n + k], ends[n : n + k], rnp.full(k, -small, dtype)),
        (ends[n + k :], ends[n + k :], -1 / rnp.maximum(weights, small**2)),
    ]
    rows, columns = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    pattern = from_entries(rows, columns, (size, size))
    places = np.searchsorted(pattern.rows * size + pattern.indices, rows * size + columns)
    values = rnp.concatenate([part[2] for part in parts])
    data = rnp.zeros(pattern.nnz, dtype).at[places].add(values)
    factors = SparseMatrix(data, pattern).ldl()
    return lambda right: factors.solve(rnp.concatenate([right, rnp.zeros(m, dtype)]))[: n + k]


def _beside(x: SparseMatrix, first: int) -> list[tuple[Any, Any, Any]]:
    """Return the entries of a matrix in the rows from `first` on, and those of its transpose."""
    rows = x.pattern.rows + first
    return [(rows, x.indices, x.data), (x.indices, rows, x.data)]
