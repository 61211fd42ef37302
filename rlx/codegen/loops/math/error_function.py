"""The error function and its complement."""

from __future__ import annotations

import math

from rlx.codegen.loops.expr import E, call, fma, minimum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import (
    FunctionBuilder,
    build_function,
    math_function,
    square_root,
)
from rlx.codegen.loops.math.exponential import clamp, exponential
from rlx.codegen.loops.nodes import Prim
from rlx.ir.reference import inverse_erf

_CENTER = 1.0  # where the polynomial for log(erfc) is expanded


@math_function(f32=1.5, f64=1.0)
def erf(m: FunctionBuilder, x: E) -> E:
    """The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.

    Below 1 an odd polynomial; above, 1 - exp(polynomial), until the result is 1.
    """
    a = m.let("a", abs(x))
    small = fma(a, m.polynomial(m.let("y", a * a), coefficients.ERF_SMALL), a)
    t = m.let("t", minimum(m.choose(3.95, 6.0), a) - _CENTER)
    log_erfc = m.polynomial(t, coefficients.ERFC_LOG)
    large = 1.0 - exponential(m, log_erfc)
    return m.with_sign_of(select(a < 1.0, small, large), x)


@math_function(f32=4.0, f64=4.0, separate={Prim.F32: 5.0})
def erfc(m: FunctionBuilder, x: E) -> E:
    """1 - erf(x), as exact in the tail, where it is exp(-x**2) times a slow function."""
    z = m.let("z", minimum(m.choose(10.1, 27.3), abs(x)))
    square, rest = m.exact_product(z, z)
    slow = m.let("slow", erfc_scaled(m, z))
    tail = m.let("tail", fma(-rest, slow, slow) * exponential(m, clamp(m, -square)))
    return select(x < 0.0, 2.0 - tail, tail)


def erfc_scaled(m: FunctionBuilder, z: E) -> E:
    """exp(z**2) erfc(z) for z >= 0: a polynomial in a ratio that runs from -1 to 1."""
    center = m.choose(2.0, 3.75)
    ratio = m.let("ratio", (z - center) / (z + center))
    return m.polynomial(ratio, coefficients.ERFC_SCALED) / fma(z, 2.0, 1.0)


@math_function(f32=72.0, f64=2.0**20)
def erf_inv(m: FunctionBuilder, x: E) -> E:
    """The inverse error function, by polynomials in `log1p(-x**2)` (Giles, 2010).

    The square is rounded, as in XLA, which costs some digits close to 1.
    """
    w = m.let("w", -call(build_function("log1p", m.prim), -(x * x)))
    near = m.let("near", w < m.choose(inverse_erf.F32_BOUND, inverse_erf.F64_BOUNDS[0]))
    value = (_inverse_f32 if m.prim is Prim.F32 else _inverse_f64)(m, w, near)
    return x * select(abs(x).eq(1.0), m.constant(math.inf), value)


def _inverse_f32(m: FunctionBuilder, w: E, near: E) -> E:
    first, second = inverse_erf.F32_CENTERS
    t = m.let("t", select(near, w - first, square_root(w) - second))
    coefficients = [
        select(near, m.constant(a), m.constant(b))
        for a, b in zip(*inverse_erf.F32_POLYNOMIALS, strict=True)
    ]
    return _horner(m, t, coefficients)


def _horner(m: FunctionBuilder, t: E, coefficients: list[E]) -> E:
    p = coefficients[0]
    for coefficient in coefficients[1:]:
        p = m.let("p", fma(p, t, coefficient))
    return p


def _inverse_f64(m: FunctionBuilder, w: E, near: E) -> E:
    """The three polynomials end with the same power and start with different ones."""
    far = m.let("far", w >= inverse_erf.F64_BOUNDS[1])
    root = m.let("root", square_root(w))
    first, second, third = inverse_erf.F64_CENTERS
    t = m.let("t", select(near, w - first, root - select(far, m.constant(third), second)))
    longest = len(inverse_erf.F64_POLYNOMIALS[0])
    a, b, c = ((0.0,) * (longest - len(p)) + p for p in inverse_erf.F64_POLYNOMIALS)
    coefficients = [
        select(near, m.constant(nearest), select(far, m.constant(farthest), middle))
        for nearest, middle, farthest in zip(a, b, c, strict=True)
    ]
    return _horner(m, t, coefficients)
