"""Special functions, as formulas; f32 and f64, with derivatives.

Errors are a few ulp away from zeros of the functions, where they are absolute.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.nn import activations
from rlx.nn.activations import erf as erf
from rlx.nn.activations import logsumexp as logsumexp
from rlx.numpy import elementwise
from rlx.numpy.axes import axes_of
from rlx.numpy.elementwise import sinc as sinc
from rlx.numpy.polynomials import polyval
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import expand_dims
from rlx.runtime.arrays import Array
from rlx.tracing.apply import as_tracer, emit, function, inexact
from rlx.tracing.kept_traces import kept
from rlx.tracing.only import only
from rlx.transforms.custom_jvp import custom_jvp

_ROOT_2 = math.sqrt(2.0)


@function
def erfc(x: Any, /) -> Array:
    """`1 - erf(x)`, exact in the tail."""
    (x,) = inexact(x)
    return emit(ops.erfc, x)


@function
def logit(x: Any, /) -> Array:
    """`log(x / (1 - x))`, with small relative errors near its zero 1/2."""
    (x,) = inexact(x)
    center = elementwise.subtract(elementwise.multiply(2, x), 1)
    near = elementwise.less(elementwise.abs(center), 0.5)
    ratio = elementwise.divide(center, elementwise.subtract(1, elementwise.where(near, x, 0.5)))
    far = elementwise.where(near, 0.25, x)
    outer = elementwise.subtract(elementwise.log(far), elementwise.log1p(elementwise.negative(far)))
    inner = elementwise.log1p(elementwise.where(near, ratio, 0))
    return elementwise.where(near, inner, outer)


@function
def xlogy(x: Any, y: Any, /) -> Array:
    """`x * log(y)`, 0 for x = 0."""
    return _xlogy(*inexact(x, y))


@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    is_zero = elementwise.logical_and(elementwise.equal(x, 0), elementwise.equal(y, y))  # no NaN
    product = elementwise.multiply(x, elementwise.log(elementwise.where(is_zero, 1, y)))
    return elementwise.where(is_zero, 0.0, product)


@_xlogy.defjvp
def _xlogy_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (of_x, of_y) = primals, tangents
    return _xlogy(x, y), of_x * elementwise.log(y) + of_y * elementwise.divide(x, y)


@function
def xlog1py(x: Any, y: Any, /) -> Array:
    """`x * log(1 + y)`, 0 for x = 0."""
    return _xlog1py(*inexact(x, y))


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    is_zero = elementwise.logical_and(elementwise.equal(x, 0), elementwise.equal(y, y))  # no NaN
    product = elementwise.multiply(x, elementwise.log1p(elementwise.where(is_zero, 0, y)))
    return elementwise.where(is_zero, 0.0, product)


@_xlog1py.defjvp
def _xlog1py_jvp(primals: Any, tangents: Any) -> Any:
    (x, y), (of_x, of_y) = primals, tangents
    return _xlog1py(x, y), of_x * elementwise.log1p(y) + of_y * elementwise.divide(
        x, elementwise.add(y, 1)
    )


@function
def entr(x: Any, /) -> Array:
    """`-x * log(x)`, 0 at 0 and -inf below."""
    (x,) = inexact(x)
    return _entr(x)


@custom_jvp
def _entr(x: Any) -> Any:
    inside = elementwise.negative(xlogy(x, elementwise.where(elementwise.less(x, 0), 1, x)))
    return elementwise.where(elementwise.less(x, 0), -np.inf, inside)


@_entr.defjvp
def _entr_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    slope = elementwise.negative(elementwise.add(elementwise.log(x), 1))  # infinite at 0
    return _entr(x), elementwise.multiply(tangents[0], slope)


@function
def rel_entr(x: Any, y: Any, /) -> Array:
    """`x * log(x / y)`, 0 at x = 0 where y is not negative, infinite elsewhere outside."""
    x, y = inexact(x, y)
    inside = elementwise.logical_and(elementwise.greater(x, 0), elementwise.greater(y, 0))
    ratio = elementwise.divide(elementwise.where(inside, x, 1), elementwise.where(inside, y, 1))
    at_zero = elementwise.logical_and(elementwise.equal(x, 0), elementwise.greater_equal(y, 0))
    found = elementwise.where(at_zero, 0.0, np.inf)
    return elementwise.where(inside, elementwise.multiply(x, elementwise.log(ratio)), found)


@function
def kl_div(x: Any, y: Any, /) -> Array:
    """`x * log(x / y) - x + y`."""
    return elementwise.add(elementwise.subtract(rel_entr(x, y), x), y)


@function
def softmax(x: Any, axis: Any = None) -> Array:
    """`exp(x) / sum(exp(x))` along axes, by default all."""
    return activations.softmax(x, axes_of(axis, as_tracer(x).ndim))


@function
def log_softmax(x: Any, axis: Any = None) -> Array:
    """The logarithm of `softmax`."""
    return activations.log_softmax(x, axes_of(axis, as_tracer(x).ndim))


# The normal distribution


@function
def ndtr(x: Any, /) -> Array:
    """The normal distribution function, with small relative errors in the lower tail."""
    result: Array = _ndtr(*inexact(x))
    return result


@custom_jvp
def _ndtr(x: Any) -> Any:
    z, rest = _over_root_2(elementwise.negative(x))
    # erfc(z + rest), as rounding z alone costs x**2 ulp in the tail
    slope = elementwise.multiply(2 / math.sqrt(math.pi), elementwise.exp(-elementwise.square(z)))
    return elementwise.multiply(
        0.5, elementwise.subtract(erfc(z), elementwise.multiply(slope, rest))
    )


@_ndtr.defjvp
def _ndtr_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    slope = elementwise.multiply(_exp_of_half_square(x), 1 / math.sqrt(2 * math.pi))
    return _ndtr(x), elementwise.multiply(tangents[0], slope)


def _exp_of_half_square(x: Any) -> Any:
    """Return `exp(-x**2 / 2)`; rounding the square would be an error of `x**2 / 2` ulp.

    The square of a multiple of 1/16 is exact, and the rest of it is small.
    """
    x = elementwise.clip(x, -_LARGEST_TAIL, _LARGEST_TAIL)  # 0 beyond, at infinity, too
    near = elementwise.divide(elementwise.round(elementwise.multiply(x, 16)), 16)
    rest = elementwise.multiply(elementwise.subtract(x, near), elementwise.add(x, near))
    first, last = (
        elementwise.exp(elementwise.multiply(-0.5, part))
        for part in (elementwise.square(near), rest)
    )
    return elementwise.multiply(first, last)


_LARGEST_TAIL = 64.0
"""Above it the normal density is 0 in f64."""


def _over_root_2(x: Any) -> tuple[Any, Any]:
    """Return `x / sqrt(2)` rounded, and what rounding took off (Dekker, 1971)."""
    splitter = 2.0**27 + 1 if x.value.dtype is DType.F64 else 2.0**12 + 1
    kind = np.float64 if x.value.dtype is DType.F64 else np.float32
    factor = kind(math.sqrt(0.5))
    high = kind(kind(splitter) * factor) - (kind(kind(splitter) * factor) - factor)
    low, lost = factor - high, kind(_LOST_OF_ROOT[kind])
    z = elementwise.multiply(x, factor)
    bounded = elementwise.clip(x, -_LARGEST_TAIL, _LARGEST_TAIL)
    scaled = elementwise.multiply(bounded, kind(splitter))
    upper = elementwise.subtract(scaled, elementwise.subtract(scaled, bounded))
    lower = elementwise.subtract(bounded, upper)
    rest = elementwise.subtract(
        elementwise.multiply(upper, high), elementwise.multiply(bounded, factor)
    )
    rest = elementwise.add(rest, elementwise.multiply(upper, low))
    rest = elementwise.add(rest, elementwise.multiply(lower, high))
    rest = elementwise.add(rest, elementwise.multiply(lower, low))
    return z, elementwise.add(rest, elementwise.multiply(bounded, lost))


_LOST_OF_ROOT = {np.float64: -4.833646656726457e-17, np.float32: 1.21016171e-08}
"""1 / sqrt(2) less its rounding."""


@function
def log_ndtr(x: Any, /) -> Array:
    """The logarithm of `ndtr`, by the asymptotic series far below zero."""
    (x,) = inexact(x)
    begin = -20.0 if x.value.dtype is DType.F64 else -10.0
    far = elementwise.less(x, begin)
    safe = elementwise.where(far, -1.0, x)
    deep = elementwise.where(far, x, begin)
    inverse = elementwise.divide(1, elementwise.square(deep))
    terms: Any = 1.0
    for factor in (15, 13, 11, 9, 7, 5, 3, 1):
        terms = elementwise.subtract(1.0, elementwise.multiply(terms, inverse * factor))
    tail = elementwise.multiply(-0.5, elementwise.square(deep))
    tail = elementwise.subtract(tail, elementwise.log(elementwise.negative(deep)))
    tail = elementwise.add(
        tail, elementwise.subtract(elementwise.log(terms), math.log(2 * math.pi) / 2)
    )
    above = elementwise.greater(x, 0)  # where ndtr is close to 1
    rest = ndtr(elementwise.negative(elementwise.where(above, x, 1.0)))
    near = elementwise.log(ndtr(elementwise.where(above, -1.0, safe)))
    near = elementwise.where(above, elementwise.log1p(elementwise.negative(rest)), near)
    return elementwise.where(far, tail, near)


# The gamma function

# Lanczos' approximation, g = 7, with nine terms (Godfrey).
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip


_EULER = 0.57721566490153286061
_ZETA = (
    0.3224670334241132, -0.0673523010531981, 0.020580808427784546, -0.007385551028673986,
    0.0028905103307415234, -0.001192753911703261, 0.0005096695247430425, -0.00022315475845357936,
    9.945751278180853e-05, -4.492623673813314e-05, 2.0507212775670694e-05, -9.439488275268395e-06,
    4.374866789907487e-06, -2.039215753801366e-06, 9.55141213040742e-07, -4.492469198764566e-07,
    2.1207184805554667e-07, -1.00432248239681e-07, 4.769810169363981e-08, -2.2711094608943164e-08,
    1.0838659214896955e-08, -5.183475041970047e-09, 2.4836745438024785e-09, -1.1921401405860912e-09,
    5.731367241678862e-10, -2.7595228851242334e-10, 1.3304764374244491e-10, -6.422964563838101e-11,
    3.104424774732227e-11, -1.5021384080754142e-11,
)  # fmt: skip
"""`(-1)**k (zeta(k) - 1) / k` for k = 2, 3, ..: log gamma(1 + z) is their power series in z, and
`(1 - euler) z - log1p(z)` (Abramowitz and Stegun, 6.1.33)."""


def _gammaln_near_zeros(x: Any) -> Any:
    """Return `gammaln` between 1/2 and 7/2, with small relative errors at its zeros 1 and 2."""
    beyond = elementwise.greater(x, 2.5)
    factor = elementwise.subtract(elementwise.where(beyond, x, 2.0), 1)  # gamma(x) / gamma(x - 1)
    x = elementwise.where(beyond, factor, x)
    upper = elementwise.greater(x, 1.5)
    z = elementwise.subtract(x, elementwise.where(upper, 2.0, 1.0))
    series = polyval(np.array((*reversed(_ZETA), 1 - _EULER, 0.0)).astype(x.dtype), z)
    shift = elementwise.where(upper, 0.0, elementwise.log1p(elementwise.where(upper, 0.0, z)))
    return elementwise.add(elementwise.subtract(series, shift), elementwise.log(factor))


def past_integer(x: Any) -> Any:
    """Return `x` less the nearest integer; by `floor`, as `round` hands its derivative through."""
    rest = elementwise.subtract(x, elementwise.floor(elementwise.add(x, 0.5)))
    # Of large odd numbers the sum is rounded, and the next integer was taken
    return elementwise.subtract(rest, elementwise.floor(elementwise.add(rest, 0.5)))


@function
@kept
def gammaln(x: Any, /) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    (x,) = inexact(x)
    reflects = elementwise.less(x, 0.5)
    z = elementwise.subtract(elementwise.where(reflects, elementwise.subtract(1, x), x), 1)
    series: Any = _LANCZOS[0]
    for place, factor in enumerate(_LANCZOS[1:], 1):
        series = elementwise.add(series, elementwise.divide(factor, elementwise.add(z, place)))
    t = elementwise.add(z, 7.5)
    power = elementwise.multiply(elementwise.add(z, 0.5), elementwise.log(t))
    value = elementwise.add(elementwise.subtract(power, t), elementwise.log(series))
    value = elementwise.add(value, math.log(2 * math.pi) / 2)
    has_zero = elementwise.less_equal(z, 2.5)
    value = elementwise.where(
        has_zero, _gammaln_near_zeros(elementwise.where(has_zero, z + 1, 1.0)), value
    )
    # gamma(x) gamma(1 - x) = pi / sin(pi x), whose sine is taken of what is left of an integer
    rest = elementwise.where(reflects, past_integer(x), 0.25)
    sine = elementwise.abs(elementwise.sin(elementwise.multiply(math.pi, rest)))
    reflected = elementwise.subtract(
        math.log(math.pi), elementwise.add(elementwise.log(sine), value)
    )
    found = elementwise.where(reflects, reflected, value)
    return elementwise.where(elementwise.isinf(x), np.inf, found)


@function
def gammasgn(x: Any, /) -> Array:
    """The sign of the gamma function; NaN at its poles, but that zeros have their own."""
    (x,) = inexact(x)
    odd = elementwise.not_equal(elementwise.remainder(elementwise.floor(x), 2), 0)
    below = elementwise.logical_and(elementwise.less(x, 0), odd)
    minus = elementwise.logical_and(elementwise.equal(x, 0), elementwise.signbit(x))
    sign = elementwise.where(elementwise.logical_or(below, minus), -1.0, 1.0)
    unknown = elementwise.logical_or(_is_pole(x), elementwise.isnan(x))
    return elementwise.astype(elementwise.where(unknown, np.nan, sign), x.dtype)


@function
def gamma(x: Any, /) -> Array:
    """The gamma function; NaN at its poles, but that zeros have signed infinities."""
    (x,) = inexact(x)
    found = elementwise.multiply(gammasgn(x), elementwise.exp(gammaln(x)))
    found = elementwise.where(_is_pole(x), np.nan, found)
    return elementwise.where(elementwise.equal(x, 0), elementwise.divide(1, x), found)


def _is_pole(x: Any) -> Any:
    """True for -inf and negative integers: poles, with limits of both signs."""
    return elementwise.logical_and(
        elementwise.less(x, 0), elementwise.equal(x, elementwise.floor(x))
    )


@function
@only(extend=("zero",))
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Array:
    """`gamma(n + 1)`; 0 for negative numbers."""
    (n,) = inexact(n)
    negative = elementwise.less(n, 0)
    found = gamma(elementwise.add(elementwise.where(negative, 0, n), 1))
    return elementwise.where(negative, 0, found)


@function
def multigammaln(a: Any, d: int) -> Array:
    """The logarithm of the gamma function of `d` dimensions."""
    (a,) = inexact(a)
    halves = elementwise.subtract(expand_dims(a, -1), np.arange(d) / 2)
    return elementwise.add(sum(gammaln(halves), -1), d * (d - 1) / 4 * math.log(math.pi))


@function
@kept
def digamma(x: Any, /) -> Array:
    """The derivative of `gammaln`: from ten up by its series, below by recurrence."""
    (x,) = inexact(x)
    reflects = elementwise.less(x, 0.5)
    z = elementwise.where(reflects, elementwise.subtract(1, x), x)
    below: Any = 0.0
    for _ in range(10):
        small = elementwise.less(z, 10.0)
        below = elementwise.add(below, elementwise.where(small, elementwise.divide(1, z), 0.0))
        z = elementwise.where(small, elementwise.add(z, 1), z)
    inverse = elementwise.divide(1, elementwise.square(z))
    series = elementwise.multiply(inverse, polyval(np.array(_DIGAMMA).astype(x.dtype), inverse))
    value = elementwise.subtract(elementwise.log(z), elementwise.divide(0.5, z))
    value = elementwise.subtract(elementwise.subtract(value, series), below)
    rest = elementwise.where(reflects, past_integer(x), 0.25)
    cotangent = elementwise.divide(math.pi, elementwise.tan(elementwise.multiply(math.pi, rest)))
    found = elementwise.where(reflects, elementwise.subtract(value, cotangent), value)
    found = elementwise.add(found, elementwise.where(_is_pole(x), np.nan, 0.0))
    return elementwise.where(elementwise.equal(x, 0), elementwise.divide(-1, x), found)


# Of the Bernoulli numbers: B_2k / 2k, the highest first
_DIGAMMA = [-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12]
