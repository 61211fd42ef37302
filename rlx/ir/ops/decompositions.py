"""Orthogonal decompositions of matrices, over f32, f64 and complex numbers, and eigenvalues.

Matrices are the last two axes; leading axes are a batch of independent slices. NaN and infinities
make a slice NaN throughout. Vectors have the sign in which their largest component, the first among
equals, is positive; complex ones the direction, where those whose squared sizes are within a
thousandth of the largest are equals.
"""

from __future__ import annotations

from rlx.errors import ShapeError
from rlx.ir.declaration import op
from rlx.ir.lowering import Library, lowered_by
from rlx.ir.op import Trait
from rlx.ir.ops.requirements import require_dtype, require_rank
from rlx.ir.types import TensorType

__all__ = ["eig", "eigh", "qr", "schur", "svd"]

_FAMILY = "linalg"
_DTYPES = "f32 f64 complex"


@op(_FAMILY, Trait.ALL_ELEMENTS)
def qr(a: TensorType, *, full: bool = False) -> tuple[TensorType, TensorType]:
    """Factor as `q @ r` with orthonormal columns and an upper triangle, by Householder reflections.

    Of `[..., m, n]`, `q` is `[..., m, min(m, n)]`, or `[..., m, m]` if `full`, and `r` fits. Signs
    are those of LAPACK: the diagonal of `r` is real.
    """
    rows, columns = _extents(a)
    inner = rows if full else min(rows, columns)
    lead = a.shape[:-2]
    return a.with_shape((*lead, rows, inner)), a.with_shape((*lead, inner, columns))


@op(_FAMILY, Trait.ALL_ELEMENTS)
def eigh(a: TensorType) -> tuple[TensorType, TensorType]:
    """Eigenvalues, ascending, and eigenvectors (columns) of symmetric matrices, by Jacobi's method.

    Complex ones are Hermitian. Only the lower triangle is read, of its diagonal the real parts.
    """
    _require_square(a, _DTYPES)
    return _real(a.with_shape(a.shape[:-1])), a


@op(_FAMILY, Trait.ALL_ELEMENTS)
def eig(a: TensorType) -> tuple[TensorType, TensorType]:
    """Eigenvalues and eigenvectors (columns) of general complex matrices, by Francis's iteration.

    Values ascend by their real, then their imaginary parts; those of a matrix without imaginary
    parts are real or in conjugate pairs. Vectors have norm 1, and the first component whose squared
    size is within a thousandth of the largest is positive. A slice of which not all values are
    found is NaN.
    """
    _require_square(a, "c64 c128")
    return a.with_shape(a.shape[:-1]), a


@op(_FAMILY, Trait.ALL_ELEMENTS)
def schur(a: TensorType) -> tuple[TensorType, TensorType]:
    """Factor general matrices as `z @ t @ z.H`: unitary, and an upper triangle.

    Complex eigenvalues ascend along the diagonal, as far as rounding lets them. Of real matrices
    both factors are real, and a pair of complex eigenvalues is a block of two on the diagonal of
    `t`: equal entries there, off-diagonal ones of opposite sign, the larger above; they
    are in the order of the iteration. Columns of `z` have the direction of vectors. A slice whose
    values are not all found is NaN.
    """
    _require_square(a, _DTYPES)
    return a, a


@op(_FAMILY, Trait.ALL_ELEMENTS)
def svd(a: TensorType, *, full: bool = False) -> tuple[TensorType, TensorType, TensorType]:
    """Factor as `u @ diag(s) @ vt`, with `s` descending, by rotations of columns.

    Of `[..., m, n]`, with `m` not below `n`, `u` is `[..., m, n]`, or `[..., m, m]` if `full`.
    Complex rows of `vt` are conjugates of the right vectors.
    """
    rows, columns = _extents(a)
    if rows < columns:
        raise ShapeError(
            f"a has shape {a.describe_shape()}; it must have at least as many rows as columns",
            remedy="decompose its transpose",
        )
    lead = a.shape[:-2]
    u = a.with_shape((*lead, rows, rows if full else columns))
    return u, _real(a.with_shape((*lead, columns))), a.with_shape((*lead, columns, columns))


@lowered_by(qr, Library)
@lowered_by(eigh, Library)
@lowered_by(svd, Library)
def _decompose_by_library(_: Library, a: TensorType, **__: object) -> None:
    """LAPACK's `geqrf` and `orgqr`, `syevd`, `gesdd`, one matrix on one thread."""
    require_dtype(a, _DTYPES, "a")


@lowered_by(eig, Library)
def _eig_by_library(_: Library, a: TensorType, **__: object) -> None:
    """LAPACK's `geev`, of real matrices that for real ones."""
    require_dtype(a, "c64 c128", "a")


def _real(a: TensorType) -> TensorType:
    return a.with_dtype(a.dtype.part)


def _require_square(a: TensorType, dtypes: str) -> None:
    rows, columns = _extents(a, dtypes)
    if rows != columns:
        raise ShapeError(
            f"a has shape {a.describe_shape()}; its last two extents must be equal",
            remedy="pass square matrices",
        )


def _extents(a: TensorType, dtypes: str = _DTYPES) -> tuple[int, int]:
    require_dtype(a, dtypes, "a")
    require_rank(a, 2, "a")
    rows, columns = a.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise ShapeError(
            f"a has shape {a.describe_shape()}; the extents of its matrices must be static",
            remedy="bind the symbol, or pad the matrices",
        )
    return rows, columns
