"""Window functions of a known number of points: constants."""

from __future__ import annotations

import numpy as np

from rlx.numpy.axes import count_from
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, function


@function
def bartlett(M: int) -> Array:
    """A triangle, zero at both ends."""
    return as_tracer(np.bartlett(count_from(M, "M")))


@function
def blackman(M: int) -> Array:
    """Three cosine terms, nearly zero at both ends."""
    return as_tracer(np.blackman(count_from(M, "M")))


@function
def hamming(M: int) -> Array:
    """A raised cosine, 0.08 at both ends."""
    return as_tracer(np.hamming(count_from(M, "M")))


@function
def hanning(M: int) -> Array:
    """A raised cosine, zero at both ends."""
    return as_tracer(np.hanning(count_from(M, "M")))


@function
def kaiser(M: int, beta: float) -> Array:
    """A window by a Bessel function, narrower for larger `beta`."""
    return as_tracer(np.kaiser(count_from(M, "M"), beta))
