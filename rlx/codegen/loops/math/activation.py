"""Activations whose negative tail underflows gradually and is exact until then.

Each is `x` times something between 0 and 1 that falls as fast as an exponential. Formulas over
other functions lose the tail: `1 + tanh(u)` cancels, and `x * sigmoid(x)` scales up the rounding
of a subnormal number. Here the power of two comes last.
"""

from __future__ import annotations

import math

from rlx.codegen.loops.expr import E, fma, maximum, minimum, select
from rlx.codegen.loops.math.define import FunctionBuilder, math_function
from rlx.codegen.loops.math.error_function import erfc_scaled
from rlx.codegen.loops.math.exponential import exponential_parts, scale_gradually
from rlx.codegen.loops.nodes import Prim

_SLOPE = 2.0 * math.sqrt(2.0 / math.pi)
_SLOPE_LOST = -9.96930880911092e-17
_CUBIC = 0.07135481627260025
_CUBIC_LOST = -6.175149918155315e-19


@math_function(f32=3.0, f64=3.0)
def silu(m: FunctionBuilder, x: E) -> E:
    """x / (1 + e**-x); -0 at -infinity."""
    x_, a = _bounded(m, x)
    p, shifted = exponential_parts(m, -a)
    denominator = m.let("denominator", 1.0 + scale_gradually(m, p, shifted))
    negative = scale_gradually(m, x_ / denominator * p, shifted)
    return select(x < 0.0, negative, x / denominator)


@math_function(f32=4.0, f64=4.0)
def mish(m: FunctionBuilder, x: E) -> E:
    """x tanh(log(1 + e**x)), which is rational in e = e**-|x|; -0 at -infinity."""
    x_, a = _bounded(m, x)
    p, shifted = exponential_parts(m, -a)
    e = m.let("e", scale_gradually(m, p, shifted))
    sum_ = m.let("sum", e + 2.0)
    negative = scale_gradually(m, x_ * sum_ / fma(e, sum_, 2.0) * p, shifted)
    numerator = m.let("numerator", fma(e, 2.0, 1.0))
    return select(x < 0.0, negative, x * (numerator / fma(e * e, 2.0, numerator)))


@math_function(f32=5.0, f64=6.0, separate={Prim.F32: 6.0})
def gelu(m: FunctionBuilder, x: E) -> E:
    """x times the normal distribution function of x, which is erfc(-x / sqrt(2)) / 2."""
    limit = m.choose(15.0, 40.0)
    x_ = m.let("bounded", maximum(-limit, x))
    a = m.let("a", minimum(limit, abs(x)))
    square, rest = m.exact_product(a, a)
    slow = m.let("slow", 0.5 * erfc_scaled(m, a * math.sqrt(0.5)))
    slow = m.let("exact", fma(-0.5 * rest, slow, slow))
    p, shifted = exponential_parts(m, m.let("exponent", -0.5 * square))
    negative = scale_gradually(m, x_ * slow * p, shifted)
    return select(x < 0.0, negative, x * (1.0 - slow * scale_gradually(m, p, shifted)))


@math_function(f32=4.0, f64=4.0)
def gelu_approx(m: FunctionBuilder, x: E) -> E:
    """x / (1 + e**-v) with v = sqrt(8 / pi) (x + 0.044715 x**3), known to twice the precision."""
    limit = m.choose(12.0, 24.0)
    x_ = m.let("bounded", maximum(-limit, x))
    v, lost = _cubic(m, m.let("a", minimum(limit, abs(x))))
    p, shifted = exponential_parts(m, -v)
    p = m.let("exact", fma(-lost, p, p))
    denominator = m.let("denominator", 1.0 + scale_gradually(m, p, shifted))
    negative = scale_gradually(m, x_ / denominator * p, shifted)
    return select(x < 0.0, negative, x / denominator)


def _bounded(m: FunctionBuilder, x: E) -> tuple[E, E]:
    """x from where the result is nonzero, and its magnitude up to there; NaN stays."""
    limit = m.choose(120.0, 800.0)
    return m.let("bounded", maximum(-limit, x)), m.let("a", minimum(limit, abs(x)))


def _cubic(m: FunctionBuilder, a: E) -> tuple[E, E]:
    """The exponent of `gelu_approx` as a sum of two: an error of 1 ulp would cost hundreds."""
    slope, slope_rest = m.split(_SLOPE, _SLOPE_LOST)
    cubic, cubic_rest = m.split(_CUBIC, _CUBIC_LOST)
    square, square_rest = m.exact_product(a, a)
    term, term_rest = m.exact_product(square, m.constant(cubic))
    factor, rest = m.exact_sum(m.constant(slope), term)
    small = fma(square, cubic_rest, fma(square_rest, cubic, term_rest)) + (rest + slope_rest)
    v, v_rest = m.exact_product(a, factor)
    return v, m.let("lost", fma(a, small, v_rest))
