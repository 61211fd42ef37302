"""log and what follows from it: log2, log1p, asinh, acosh, atanh."""

from __future__ import annotations

import math

from rlx.codegen.loops.expr import E, const, fma, maximum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, keep_tiny, math_function, square_root
from rlx.codegen.loops.math.exponential import LN2
from rlx.codegen.loops.nodes import Prim

LOG2_E = (1.4426950408889634, 2.0355273740931033e-17)


def exponent_and_significand(m: FunctionBuilder, x: E) -> tuple[E, E]:
    """x = 2**e * s with s in [sqrt(1/2), sqrt(2)) and e an integer, for normal positive x."""
    f = m.format
    root = f.bits(math.sqrt(0.5))
    above = m.let("above", m.bits(x) - root)
    e = m.let("exponent", above >> f.mantissa)
    s = ((above & ((1 << f.mantissa) - 1)) + root).bitcast(m.prim)
    return e, m.let("significand", s)


def integer_to_float(m: FunctionBuilder, i: E) -> E:
    """A small integer as a float. i64 has no vector conversion before AVX-512."""
    if m.prim is Prim.F32:
        return i.cast(Prim.F32)
    return (i + m.format.bits(m.format.magic)).bitcast(Prim.F64) - m.format.magic


def log_tail(m: FunctionBuilder, f: E) -> E:
    """`log(1 + f) - f` for f in [sqrt(1/2) - 1, sqrt(2) - 1]."""
    if m.prim is Prim.F32:
        q = m.polynomial(f, coefficients.LOG_F32, -0.5)
        return m.let("tail", f * f * q)
    s = m.let("s", f / (2.0 + f))
    y = m.let("y", s * s)
    rest = y * m.polynomial(y, coefficients.LOG_F64)
    half_square = m.let("half_square", 0.5 * f * f)
    return m.let("tail", fma(s, half_square + rest, -half_square))


def split_argument(m: FunctionBuilder, x: E) -> tuple[E, E]:
    """Exponent, as a float, and `significand - 1` of any positive x, subnormals included."""
    shift = m.format.mantissa + 2
    tiny = m.let("tiny", x < m.format.least_normal)
    e, s = exponent_and_significand(m, select(tiny, x * 2.0**shift, x))
    correction = select(tiny, m.constant(-float(shift)), m.constant(0.0))
    return m.let("e", integer_to_float(m, e) + correction), m.let("f", s - 1.0)


def at_edges(m: FunctionBuilder, x: E, result: E) -> E:
    """log's values outside (0, inf): -inf at 0, NaN below, x itself at infinity and NaN."""
    nonpositive = select(x.eq(0.0), m.constant(-math.inf), m.constant(math.nan))
    return select(x > 0.0, select(x < math.inf, result, x), nonpositive)


def assemble(m: FunctionBuilder, e: E, f: E, tail: E) -> E:
    """`e ln 2 + f + tail`."""
    high, low = m.split_for_integers(*LN2)
    return fma(e, high, f + fma(e, low, tail))


@math_function(f32=1.0, f64=1.0)
def log(m: FunctionBuilder, x: E) -> E:
    """Natural logarithm."""
    e, f = split_argument(m, x)
    return at_edges(m, x, assemble(m, e, f, log_tail(m, f)))


@math_function(f32=1.5, f64=1.0, separate={Prim.F32: 2.0, Prim.F64: 1.5})
def log2(m: FunctionBuilder, x: E) -> E:
    """Logarithm to base two, exact for powers of two."""
    e, f = split_argument(m, x)
    high, low = m.split(*LOG2_E)
    tail = fma(log_tail(m, f), high, f * low)
    return at_edges(m, x, e + fma(f, high, tail))


def log_of_sum(m: FunctionBuilder, high: E, low: E) -> E:
    """`log(high + low)` where low is far below high, high >= sqrt(1/2) * 2**-mantissa."""
    f = m.format
    e, s = exponent_and_significand(m, high)
    exponent = maximum(const(f.bias, f.integer) - e, 0) << f.mantissa
    fraction = m.let("f", fma(low, exponent.bitcast(m.prim), s - 1.0))
    return assemble(m, m.let("e", integer_to_float(m, e)), fraction, log_tail(m, fraction))


@math_function(f32=2.0, f64=1.5)
def log1p(m: FunctionBuilder, x: E) -> E:
    """log(1 + x), accurate near zero."""
    total, rest = m.exact_sum(m.constant(1.0), x)
    return keep_tiny(m, x, at_edges(m, total, log_of_sum(m, total, rest)))


@math_function(f32=1.5, f64=1.5)
def atanh(m: FunctionBuilder, x: E) -> E:
    """Inverse hyperbolic tangent; infinite at +-1, NaN beyond."""
    a = m.let("a", abs(x))
    y = m.let("y", a * a)
    small = fma(a * y, m.polynomial(y, coefficients.ATANH), a)
    ratio = m.let("ratio", (1.0 + a) / (1.0 - a))
    e, f = split_argument(m, ratio)
    large = 0.5 * at_edges(m, ratio, assemble(m, e, f, log_tail(m, f)))
    return m.with_sign_of(select(a < 0.5, small, large), x)


@math_function(f32=1.5, f64=1.5)
def asinh(m: FunctionBuilder, x: E) -> E:
    """Inverse hyperbolic sine."""
    a = m.let("a", abs(x))
    y = m.let("y", a * a)
    small = fma(a * y, m.polynomial(y, coefficients.ASINH), a)
    huge = m.let("huge", a > 2.0 ** (m.format.mantissa // 2 + 3))
    high, low = root_sum(m, a, a, 1.0)
    zero = m.constant(0.0)
    logarithm = log_of_sum(m, m.let("high", select(huge, a, high)), select(huge, zero, low))
    large = logarithm + select(huge, m.constant(LN2[0]), zero)
    magnitude = select(a < 0.5, small, select(a < math.inf, large, a))
    return m.with_sign_of(magnitude, x)


def root_sum(m: FunctionBuilder, a: E, b: E, c: float) -> tuple[E, E]:
    """`a + sqrt(b * b + c)` as a rounded value and its rounding error."""
    product, product_rest = m.exact_product(b, b)
    square, square_rest = m.exact_sum(m.constant(c), product)
    root = m.let("root", square_root(square))
    defect = fma(-root, root, square, exact=True) + (square_rest + product_rest)
    total, rest = m.exact_sum(a, root)
    return total, rest + 0.5 * defect / root


@math_function(f32=1.5, f64=1.5)
def acosh(m: FunctionBuilder, x: E) -> E:
    """Inverse hyperbolic cosine; NaN below 1."""
    t = m.let("t", x - 1.0)
    product = m.let("product", fma(t, t, 2.0 * t))
    product_rest = m.let("product_rest", fma(t, t, -(product - 2.0 * t), exact=True))
    root = m.let("root", square_root(product))
    defect = fma(-root, root, product, exact=True) + product_rest
    correction = select(root > 0.0, 0.5 * defect / root, m.constant(0.0))
    near, near_rest = m.exact_sum(t, root)
    total, rest = m.exact_sum(m.constant(1.0), near)
    huge = m.let("huge", x > 2.0 ** (m.format.mantissa // 2 + 3))
    low = select(huge, m.constant(0.0), rest + (near_rest + correction))
    logarithm = log_of_sum(m, m.let("high", select(huge, x, total)), low)
    shifted = logarithm + select(huge, m.constant(LN2[0]), m.constant(0.0))
    outside = select(x < 1.0, m.constant(math.nan), x)
    return select(x >= 1.0, select(x < math.inf, shifted, outside), outside)
