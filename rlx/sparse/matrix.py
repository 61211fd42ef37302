"""Compressed sparse row matrices: a static pattern, and traced values."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.dataclass import dataclass
from rlx.errors import ShapeError
from rlx.ir.source_lines import calling_source
from rlx.sparse.constant_indices import as_indices, taken
from rlx.sparse.elimination import needs_factors, solve
from rlx.sparse.factors import Factors, factored, require_right_side
from rlx.sparse.pattern import Integers, Pattern
from rlx.tracing.pytree import register_pytree_node
from rlx.tracing.trace import element_type, shape_of
from rlx.transforms.implicit import custom_linear_solve


@dataclass(frozen=True, slots=True, eq=False)
class SparseMatrix:
    """A matrix of which the elements in a `Pattern` are stored, row by row.

    It is a tree whose only leaf is `data`: it passes through `rlx.jit`, and `rlx.vmap` and
    derivatives are those of its values. `A @ x` takes vectors and matrices.
    """

    __array_ufunc__ = None  # `array @ matrix` must reach `__rmatmul__`

    data: Any
    """The values, `[nnz]`."""
    pattern: Pattern

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(element_type(self.data).dtype.numpy)

    @property
    def nnz(self) -> int:
        """The number of values."""
        return self.pattern.nnz

    @property
    def indptr(self) -> Integers:
        """For each row, where its values start in `data`; then their number."""
        return self.pattern.indptr

    @property
    def indices(self) -> Integers:
        """The column of each value."""
        return self.pattern.indices

    @property
    def T(self) -> SparseMatrix:  # noqa: N802  NumPy's name
        """The transposed matrix."""
        order = np.lexsort((self.pattern.rows, self.indices))
        return SparseMatrix(taken(self.data, order), self.pattern.T)

    def todense(self) -> Any:
        """Return the matrix as an array."""
        rows, columns = self.shape
        places = self.pattern.rows * columns + self.indices
        flat = rnp.zeros(rows * columns, self.dtype).at[as_indices(places)].set(self.data)
        return rnp.reshape(flat, (rows, columns))

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.csr_array` of the same values; not within a trace."""
        from scipy.sparse import csr_array

        return csr_array((np.asarray(self.data), self.indices, self.indptr), shape=self.shape)

    def __matmul__(self, x: Any) -> Any:
        """Return the product with a vector `[n]` or a matrix `[n, k]`."""
        shape, (rows, columns) = shape_of(x), self.shape
        if len(shape) not in (1, 2) or shape[0] != columns:
            raise ShapeError(
                f"a sparse matrix of shape {self.shape} times an array of shape {shape}",
                source=calling_source(),
                remedy=f"give a vector of {columns} elements, or a matrix of {columns} rows",
            )
        data = self.data if len(shape) == 1 else rnp.reshape(self.data, (self.nnz, 1))
        terms = data * taken(x, self.indices)
        each = self.nnz // max(rows, 1)
        if (self.pattern.row_sizes == each).all():
            return rnp.sum(rnp.reshape(terms, (rows, each, *shape[1:])), 1)
        zeros = rnp.zeros((rows, *shape[1:]), rnp.result_type(terms))
        return zeros.at[as_indices(self.pattern.rows)].add(terms)

    def __rmatmul__(self, x: Any) -> Any:
        """Return the product of a vector `[m]` or a matrix `[k, m]` with this one."""
        product = self.T @ (x if len(shape_of(x)) == 1 else rnp.swapaxes(x, 0, -1))
        return product if len(shape_of(x)) == 1 else rnp.swapaxes(product, 0, 1)

    def solve(self, b: Any) -> Any:
        """Return x with `self @ x = b`, a vector `[n]` or a matrix `[n, k]`.

        By block elimination (`sparse.elimination`) in an order of small bandwidth, where rows are
        exchanged within blocks; or by `lu`, where blocks would be too large and the diagonal has
        all its entries. Derivatives are those of the solution: forward and reverse mode solve once
        more. `ShapeError` for a matrix that is not square or another extent of `b`,
        `SingularMatrixError` where a block or an unknown cannot be eliminated.
        """
        require_right_side(self, b)
        if self.dtype.kind != "c" and needs_factors(self.pattern):
            return self.lu().solve(b)
        right = rnp.asarray(b).astype(rnp.result_type(self.data, b))
        return custom_linear_solve(
            lambda x: self @ x,
            right,
            lambda _, b: solve(self.pattern, self.data, b),
            lambda _, b: solve(self.pattern.T, self.T.data, b),
        )

    def lu(self) -> Factors:
        """Return lower and upper factors in an order of minimum degree, without pivots.

        That suits diagonally dominant matrices, and others whose pivots are not small: solutions
        are refined once. Factor once to solve for several right sides one after the other.
        """
        return factored(self, symmetric=False)

    def ldl(self) -> Factors:
        """Return the factors `L D L^T` of a symmetric matrix, in an order of minimum degree.

        Positive definite and quasidefinite matrices (a positive definite block, a negative
        definite one, and any entries between) have them in every order. Of each pair of entries
        one is read; half of the work of `lu`.
        """
        return factored(self, symmetric=True)

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"SparseMatrix({rows} x {columns}, {self.nnz} values of {self.dtype})"


def _unflatten(pattern: Any, leaves: Any) -> SparseMatrix:
    return SparseMatrix(leaves[0], pattern)


register_pytree_node(SparseMatrix, lambda matrix: ((matrix.data,), matrix.pattern), _unflatten)
