"""Exponential, logarithmic and trigonometric integrals, Fresnel's integrals and Owen's function.

Power series near zero; continued fractions, asymptotic series or quadrature beyond.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.numpy.polynomials import polyval
from rlx.runtime.arrays import Array
from rlx.scipy.special.elementary import digamma, gammaln, ndtr
from rlx.scipy.special.faddeeva import upper_half
from rlx.scipy.special.series import exp1
from rlx.tracing.apply import emit, function, inexact
from rlx.transforms.control import fori_loop
from rlx.transforms.custom_jvp import custom_jvp

_ZETA_2 = math.pi**2 / 6
_LEVELS = 90
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
              43867 / 798, -174611 / 330)  # fmt: skip


def _polynomial(coefficients: list[float], x: Any) -> Any:
    """Return the value of the polynomial whose coefficients begin with that of degree 0."""
    return polyval(np.array(coefficients[::-1]).astype(x.dtype), x)


# Exponential integrals


@function
def _expi(x: Any) -> Any:
    (x,) = inexact(x)
    turn = 40.0 if x.value.dtype is DType.F64 else 20.0
    positive = rnp.greater(x, 0)
    near = rnp.where(positive, rnp.minimum(x, turn), 1)
    terms = [0.0] + [math.exp(k * math.log(turn) - math.lgamma(k + 1)) / k for k in range(1, 140)]
    low = _polynomial(terms, near / turn) + rnp.log(near) + np.euler_gamma
    inverse = 1 / rnp.maximum(x, turn)
    steps = [float(math.factorial(k)) / turn**k for k in range(int(turn) - 2)]
    high = rnp.exp(x) * inverse * _polynomial(steps, inverse * turn)
    found = rnp.where(rnp.less(x, turn), low, rnp.where(rnp.isinf(x), rnp.inf, high))
    found = rnp.where(positive, found, -exp1(rnp.where(positive, 1, -x)))
    return rnp.where(rnp.isnan(x), rnp.nan, rnp.where(rnp.equal(x, 0), -rnp.inf, found))


@custom_jvp
def expi(x: Any, /) -> Array:
    """The exponential integral Ei, of either sign."""
    return _expi(x)


@expi.defjvp
def _expi_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    return expi(x), tangents[0] * rnp.exp(x) / x


@function
def expn(n: Any, x: Any, /) -> Array:
    """The exponential integral of integer order `n`, of x that is not negative."""
    n, x = inexact(n, x)
    small = rnp.less(x, 1.5)
    low = _expn_series(rnp.maximum(n, 1), rnp.where(rnp.logical_and(small, x > 0), x, 1))
    high = rnp.where(rnp.logical_or(small, rnp.isinf(x)), 2, x)

    def level(i: Any, fraction: Any) -> Any:
        k = _LEVELS - rnp.astype(i, x.dtype)
        return high + n + 2 * k - 2 - k * (n + k - 1) / fraction

    fraction = fori_loop(0, _LEVELS, level, high + n + 2 * _LEVELS)
    far = rnp.where(rnp.isinf(x), 0, rnp.exp(-high) / fraction)
    found = rnp.where(small, low, far)
    at_zero = rnp.where(n > 1, 1 / rnp.where(n > 1, n - 1, 1), rnp.inf)
    found = rnp.where(rnp.equal(n, 0), rnp.exp(-x) / x, found)
    found = rnp.where(rnp.equal(x, 0), at_zero, found)
    wrong = rnp.logical_or(rnp.logical_or(x < 0, n < 0), rnp.isnan(x))
    return rnp.where(wrong, rnp.nan, found)


def _expn_series(n: Any, x: Any) -> Any:
    """The ascending series, whose term of degree n - 1 has a logarithm."""

    def step(i: Any, state: Any) -> Any:
        total, power = state
        m = rnp.astype(i + 1, x.dtype)
        is_whole = rnp.equal(n, m)
        total = total - rnp.where(is_whole, 0, power / rnp.where(is_whole, 1, m - n))
        return total, -power * x / m

    zero = rnp.zeros_like(x + n)
    total, _ = fori_loop(0, 24, step, (zero, zero + 1))
    sign = 1 - 2 * rnp.remainder(n - 1, 2)
    special = sign * rnp.exp((n - 1) * rnp.log(x) - gammaln(n))
    return total + special * (digamma(n) - rnp.log(x))


@function
def _spence(x: Any) -> Any:
    (x,) = inexact(x)
    above = rnp.greater(x, 1)
    inside = rnp.where(above, 1 / rnp.where(above, x, 1), x)
    left = rnp.less(inside, 0.5)
    u = -rnp.log(rnp.where(left, 1 - inside, rnp.maximum(inside, 0.5)))
    terms = [b / math.factorial(2 * k + 1) for k, b in enumerate(_BERNOULLI, 1)]
    series = u - u * u / 4 + u**3 * _polynomial(terms, u * u)
    safe = rnp.where(rnp.logical_and(left, inside > 0), inside, 0.25)
    turned = _ZETA_2 - rnp.log(safe) * rnp.log1p(-safe) - series
    found = rnp.where(left, rnp.where(rnp.equal(inside, 0), _ZETA_2, turned), series)
    far = -0.5 * rnp.square(rnp.log(rnp.where(above, x, 1))) - found
    return rnp.where(x < 0, rnp.nan, rnp.where(above, far, found))


_SPENCE_SLOPE = [(-1) ** (k + 1) / (k + 1) for k in range(12)]


@custom_jvp
def spence(x: Any, /) -> Array:
    """The dilogarithm of 1 - x: the integral of `log(t) / (1 - t)` from 1 to x."""
    return _spence(x)


@spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    (x,) = primals
    near = rnp.less(rnp.abs(x - 1), 0.03)  # where the quotient cancels: log(1 + u) / -u
    u, safe = rnp.where(near, x - 1, 0), rnp.where(near, 2, x)
    slope = rnp.where(near, _polynomial(_SPENCE_SLOPE, u), rnp.log(safe) / (1 - safe))
    return spence(x), tangents[0] * slope


# Integrals of sines and cosines


@function
def _sici(x: Any) -> Any:
    (x,) = inexact(x)
    size = rnp.abs(x)
    near = rnp.where(rnp.logical_and(size < 4, size > 0), size, 1)
    square = near * near
    sines = [(-1) ** k / (math.factorial(2 * k + 1) * (2 * k + 1)) for k in range(16)]
    cosines = [(-1) ** k / (math.factorial(2 * k) * 2 * k) for k in range(1, 17)]
    si = near * _polynomial(sines, square)
    ci = np.euler_gamma + rnp.log(near) + square * _polynomial(cosines, square)
    far_si, far_ci = _sici_far(rnp.where(rnp.logical_and(size >= 4, rnp.isfinite(size)), size, 4))
    si = rnp.where(size < 4, si, rnp.where(rnp.isinf(size), math.pi / 2, far_si))
    ci = rnp.where(size < 4, ci, rnp.where(rnp.isinf(size), 0, far_ci))
    empty, wrong = rnp.equal(size, 0), rnp.isnan(x)
    si = rnp.where(empty, 0, rnp.where(x < 0, -si, si))
    return rnp.where(wrong, rnp.nan, si), rnp.where(wrong, rnp.nan, rnp.where(empty, -rnp.inf, ci))


def _sici_far(x: Any) -> tuple[Any, Any]:
    """By the continued fraction of E1 on the imaginary axis."""
    z: Any = emit(ops.complex, rnp.zeros_like(x), x)

    def level(i: Any, fraction: Any) -> Any:
        n = _LEVELS - rnp.astype(i, x.dtype)
        return z + (2 * n - 1) - n * n / fraction

    fraction = fori_loop(0, _LEVELS, level, z + (2 * _LEVELS + 1))
    turned: Any = emit(ops.complex, rnp.cos(x), -rnp.sin(x))
    found = turned / fraction
    return rnp.imag(found) + math.pi / 2, -rnp.real(found)


@custom_jvp
def sici(x: Any, /) -> tuple[Array, Array]:
    """The integrals of `sin(t) / t` and, from infinity, of `cos(t) / t`; the latter is even."""
    return _sici(x)


@sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return sici(x), (t * rnp.sinc(x / math.pi), t * rnp.cos(x) / x)


@function
def _fresnel(x: Any) -> Any:
    (x,) = inexact(x)
    size = rnp.abs(x)
    near = rnp.minimum(size, 1.5)
    t = math.pi / 2 * near * near
    square = t * t
    sines = [(-1) ** k / (math.factorial(2 * k + 1) * (4 * k + 3)) for k in range(14)]
    cosines = [(-1) ** k / (math.factorial(2 * k) * (4 * k + 1)) for k in range(14)]
    low = (near * t * _polynomial(sines, square), near * _polynomial(cosines, square))
    far = rnp.where(rnp.isinf(size), 2, rnp.maximum(size, 1.5))
    part = math.sqrt(math.pi) / 2 * far
    tail = upper_half(part, part)
    angle = math.pi / 2 * rnp.remainder(far * far, 4)
    turned = emit(ops.complex, rnp.cos(angle), rnp.sin(angle)) * tail
    rest = emit(ops.complex, 1 - rnp.real(turned), -rnp.imag(turned))
    high = ((rnp.real(rest) + rnp.imag(rest)) / 2, (rnp.real(rest) - rnp.imag(rest)) / 2)
    found = []
    for inner, outer in zip(low, high, strict=True):
        value = rnp.where(size < 1.5, inner, rnp.where(rnp.isinf(size), 0.5, outer))
        value = rnp.where(x < 0, -value, value)
        found.append(rnp.where(rnp.isnan(x), rnp.nan, value))
    return tuple(found)


@custom_jvp
def fresnel(x: Any, /) -> tuple[Array, Array]:
    """The integrals of `sin(pi t^2 / 2)` and of `cos(pi t^2 / 2)` from 0."""
    return _fresnel(x)


@fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    angle = math.pi / 2 * rnp.square(x)
    return fresnel(x), (t * rnp.sin(angle), t * rnp.cos(angle))


# Owen's function


@function
def owens_t(h: Any, a: Any, /) -> Array:
    """The chance of X > h and 0 < Y < a X, for independent normal X and Y."""
    return _owens_t(*inexact(h, a))


@custom_jvp
def _owens_t(h: Any, a: Any) -> Any:
    size, slope = rnp.abs(h), rnp.abs(a)
    steep = slope > 1
    flat = rnp.where(steep, 1 / rnp.where(steep, slope, 1), slope)
    limit = rnp.where(steep, rnp.where(rnp.isinf(slope), rnp.inf, size * slope), size)
    limit = rnp.where(rnp.logical_and(steep, rnp.equal(size, 0)), 0, limit)
    inner = _owen_integral(rnp.minimum(limit, 1e3), flat)
    q, r = ndtr(-size), ndtr(-limit)
    found = rnp.where(steep, 0.5 * (q + r) - q * r - inner, inner)
    return rnp.where(a < 0, -found, found)


@_owens_t.defjvp
def _owens_t_jvp(primals: Any, tangents: Any) -> Any:
    (h, a), (of_h, of_a) = primals, tangents
    steep = 1 + rnp.square(a)
    by_h = rnp.exp(-0.5 * rnp.square(h)) * (0.5 - ndtr(a * h)) / math.sqrt(2 * math.pi)
    by_a = rnp.exp(-0.5 * rnp.square(h) * steep) / (2 * math.pi * steep)
    return _owens_t(h, a), of_h * by_h + of_a * by_a


def _owen_integral(h: Any, a: Any) -> Any:
    """The integral over [0, a], a at most 1, as far as the integrand is not negligible."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    end = rnp.minimum(a, 9 / rnp.maximum(h, 1e-3))
    total: Any = 0.0
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        x = end * float(node)
        total = total + float(weight) * rnp.exp(-0.5 * rnp.square(h * x)) / (1 + x * x)
    return total * end * rnp.exp(-0.5 * rnp.square(h)) / (2 * math.pi)
