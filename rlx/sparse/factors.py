"""Factors of a sparse matrix, which solve systems with derivatives."""

from __future__ import annotations

from typing import Any

import rlx.numpy as rnp
from rlx.custom import apply
from rlx.dataclass import dataclass
from rlx.errors import ShapeError, UnsupportedError
from rlx.ir.source_lines import calling_source
from rlx.sparse.factorization import sparse_factor, sparse_substitute, tables_of
from rlx.sparse.ordering import structure_of
from rlx.sparse.pattern import Integers
from rlx.tracing.pytree import register_pytree_node
from rlx.tracing.trace import shape_of
from rlx.transforms.differentiate import stop_gradient
from rlx.transforms.implicit import custom_linear_solve


@dataclass(frozen=True, slots=True, eq=False)
class Factors:
    """A square sparse matrix with its factors, in an order that keeps their entries few.

    `SparseMatrix.lu` and `SparseMatrix.ldl` make them. They pass through `rlx.jit` and loops as
    trees.
    """

    matrix: Any
    """The `SparseMatrix` itself: residuals and derivatives are computed from it."""
    symmetric: bool
    _values: Any
    """Values of the lower and the upper factor, and the reciprocals of the pivots: constants to
    derivatives, which those of solutions do not go through."""

    @property
    def order(self) -> Integers:
        """The order of elimination, `[n]`."""
        return structure_of(self.matrix.pattern).order

    @property
    def nnz(self) -> int:
        """Entries of one factor, without its diagonal."""
        return structure_of(self.matrix.pattern).upper.nnz

    def solve(self, b: Any) -> Any:
        """Return x with `matrix @ x = b`, a vector `[n]` or a matrix `[n, k]`.

        By substitution, and once more with the residual, which makes up for small pivots.
        Derivatives are those of the solution, with the same factors. Raises `ShapeError` for
        another extent of `b`.
        """
        require_right_side(self.matrix, b)
        right = rnp.asarray(b).astype(rnp.result_type(self.matrix.data, b))
        return custom_linear_solve(
            lambda x: self.matrix @ x,
            right,
            lambda times, b: self._refined(times, b, transposed=False),
            lambda times, b: self._refined(times, b, transposed=True),
            symmetric=self.symmetric,
        )

    def _refined(self, times: Any, b: Any, *, transposed: bool) -> Any:
        x = self._substituted(b, transposed=transposed)
        return x + self._substituted(b - times(x), transposed=transposed)

    def _substituted(self, b: Any, *, transposed: bool) -> Any:
        pattern = self.matrix.pattern
        structure = structure_of(pattern)
        dtype = rnp.result_type(b)
        wide = rnp.reshape(b, (pattern.shape[0], -1 if b.size else 0))
        found = apply(
            sparse_substitute,
            *(rnp.asarray(each, dtype) for each in self._values),
            wide,
            tables_of(structure, symmetric=self.symmetric),
            size=pattern.shape[0],
            entries=structure.upper.nnz,
            transposed=transposed and not self.symmetric,
        )
        return rnp.reshape(found, b.shape)


def factored(matrix: Any, *, symmetric: bool) -> Factors:
    """Return the factors of a square matrix of f32 or f64.

    Raises:
        ShapeError: the matrix is not square.
        UnsupportedError: it is complex, or a factor would have too many entries.
    """
    require_square(matrix)
    pattern, data = matrix.pattern, rnp.asarray(matrix.data)
    if matrix.dtype.kind == "c":
        raise UnsupportedError(
            f"the factors of a sparse matrix of {matrix.dtype}",
            source=calling_source(),
            remedy="use SparseMatrix.solve, which eliminates in blocks",
        )
    structure = structure_of(pattern)
    values = apply(
        sparse_factor,
        stop_gradient(data.astype(rnp.promote_types(data.dtype, "float32"))),
        tables_of(structure, symmetric=symmetric),
        size=pattern.shape[0],
        entries=structure.upper.nnz,
        symmetric=symmetric,
    )
    return Factors(matrix, symmetric, tuple(values))


def require_square(matrix: Any) -> None:
    """Raise ShapeError unless a sparse matrix is square."""
    if matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(
            f"factors of a sparse matrix of shape {matrix.shape}",
            source=calling_source(),
            remedy="give a square matrix",
        )


def require_right_side(matrix: Any, b: Any) -> None:
    """Raise ShapeError unless `matrix` is square and has as many rows as `b`."""
    shape, (rows, columns) = shape_of(b), matrix.shape
    if rows != columns or len(shape) not in (1, 2) or shape[0] != rows:
        raise ShapeError(
            f"solve: a sparse matrix of shape {matrix.shape} and a right side of shape {shape}",
            source=calling_source(),
            remedy="give a square matrix, and a right side of as many rows",
        )


def _unflatten(symmetric: Any, children: Any) -> Factors:
    matrix, values = children
    return Factors(matrix, symmetric, values)


register_pytree_node(Factors, lambda f: ((f.matrix, f._values), f.symmetric), _unflatten)
