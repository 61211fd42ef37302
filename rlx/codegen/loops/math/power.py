"""pow: a logarithm with more digits than the result, times y, through exp2."""

from __future__ import annotations

import math

from rlx.codegen.loops.expr import E, const, fma, maximum, minimum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, math_function
from rlx.codegen.loops.math.exponential import LN2, scale_gradually
from rlx.codegen.loops.math.logarithm import (
    exponent_and_significand,
    integer_to_float,
)
from rlx.codegen.loops.nodes import Prim, UnaryOp

THIRD = (0.3333333333333333, 1.850371707708594e-17)


@math_function(f32=1.0, f64=1.0)
def pow_(m: FunctionBuilder, x: E, y: E) -> E:
    """x**y with the special cases of C: pow(x, 0) = pow(1, y) = 1, NaN for a negative x and a
    fractional y, and so on."""
    magnitude = m.let("magnitude", abs(x))
    shift = m.format.mantissa + 2
    tiny = m.let("tiny", magnitude < m.format.least_normal)
    normal = select(tiny, magnitude * 2.0**shift, magnitude)
    e, s = exponent_and_significand(m, normal)
    correction = select(tiny, m.constant(-float(shift)), m.constant(0.0))
    exponent = m.let("e", integer_to_float(m, e) + correction)
    raised = (_raise_f32 if m.prim is Prim.F32 else _raise_f64)(m, exponent, s, y)
    return _special_cases(m, x, y, m.let("raised", raised))


def _special_cases(m: FunctionBuilder, x: E, y: E, raised: E) -> E:
    magnitude = abs(x)
    one, infinite = m.constant(1.0), m.constant(math.inf)
    grows = (magnitude > 1.0) ^ (y < 0.0)
    extreme = select(grows, infinite, m.constant(0.0))
    at_edge = (magnitude.eq(0.0) | magnitude.eq(math.inf)) | abs(y).eq(math.inf)
    value = m.let("value", select(at_edge, extreme, raised))
    value = select(magnitude.eq(1.0) | y.eq(0.0), one, value)
    whole = m.let("whole", y.unary(UnaryOp.TRUNC).eq(y))
    half = m.let("half", y * 0.5)
    odd = whole & half.unary(UnaryOp.TRUNC).ne(half)
    sign = select(odd, m.bits(x) & m.format.sign_bit, const(0, m.format.integer))
    value = m.let("value", (m.bits(value) | sign).bitcast(m.prim))
    undefined = ((x < 0.0) & (x > -math.inf)) & ~whole
    unordered = x.ne(x) | y.ne(y)
    value = m.let("value", select(undefined | unordered, m.constant(math.nan), value))
    return select(x.eq(1.0) | y.eq(0.0), one, value)


def _raise_f32(m: FunctionBuilder, e: E, s: E, y: E) -> E:
    """In f64, with short polynomials: `2**(y * (e + log2 s))`."""
    wide = m.let("wide", s.cast(Prim.F64))
    t = m.let("t", (wide - 1.0) / (wide + 1.0))
    square = m.let("square", t * t)
    logarithm = e.cast(Prim.F64) + t * m.polynomial(square, coefficients.POW_LOG2)
    exponent = m.let("exponent", y.cast(Prim.F64) * logarithm)
    bounded = m.let("bounded", maximum(-160.0, minimum(140.0, exponent)))
    magic = 1.5 * 2.0**52
    shifted = m.let("shifted", bounded + magic)
    r = m.let("r", bounded - (shifted - magic))
    p = fma(m.polynomial(r, coefficients.POW_EXP2), r, 1.0)
    power = ((shifted.bitcast(Prim.I64) << 52) + (1023 << 52)).bitcast(Prim.F64)
    return (p * power).cast(Prim.F32)


def _raise_f64(m: FunctionBuilder, e: E, s: E, y: E) -> E:
    """In pairs of f64: `exp(y * (e ln 2 + log s))`."""
    high, low = _logarithm(m, e, s)
    product, rest = m.exact_product(y, high)
    rest = m.let("rest", fma(y, low, rest))
    bounded = m.let("bounded", maximum(-760.0, minimum(720.0, product)))
    inside = m.let("inside", bounded.eq(product))
    shifted = m.let("shifted", fma(bounded, 1 / math.log(2), m.format.magic))
    n = m.let("n", shifted - m.format.magic)
    ln2, ln2_low = m.split_for_integers(*LN2)
    first = m.let("first", fma(n, -ln2, bounded))
    tail = fma(n, -ln2_low, select(inside, rest, m.constant(0.0)))
    r = m.let("r", first + tail)
    lost = m.let("lost", tail - (r - first))
    q = m.polynomial(r, coefficients.EXPM1)
    p = 1.0 + (r + fma(r * r, q, lost))
    return scale_gradually(m, m.let("p", p), shifted)


def _logarithm(m: FunctionBuilder, e: E, s: E) -> tuple[E, E]:
    """`e ln 2 + log s` as an unevaluated sum, to about 2**-66."""
    t, t_low = _ratio(m, s)
    square, square_low = m.exact_product(t, t)
    square_low = m.let("square_low", fma(2.0 * t, t_low, square_low))
    series = m.let("series", square * m.polynomial(square, coefficients.POW_LOG))
    factor, factor_low = m.exact_sum(m.constant(THIRD[0]), series)
    factor_low = m.let("factor_low", factor_low + THIRD[1])
    cube, cube_low = m.exact_product(square, factor)
    cube_low = m.let("cube_low", fma(square, factor_low, fma(square_low, factor, cube_low)))
    tail, tail_low = m.exact_product(t, cube)
    tail_low = m.let("tail_low", fma(t, cube_low, fma(t_low, cube, tail_low)))
    twice, rest = m.exact_sum(t, tail)
    rest = m.let("rest", 2.0 * (rest + (t_low + tail_low)))
    scaled, scaled_low = m.exact_product(e, m.constant(LN2[0]))
    total, total_low = m.exact_sum(scaled, 2.0 * twice)
    low = m.let("low", fma(e, LN2[1], scaled_low) + (total_low + rest))
    high = m.let("high", total + low)
    return high, m.let("high_rest", low - (high - total))


def _ratio(m: FunctionBuilder, s: E) -> tuple[E, E]:
    """`(s - 1) / (s + 1)` as an unevaluated sum; s - 1 is exact."""
    top = m.let("top", s - 1.0)
    bottom, bottom_low = m.exact_sum(m.constant(1.0), s)
    t = m.let("t", top / bottom)
    return t, m.let("t_low", fma(-t, bottom_low, fma(-t, bottom, top, exact=True)) / bottom)
