"""exp and what follows from it: exp_weight, exp2, expm1, sigmoid, tanh, sinh, cosh."""

from __future__ import annotations

import math

from rlx.codegen.loops.expr import E, fma, maximum, minimum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, keep_tiny, math_function
from rlx.codegen.loops.nodes import Prim

LN2 = (0.6931471805599453, 2.3190468138462996e-17)


def clamp(m: FunctionBuilder, x: E) -> E:
    """x within the range where e**x is neither surely zero nor surely infinite; NaN stays."""
    low, high = m.choose(-105.0, -747.0), m.choose(90.0, 711.0)
    return m.let("clamped", maximum(low, minimum(high, x)))


def power_of_two(m: FunctionBuilder, shifted_bits: E) -> E:
    """`2**k` where k is the integer in the low bits of a number shifted by `magic`."""
    f = m.format
    return m.let("power", ((shifted_bits << f.mantissa) + f.one_bits).bitcast(m.prim))


def scale_gradually(m: FunctionBuilder, p: E, shifted: E, unit: float = 1.0) -> E:
    """`unit * p * 2**n` in two normal steps, so that only the last product rounds."""
    bits = m.let("bits", m.bits(shifted))
    half = m.let("half_bits", bits >> 1)
    second = power_of_two(m, bits - half)
    return p * power_of_two(m, half) * (second if unit == 1.0 else second * unit)


def exponential(m: FunctionBuilder, x: E, unit: float = 1.0) -> E:
    """`unit * e**x` for clamped x."""
    p, shifted = exponential_parts(m, x)
    return scale_gradually(m, p, shifted, unit)


def exponential_parts(m: FunctionBuilder, x: E) -> tuple[E, E]:
    """e**x as `p * 2**n`, n in the low bits of `shifted`: x = n ln 2 + r with |r| <= ln(2) / 2."""
    shifted = m.let("shifted", fma(x, 1 / math.log(2), m.format.magic))
    n = m.let("n", shifted - m.format.magic)
    high, low = m.split_for_integers(*LN2)
    r = m.let("r", fma(n, -low, fma(n, -high, x)))
    return m.polynomial(r, coefficients.EXPM1, 1.0, 1.0), shifted


@math_function(f32=2.0, f64=1.5, separate={Prim.F64: 2.0})
def exp(m: FunctionBuilder, x: E) -> E:
    """e**x. Overflows to infinity and underflows gradually.

    The fastest form: x = 2 k ln 2 + r with |r| <= ln 2, so that `p * 2**k * 2**k` stays normal
    before the last product. The wider interval costs one or two terms and half an ulp,
    and saves splitting the exponent.
    """
    x = clamp(m, x)
    shifted = m.let("shifted", fma(x, 0.5 / math.log(2), m.format.magic))
    k = m.let("k", shifted - m.format.magic)
    high, low = m.split_for_integers(2 * LN2[0], 2 * LN2[1])
    r = m.let("r", fma(k, -low, fma(k, -high, x)))
    q = m.polynomial_in_halves(r, coefficients.EXP)
    p = m.let("near", fma(m.let("slope", fma(q, r, 1.0)), r, 1.0))
    power = power_of_two(m, m.bits(shifted))
    return p * power * power


@math_function(f32=1.5, f64=1.5)
def exp_weight(m: FunctionBuilder, x: E) -> E:
    """e**x of x <= 0, as softmax weighs scores, and 0 where that is below the normal numbers.

    A subnormal result costs the processor a hundred times its usual time, and every score that
    a mask hides would give one.
    """
    low = m.choose(-87.0, -708.0)
    clamped = m.let("clamped", maximum(low, x))
    shifted = m.let("shifted", fma(clamped, 1 / math.log(2), m.format.magic))
    n = m.let("n", shifted - m.format.magic)
    high, rest = m.split_for_integers(*LN2)
    r = m.let("r", fma(n, -rest, fma(n, -high, clamped)))
    p = m.polynomial(r, coefficients.EXPM1, 1.0, 1.0)
    return select(x < low, 0.0, p * power_of_two(m, m.bits(shifted)))


