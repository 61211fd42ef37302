"""Window functions of a known number of points: constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlx.numpy.axes import count_from
from rlx.tracing.apply import as_tracer, function


@function
def bartlett(m: int) -> Any:
    """A triangle, zero at both ends."""
    return as_tracer(np.bartlett(count_from(m, "M")))


@function
def blackman(m: int) -> Any:
    """Three cosine terms, nearly zero at both ends."""
    return as_tracer(np.blackman(count_from(m, "M")))


@function
def hamming(m: int) -> Any:
    """A raised cosine, 0.08 at both ends."""
    return as_tracer(np.hamming(count_from(m, "M")))


@function
def hanning(m: int) -> Any:
    """A raised cosine, zero at both ends."""
    return as_tracer(np.hanning(count_from(m, "M")))


@function
def kaiser(m: int, beta: float) -> Any:
    """A window by a Bessel function, narrower for larger `beta`."""
    return as_tracer(np.kaiser(count_from(m, "M"), beta))
