"""Inverses of the normal distribution function and of the error function, exact in both tails.

Source: Wichura, Algorithm AS 241: The percentage points of the normal distribution (1988).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rlx.numpy import elementwise
from rlx.runtime.arrays import Array
from rlx.tracing.apply import function, inexact
from rlx.transforms.custom_jvp import custom_jvp

_ROOT_2, _ROOT_PI = math.sqrt(2.0), math.sqrt(math.pi)
_CENTER = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
"""Numerator and denominator in `0.180625 - q**2`, for q = p - 1/2 up to `CENTRAL`."""
CENTRAL, _CENTRAL_2 = 0.425, 0.180625
_TAIL = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177,
     1.27045825245236838258, 3.64784832476320460504, 5.7694972214606914055,
     4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966,
     0.14810397642748007459, 0.68976733498510000455, 1.6763848301838038494,
     2.05319162663775882187, 1.0),
)  # fmt: skip
"""In `r - 1.6`, for r = sqrt(-log(tail)) up to 5."""
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386,
     0.026532189526576123093, 0.29656057182850489123, 1.7848265399172913358,
     5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5,
     7.868691311456132591e-4, 0.0148753612908506148525, 0.13692988092273580531,
     0.59983220655588793769, 1.0),
)  # fmt: skip
"""In `r - 5` beyond."""


@function
def ndtri(p: Any, /) -> Array:
    """The inverse of `ndtr`: -inf at 0, inf at 1, NaN outside of [0, 1]."""
    (p,) = inexact(p)
    return _ndtri(p)


@custom_jvp
def _ndtri(p: Any) -> Any:
    rest = elementwise.subtract(1, p)
    lower = elementwise.less(p, 0.5)
    return _quantile(elementwise.subtract(p, 0.5), elementwise.where(lower, p, rest))


@_ndtri.defjvp
def _ndtri_jvp(primals: Any, tangents: Any) -> Any:
    x = _ndtri(primals[0])
    slope = elementwise.exp(elementwise.multiply(0.5, elementwise.square(x)))
    return x, tangents[0] * (_ROOT_2 * _ROOT_PI) * slope


def erfinv(x: Any, /) -> Array:
    """The inverse of the error function; infinite at -1 and 1, NaN outside."""
    return _erfinv(x)


@custom_jvp
def _erfinv(x: Any) -> Any:
    return _inverse_of_erf(x)


@_erfinv.defjvp
def _erfinv_jvp(primals: Any, tangents: Any) -> Any:
    y = _erfinv(primals[0])
    return y, tangents[0] * (_ROOT_PI / 2) * elementwise.exp(elementwise.square(y))


@function
def _inverse_of_erf(x: Any) -> Any:
    (x,) = inexact(x)
    half = elementwise.multiply(0.5, x)
    tail = elementwise.subtract(0.5, elementwise.abs(half))
    y = elementwise.multiply(1 / _ROOT_2, _quantile(half, tail))
    return elementwise.where(elementwise.equal(x, 0), x, y)  # the sign of zero


def _quantile(center: Any, tail: Any) -> Any:
    """Return the quantile from `p - 1/2` and `min(p, 1 - p)`, whichever is exact.

    Of the three quotients of polynomials one is evaluated, whose coefficients are selected.
    """
    inside = elementwise.logical_and(elementwise.greater(tail, 0), elementwise.less_equal(tail, 1))
    near = elementwise.less_equal(elementwise.abs(center), CENTRAL)
    q = elementwise.where(near, center, 0.0)
    safe = elementwise.where(
        elementwise.logical_and(inside, elementwise.logical_not(near)), tail, 0.01
    )
    r = elementwise.sqrt(elementwise.negative(elementwise.log(safe)))
    far = elementwise.greater(r, 5)
    x = elementwise.subtract(r, elementwise.where(far, r.dtype.type(5), r.dtype.type(1.6)))
    x = elementwise.where(near, elementwise.subtract(_CENTRAL_2, elementwise.square(q)), x)

    def selected(*coefficients: float) -> Any:
        middle, tail, beyond = map(x.dtype.type, coefficients)
        if middle == tail == beyond:
            return middle
        return elementwise.where(near, middle, elementwise.where(far, beyond, tail))

    quotient = _ratio(
        [
            [selected(*each) for each in zip(*polynomials, strict=True)]
            for polynomials in zip(_CENTER, _TAIL, _FAR, strict=True)
        ],
        x,
    )
    outer = elementwise.where(inside, quotient, np.inf)
    outer = elementwise.where(elementwise.greater_equal(tail, 0), outer, np.nan)
    signed = elementwise.where(elementwise.less(center, 0), elementwise.negative(outer), outer)
    return elementwise.where(near, elementwise.multiply(q, quotient), signed)


def central_quantile(center: Any) -> Any:
    """Return the quantile of `center + 1/2`, for a center up to `CENTRAL` in size."""
    coefficients = [[center.dtype.type(c) for c in each] for each in _CENTER]
    argument = elementwise.subtract(_CENTRAL_2, elementwise.square(center))
    return elementwise.multiply(center, _ratio(coefficients, argument))


def _ratio(polynomials: Sequence[Sequence[Any]], x: Any) -> Any:
    """Return the quotient of two polynomials, whose highest coefficients are first."""

    def value(coefficients: Sequence[Any]) -> Any:
        found = coefficients[0]
        for coefficient in coefficients[1:]:
            found = elementwise.add(elementwise.multiply(found, x), coefficient)
        return found

    above, below = map(value, polynomials)
    return elementwise.divide(above, below)