@math_function(f32=1.0, f64=1.0, separate={Prim.F32: 1.5, Prim.F64: 1.5})
def exp2(m: FunctionBuilder, x: E) -> E:
    """2**x. Overflows to infinity and underflows gradually."""
    low, high = m.choose(-152.0, -1078.0), m.choose(130.0, 1026.0)
    x = m.let("clamped", maximum(low, minimum(high, x)))
    shifted = m.let("shifted", x + m.format.magic)
    r = m.let("r", x - (shifted - m.format.magic))
    return scale_gradually(m, m.polynomial(r, coefficients.EXP2, 1.0), shifted)


@math_function(f32=1.5, f64=1.5)
def expm1(m: FunctionBuilder, x: E) -> E:
    """e**x - 1, accurate near zero."""
    f = m.format
    low, high = m.choose(-18.0, -40.0), m.choose(88.8, 709.9)
    clamped = m.let("clamped", maximum(low, minimum(high, x)))
    shifted = m.let("shifted", fma(clamped, 1 / math.log(2), f.magic))
    k = m.let("k", shifted - f.magic)
    high_part, low_part = m.split_for_integers(*LN2)
    first = m.let("first", fma(k, -high_part, clamped))
    r = m.let("r", fma(k, -low_part, first))
    lost = m.let("lost", fma(k, -low_part, first - r))
    q = m.polynomial(r, coefficients.EXPM1)
    tail = m.let("tail", fma(r * r, q, lost))
    half = ((m.bits(shifted) << f.mantissa) + ((f.bias - 1) << f.mantissa)).bitcast(m.prim)
    scale = m.let("scale", half)
    near = fma(scale, r, scale - 0.5)
    return keep_tiny(m, x, 2.0 * fma(scale, tail, near))


@math_function(f32=2.0, f64=1.5)
def sigmoid(m: FunctionBuilder, x: E) -> E:
    """1 / (1 + e**-x), without cancellation or early underflow for negative x."""
    e = m.let("e", exponential(m, clamp(m, -abs(x))))
    numerator = m.let("numerator", select(x < 0.0, e, m.constant(1.0)))
    denominator = m.let("denominator", 1.0 + e)
    lost = e - (denominator - 1.0)
    inverse = m.let("inverse", 1.0 / denominator)
    quotient = m.let("quotient", numerator * inverse)
    residual = fma(-quotient, lost, fma(-quotient, denominator, numerator, exact=True))
    return fma(residual, inverse, quotient)


@math_function(f32=1.5, f64=1.5)
def tanh(m: FunctionBuilder, x: E) -> E:
    """Hyperbolic tangent."""
    a = m.let("a", abs(x))
    y = m.let("y", a * a)
    small = fma(a * y, m.polynomial(y, coefficients.TANH), a)
    large = 1.0 - 2.0 / (exponential(m, clamp(m, a + a)) + 1.0)
    return m.with_sign_of(select(a < 0.625, small, large), x)


@math_function(f32=2.0, f64=1.5)
def sinh(m: FunctionBuilder, x: E) -> E:
    """Hyperbolic sine."""
    a = m.let("a", abs(x))
    y = m.let("y", a * a)
    small = fma(a * y, m.polynomial(y, coefficients.SINH), a)
    half = m.let("half", exponential(m, clamp(m, a), 0.5))
    return m.with_sign_of(select(a < 1.0, small, half - 0.25 / half), x)


@math_function(f32=1.5, f64=1.5, separate={Prim.F32: 2.0})
def cosh(m: FunctionBuilder, x: E) -> E:
    """Hyperbolic cosine."""
    half = m.let("half", exponential(m, clamp(m, abs(x)), 0.5))
    return half + 0.25 / half
