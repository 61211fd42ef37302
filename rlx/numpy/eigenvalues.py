"""Eigenvalues of general matrices, and what follows from them; leading axes are batches.

Values are complex, and ascend by their real, then their imaginary parts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rlx.errors import ShapeError
from rlx.ir import ops
from rlx.ir.source_lines import calling_source
from rlx.numpy import elementwise
from rlx.numpy.axes import static_shape
from rlx.numpy.indexing import take
from rlx.numpy.reductions import any, argmax
from rlx.numpy.shaping import concatenate, expand_dims, flip
from rlx.numpy.sorting import argsort
from rlx.runtime.arrays import Array
from rlx.tracing.apply import emit_several, function, inexact
from rlx.tracing.errors import ConcretizationError
from rlx.tracing.trace import TracedArray, current_trace


class EigResult(NamedTuple):
    """Complex eigenvalues, and eigenvectors in columns."""

    eigenvalues: Any
    eigenvectors: Any


@function
def eig(a: Any) -> EigResult:
    """Eigenvalues and eigenvectors of general square matrices.

    Vectors have norm 1 and a positive largest component. What the iteration does not solve, and
    matrices that are not finite, give NaN.
    """
    return EigResult(*emit_several(ops.eig, _as_complex(a)))


@function
def eigvals(a: Any) -> Array:
    """The eigenvalues of general square matrices."""
    return eig(a).eigenvalues


@function
def schur_form(a: Any) -> tuple[Any, Any]:
    """`t` and a unitary `z` with `a = z @ t @ z.H`; of real matrices real, with blocks of two."""
    (a,) = inexact(a)
    is_small = a.value.dtype.is_float and a.value.dtype.size < 4
    t, z = emit_several(ops.schur, elementwise.astype(a, "f32") if is_small else a)
    return t, z


def roots(p: Any, *, strip_zeros: bool = True) -> Array:
    """The zeros of a polynomial, by the eigenvalues of its companion matrix.

    Leading zeros are left out if `strip_zeros`, which takes known coefficients; if not, the result
    ends in as many NaN.
    """
    if not strip_zeros:
        return _roots(p)
    if current_trace() is not None or isinstance(p, TracedArray):
        raise ConcretizationError(
            "roots gives as many zeros as the polynomial has, which is not known while tracing",
            source=calling_source(),
            remedy="pass strip_zeros=False",
        )
    return _roots(np.trim_zeros(np.atleast_1d(np.asarray(p)), "f"))


@function
def _roots(p: Any) -> Any:
    """Return the zeros by descending size, then NaN for each leading coefficient of 0."""
    p = _as_complex(p)
    if p.ndim != 1:
        raise ShapeError(
            f"p has {p.ndim} axes; a polynomial has one", remedy="use vmap for several"
        )
    (count,) = static_shape(p)
    if count < 2:
        return elementwise.multiply(p[:0], 1)
    present = elementwise.not_equal(p, 0)
    is_zero = elementwise.logical_not(any(present))
    leading = elementwise.where(is_zero, count - 1, argmax(present))
    trailing = argmax(flip(present))
    moved = take(p, elementwise.remainder(elementwise.add(np.arange(count), leading), count))
    degree = elementwise.subtract(count - 1, elementwise.add(leading, trailing))
    found = _zeros(elementwise.where(is_zero, 1, moved), degree)
    found = take(found, argsort(elementwise.negative(elementwise.abs(found))))
    exists = elementwise.less(np.arange(count - 1), elementwise.subtract(count - 1, leading))
    return elementwise.where(exists, found, complex(np.nan, np.nan))


def _zeros(p: Any, degree: Any) -> Any:
    """Return the eigenvalues of the matrix whose characteristic polynomial is `p`.

    Coefficients after `degree` are 0: as many values are exactly 0.
    """
    (count,) = static_shape(p)
    first = expand_dims(elementwise.negative(elementwise.divide(p[1:], p[0])), 0)
    is_kept = elementwise.less(np.arange(1, count - 1), degree)
    kept = elementwise.astype(expand_dims(is_kept, -1), p.dtype)
    below = elementwise.multiply(kept, np.eye(count - 2, count - 1, dtype=p.dtype))
    return eigvals(concatenate([first, below], 0))


def _as_complex(x: Any) -> Any:
    """Return an array as complex numbers with parts of its own precision, f32 at least."""
    (x,) = inexact(x)
    if x.value.dtype.is_complex:
        return x
    return elementwise.astype(x, "c128" if x.value.dtype.size == 8 else "c64")
