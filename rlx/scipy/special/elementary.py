"""Special functions, as formulas; f32 and f64, with derivatives.

Errors are a few ulp away from zeros of the functions, where they are absolute.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.nn.activations import erf as erf
from rlx.nn.activations import log_softmax as log_softmax
from rlx.nn.activations import logsumexp as logsumexp
from rlx.nn.activations import softmax as softmax
from rlx.numpy import elementwise
from rlx.numpy.elementwise import sinc as sinc
from rlx.numpy.polynomials import polyval
from rlx.numpy.reductions import sum
from rlx.numpy.shaping import expand_dims
from rlx.tracing.apply import emit, function, inexact
from rlx.tracing.kept_traces import kept
from rlx.transforms.custom_jvp import custom_jvp

_ROOT_2, _ROOT_PI = math.sqrt(2.0), math.sqrt(math.pi)


@function
def erfc(x: Any) -> Any:
    """`1 - erf(x)`, exact in the tail."""
    (x,) = inexact(x)
    return emit(ops.erfc, x)


@function
def logit(x: Any) -> Any:
    """`log(x / (1 - x))`."""
    return elementwise.subtract(elementwise.log(x), elementwise.log1p(elementwise.negative(x)))


@function
def xlogy(x: Any, y: Any) -> Any:
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
def xlog1py(x: Any, y: Any) -> Any:
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
def entr(x: Any) -> Any:
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
def rel_entr(x: Any, y: Any) -> Any:
    """`x * log(x / y)`, 0 at x = 0 where y is not negative, infinite elsewhere outside."""
    x, y = inexact(x, y)
    inside = elementwise.logical_and(elementwise.greater(x, 0), elementwise.greater(y, 0))
    ratio = elementwise.divide(elementwise.where(inside, x, 1), elementwise.where(inside, y, 1))
    at_zero = elementwise.logical_and(elementwise.equal(x, 0), elementwise.greater_equal(y, 0))
    found = elementwise.where(at_zero, 0.0, np.inf)
    return elementwise.where(inside, elementwise.multiply(x, elementwise.log(ratio)), found)


@function
def kl_div(x: Any, y: Any) -> Any:
    """`x * log(x / y) - x + y`."""
    return elementwise.add(elementwise.subtract(rel_entr(x, y), x), y)


# The normal distribution


@function
def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    (x,) = inexact(x)
    return elementwise.multiply(0.5, erfc(elementwise.divide(x, -_ROOT_2)))


@function
def log_ndtr(x: Any) -> Any:
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
    return elementwise.where(far, tail, elementwise.log(ndtr(safe)))


@function
def ndtri(p: Any) -> Any:
    """The inverse of `ndtr`."""
    (p,) = inexact(p)
    return elementwise.multiply(
        _ROOT_2, erfinv(elementwise.subtract(elementwise.multiply(p, 2), 1))
    )


def erfinv(x: Any) -> Any:
    """The inverse of the error function; infinite at -1 and 1, NaN outside."""
    return _erfinv(x)


@function
def _inverse_of_erf(x: Any) -> Any:
    """Giles' approximation, rough far out, then Halley's steps on the tail, whose error counts."""
    (x,) = inexact(x)
    size = elementwise.abs(x)
    w = elementwise.negative(
        elementwise.add(elementwise.log1p(elementwise.negative(size)), elementwise.log1p(size))
    )
    near = polyval(np.array(_NEAR).astype(x.dtype), elementwise.subtract(w, 2.5))
    root = elementwise.sqrt(elementwise.maximum(w, 1.0))
    deep = polyval(np.array(_FAR).astype(x.dtype), elementwise.subtract(root, 3.0))
    y = elementwise.multiply(elementwise.where(elementwise.less(w, 5.0), near, deep), size)
    inside = elementwise.less(size, 1)
    y = elementwise.where(inside, y, 0.5)
    rest = elementwise.where(inside, elementwise.subtract(1, size), 0.5)
    for _ in range(4):
        above = elementwise.subtract(rest, erfc(y))
        below = elementwise.subtract(erf(y), size)  # where 1 - size has lost its digits
        error = elementwise.where(elementwise.less(size, 0.5), below, above)
        slope = elementwise.multiply(2 / _ROOT_PI, elementwise.exp(elementwise.negative(y * y)))
        step = elementwise.divide(error, slope)
        y = elementwise.subtract(y, elementwise.divide(step, elementwise.add(1, y * step)))
    y = elementwise.where(elementwise.equal(size, 1), np.inf, y)
    y = elementwise.where(elementwise.less_equal(size, 1), y, np.nan)
    signed = elementwise.where(elementwise.less(x, 0), elementwise.negative(y), y)
    return elementwise.where(elementwise.equal(x, 0), x, signed)


_NEAR = [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941]  # fmt: skip
_FAR = [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
        -0.0076224613, 0.00943887047, 1.00167406, 2.83297682]  # fmt: skip


@custom_jvp
def _erfinv(x: Any) -> Any:
    return _inverse_of_erf(x)


@_erfinv.defjvp
def _erfinv_jvp(primals: Any, tangents: Any) -> Any:
    y = _erfinv(primals[0])
    return y, tangents[0] * (_ROOT_PI / 2) * elementwise.exp(elementwise.square(y))


# The gamma function

# Lanczos' approximation, g = 7, with nine terms (Godfrey).
_LANCZOS = (
    0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
    -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
    1.5056327351493116e-7,
)  # fmt: skip


def past_integer(x: Any) -> Any:
    """Return `x` less the nearest integer; by `floor`, as `round` hands its derivative through."""
    rest = elementwise.subtract(x, elementwise.floor(elementwise.add(x, 0.5)))
    # Of large odd numbers the sum is rounded, and the next integer was taken
    return elementwise.subtract(rest, elementwise.floor(elementwise.add(rest, 0.5)))


@function
@kept
def gammaln(x: Any) -> Any:
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
    # gamma(x) gamma(1 - x) = pi / sin(pi x), whose sine is taken of what is left of an integer
    rest = elementwise.where(reflects, past_integer(x), 0.25)
    sine = elementwise.abs(elementwise.sin(elementwise.multiply(math.pi, rest)))
    reflected = elementwise.subtract(
        math.log(math.pi), elementwise.add(elementwise.log(sine), value)
    )
    found = elementwise.where(reflects, reflected, value)
    return elementwise.where(elementwise.isinf(x), np.inf, found)


@function
def gammasgn(x: Any) -> Any:
    """The sign of the gamma function; NaN at its poles, but that zeros have their own."""
    (x,) = inexact(x)
    odd = elementwise.not_equal(elementwise.remainder(elementwise.floor(x), 2), 0)
    below = elementwise.logical_and(elementwise.less(x, 0), odd)
    minus = elementwise.logical_and(elementwise.equal(x, 0), elementwise.signbit(x))
    sign = elementwise.where(elementwise.logical_or(below, minus), -1.0, 1.0)
    unknown = elementwise.logical_or(_is_pole(x), elementwise.isnan(x))
    return elementwise.astype(elementwise.where(unknown, np.nan, sign), x.dtype)


@function
def gamma(x: Any) -> Any:
    """The gamma function; NaN at its poles, but that zeros have signed infinities."""
    (x,) = inexact(x)
    found = elementwise.multiply(gammasgn(x), elementwise.exp(gammaln(x)))
    found = elementwise.where(_is_pole(x), np.nan, found)
    return elementwise.where(elementwise.equal(x, 0), elementwise.divide(1, x), found)


def _is_pole(x: Any) -> Any:
    """True for -inf and negative integers, beside which functions of x go both ways."""
    return elementwise.logical_and(
        elementwise.less(x, 0), elementwise.equal(x, elementwise.floor(x))
    )


@function
def factorial(n: Any, exact: bool = False) -> Any:
    """`gamma(n + 1)`; 0 for negative numbers."""
    del exact
    (n,) = inexact(n)
    negative = elementwise.less(n, 0)
    found = gamma(elementwise.add(elementwise.where(negative, 0, n), 1))
    return elementwise.where(negative, 0, found)


@function
def betaln(a: Any, b: Any) -> Any:
    """The logarithm of the beta function."""
    a, b = inexact(a, b)
    both = gammaln(elementwise.add(a, b))
    return elementwise.subtract(elementwise.add(gammaln(a), gammaln(b)), both)


@function
def beta(a: Any, b: Any) -> Any:
    """The beta function."""
    a, b = inexact(a, b)
    signs = [gammasgn(x) for x in (a, b, elementwise.add(a, b))]
    size = elementwise.exp(betaln(a, b))
    for sign in signs:
        size = elementwise.where(elementwise.less(sign, 0), elementwise.negative(size), size)
    return size


@function
def multigammaln(a: Any, d: int) -> Any:
    """The logarithm of the gamma function of `d` dimensions."""
    (a,) = inexact(a)
    halves = elementwise.subtract(expand_dims(a, -1), np.arange(d) / 2)
    return elementwise.add(sum(gammaln(halves), -1), d * (d - 1) / 4 * math.log(math.pi))


@function
@kept
def digamma(x: Any) -> Any:
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
    found = elementwise.where(_is_pole(x), np.nan, found)
    return elementwise.where(elementwise.equal(x, 0), elementwise.divide(-1, x), found)


# Of the Bernoulli numbers: B_2k / 2k, the highest first
_DIGAMMA = [-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12]
