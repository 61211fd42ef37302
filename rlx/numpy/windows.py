"""Window functions of a known number of points: constants."""

from __future__ import annotations

import numpy as np

from rlx.ir.dtype import DType
from rlx.numpy.axes import count_from
from rlx.runtime.arrays import Array
from rlx.tracing.apply import convert, function
from rlx.tracing.widths import natural


@function
def bartlett(M: int) -> Array:
    """A triangle, zero at both ends."""
    return convert(np.bartlett(count_from(M, "M")), natural(DType.F64))


@function
def blackman(M: int) -> Array:
    """Three cosine terms, nearly zero at both ends."""
    return convert(np.blackman(count_from(M, "M")), natural(DType.F64))


@function
def hamming(M: int) -> Array:
    """A raised cosine, 0.08 at both ends."""
    return convert(np.hamming(count_from(M, "M")), natural(DType.F64))


@function
def hanning(M: int) -> Array:
    """A raised cosine, zero at both ends."""
    return convert(np.hanning(count_from(M, "M")), natural(DType.F64))


@function
def kaiser(M: int, beta: float) -> Array:
    """A window by a Bessel function, narrower for larger `beta`."""
    return convert(np.kaiser(count_from(M, "M"), beta), natural(DType.F64))
