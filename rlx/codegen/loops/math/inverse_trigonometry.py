"""asin, acos, atan and atan2."""

from __future__ import annotations

import math

from rlx.codegen.loops.expr import E, fma, maximum, minimum, select
from rlx.codegen.loops.math import coefficients
from rlx.codegen.loops.math.define import FunctionBuilder, math_function, square_root
from rlx.codegen.loops.math.trigonometry import HALF_PI
from rlx.codegen.loops.nodes import Prim


def half_angle(m: FunctionBuilder, a: E) -> tuple[E, E]:
    """For asin and acos of a magnitude: the reduced argument s and `asin(s) - s`.

    Below 1/2 s is a itself; above, sqrt((1 - a) / 2), the sine of half the complement.
    """
    above = m.let("above", a >= 0.5)
    y = m.let("y", select(above, fma(-0.5, a, 0.5), a * a))
    root = m.let("root", square_root(y))
    s = m.let("s", select(above, root, a))
    defect = select(
        above & (root > 0.0), 0.5 * fma(-root, root, y, exact=True) / root, m.constant(0.0)
    )
    return s, m.let("tail", fma(s * y, m.polynomial(y, coefficients.ASIN), defect))


@math_function(f32=1.5, f64=1.5)
def asin(m: FunctionBuilder, x: E) -> E:
    """Inverse sine; NaN outside [-1, 1]."""
    a = m.let("a", abs(x))
    s, tail = half_angle(m, a)
    high, low = m.split(*HALF_PI)
    complement = high - (2.0 * s - fma(-2.0, tail, low))
    return m.with_sign_of(select(a < 0.5, s + tail, complement), x)


@math_function(f32=1.0, f64=1.0)
def acos(m: FunctionBuilder, x: E) -> E:
    """Inverse cosine; NaN outside [-1, 1]."""
    s, tail = half_angle(m, m.let("a", abs(x)))
    high, low = m.split(*HALF_PI)
    sign = m.let("sign", select(x < 0.0, m.constant(-1.0), m.constant(1.0)))
    middle = high - (sign * s - fma(-sign, tail, low))
    twice = m.let("twice", 2.0 * (s + tail))
    end = select(x < 0.0, 2.0 * high - (2.0 * s - fma(-2.0, tail, 2.0 * low)), twice)
    return select(abs(x) < 0.5, middle, end)


def arc(m: FunctionBuilder, q: E) -> E:
    """`atan(q) - q` for q in [0, 1]."""
    y = m.let("y", q * q)
    return m.let("tail", q * y * m.polynomial(y, coefficients.ATAN))


@math_function(f32=1.5, f64=1.5, separate={Prim.F32: 2.0})
def atan(m: FunctionBuilder, x: E) -> E:
    """Inverse tangent."""
    a = m.let("a", abs(x))
    steep = m.let("steep", a > 1.0)
    inverse = m.let("inverse", 1.0 / a)
    q = m.let("q", select(steep, inverse, a))
    tail = arc(m, q)
    high, low = m.split(*HALF_PI)
    return m.with_sign_of(select(steep, high - (q - (low - tail)), q + tail), x)


@math_function(f32=2.0, f64=1.5)
def atan2(m: FunctionBuilder, y: E, x: E) -> E:
    """Angle of the point (x, y), in [-pi, pi]; the signs of zeros and infinities as in C."""
    a, b = m.let("a", abs(y)), m.let("b", abs(x))
    least, most = m.let("least", minimum(a, b)), m.let("most", maximum(a, b))
    equal = m.let("equal", a.eq(b))
    ratio = select(equal, select(a.eq(0.0), a, m.constant(1.0)), least / most)
    q = m.let("q", ratio)
    tail = arc(m, q)
    high, low = m.split(*HALF_PI)
    steep = select(a > b, high - (q - (low - tail)), q + tail)
    angle = m.let("angle", steep)
    is_left = m.bits(x) < 0
    turned = 2.0 * high - (angle - 2.0 * low)
    magnitude = select(is_left, turned, angle)
    ordered = (a >= b) | (b >= a)
    return select(ordered, m.with_sign_of(magnitude, y), m.constant(math.nan))
