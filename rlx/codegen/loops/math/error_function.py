"""The error function and its complement."""

from __future__ import annotations

from rlx.codegen.loops.expr import E, fma, minimum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, math_function
from rlx.codegen.loops.math.exponential import clamp, exponential

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


@math_function(f32=4.0, f64=4.0)
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
