"""Exact arithmetic that machines lack: floor modulo, integer division and power without traps."""

from __future__ import annotations

import math
from functools import cache

from rlx.codegen.loops.expr import E, call, const, fma, lshr, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim, UnaryOp

_BIAS = 1023
_LIFT = 54
"""Binary digits by which subnormal numbers are scaled up."""
_SQUARINGS = {Prim.F32: 3, Prim.F64: 6}
"""Exponents of a quotient are below 2**9 and 2**12; what is left of them is at most 34."""


def least(prim: Prim) -> int:
    """The smallest value of an integer type."""
    return -(1 << (prim.size * 8 - 1)) if prim.is_signed else 0


def greatest(prim: Prim) -> int:
    """The largest value of an integer type."""
    return (1 << (prim.size * 8 - (1 if prim.is_signed else 0))) - 1


def safe_divisor(b: E) -> E:
    """b, or 1 where it is 0 or -1: what C may divide any integer by."""
    trap = b.eq(0) | b.eq(-1) if b.type.prim.is_signed else b.eq(0)
    return select(trap, 1, b)


def divide_integers(a: E, b: E) -> E:
    """a / b toward zero; x / 0 = 0 and the least value by -1 is itself."""
    quotient = a // safe_divisor(b)
    if a.type.prim.is_signed:
        quotient = select(b.eq(-1), -a, quotient)
    return select(b.eq(0), 0, quotient)


def modulo_integers(a: E, b: E) -> E:
    """a modulo b with the sign of b; x mod 0 = 0."""
    rest = select(b.eq(0), 0, a % safe_divisor(b))
    if not a.type.prim.is_signed:
        return rest
    return select(rest.ne(0) & ((rest ^ b) < 0), rest + b, rest)


@cache
def integer_power(prim: Prim) -> Function:
    """`a ** b`, wrapping; `trunc(1 / a ** -b)` of a negative exponent, and 0 for `a` = 0."""
    m = FunctionBuilder(Prim.F32)
    params = m.parameter("a", prim), m.parameter("b", prim)
    a, b = E(params[0]), E(params[1])
    exponent = select(b < 0, b & 1, b) if prim.is_signed else b  # 1 and -1 have the period 2
    exponent = m.let("exponent", exponent)
    result, square = const(1, prim), a
    bits = prim.size * 8 - (1 if prim.is_signed else 0)
    for bit in range(bits):
        chosen = (exponent & (1 << bit)).ne(0)
        result = m.let("power", select(chosen, result * square, result))
        if bit + 1 < bits:
            square = m.let("square", square * square)
    if prim.is_signed:
        vanishes = (b < 0) & a.ne(1) & a.ne(-1)
        result = m.let("result", select(vanishes, 0, result))
    doc = "a ** b, wrapping; of a negative exponent 1, -1 or 0, as 1 / a ** -b truncates."
    return Function(f"pow_{prim}", params, tuple(m.lets), result.node, doc)


@cache
def float_modulo(prim: Prim) -> Function:
    """a modulo b with the sign of b, exact up to the final sum."""
    m = FunctionBuilder(Prim.F64)
    params = m.parameter("a", prim), m.parameter("b", prim)
    a, b = E(params[0]), E(params[1])
    divisor = m.let("divisor", abs(b.cast(Prim.F64)))
    magnitude = m.let("magnitude", abs(a.cast(Prim.F64)))
    rest = m.let("rest", _exact_rest(m, magnitude, divisor, _SQUARINGS[prim]))
    defined = (magnitude < math.inf) & (divisor > 0.0)
    rest = m.let("rest", select(defined, rest, m.constant(math.nan)))
    differ = (a < 0.0) ^ (b < 0.0)
    turned = m.let("turned", select(differ & (rest > 0.0), divisor - rest, rest))
    result = turned.cast(prim)
    signed = FunctionBuilder(prim).with_sign_of(result, b)
    value = select(turned.eq(turned), signed, const(math.nan, prim))
    doc = "a modulo b with the sign of b."
    return Function(f"mod_{prim}", params, tuple(m.lets), value.node, doc)


_NEAR_QUOTIENT = {Prim.F32: 2.0**22, Prim.F64: 2.0**51}
"""Quotients below are rounded to at most the next whole number."""


@cache
def near_modulo(prim: Prim) -> Function:
    """The bits of `float_modulo` where `has_near_quotient` is true, by one division.

    The rounded quotient truncates to the exact one or to the next: the rest, or what it lacks of
    the divisor, is a number of the format.
    """
    m = FunctionBuilder(prim)
    params = m.parameter("a", prim), m.parameter("b", prim)
    a, b = E(params[0]), E(params[1])
    divisor, magnitude = m.let("divisor", abs(b)), m.let("magnitude", abs(a))
    quotient = m.let("quotient", (magnitude / divisor).unary(UnaryOp.FLOOR))
    rest = m.let("rest", fma(-quotient, divisor, magnitude, exact=True))
    rest = m.let("rest", select(rest < 0.0, rest + divisor, rest))
    differ = (a < 0.0) ^ (b < 0.0)
    turned = m.let("turned", select(differ & (rest > 0.0), divisor - rest, rest))
    doc = f"a modulo b with the sign of b, for |a / b| < {_NEAR_QUOTIENT[prim]:.0f}."
    value = m.with_sign_of(turned, b)
    return Function(f"near_mod_{prim}", params, tuple(m.lets), value.node, doc)


@cache
def has_near_quotient(prim: Prim) -> Function:
    """1 for finite operands of `near_modulo`, else 0."""
    m = FunctionBuilder(prim)
    params = m.parameter("a", prim), m.parameter("b", prim)
    divisor = m.let("divisor", abs(E(params[1])))
    is_near = (abs(E(params[0])) < divisor * _NEAR_QUOTIENT[prim]) & (divisor < math.inf)
    value = select(is_near, const(1, Prim.I32), const(0, Prim.I32))
    doc = f"1 if |a / b| < {_NEAR_QUOTIENT[prim]:.0f} and b is finite, else 0."
    return Function(f"is_near_{prim}", params, tuple(m.lets), value.node, doc)


def _exact_rest(m: FunctionBuilder, a: E, b: E, squarings: int) -> E:
    """The remainder of positive f64 numbers, whatever the size of the quotient.

    With 53-bit integers `s` and `n`, a = s * 2**(e + k) and b = n * 2**e. The power 2**k modulo
    n comes by squaring, from the leading bits of k on, and the rest is s * 2**k modulo n.
    """
    significand, exponent, _ = _taken_apart(m, a)
    n, least_exponent, tiny = _taken_apart(m, b)
    half = m.let("half", n * 0.5)
    k = m.let("k", exponent - least_exponent)
    power = m.let("power", _power_of_two(lshr(k, squarings)))
    for bit in reversed(range(squarings)):
        square = _product_modulo(m, power, power, n, half)
        twice = _centered(m, square + square, n, half)
        power = m.let("power", select((k & (1 << bit)).ne(0), twice, square))
    rest = _product_modulo(m, power, _centered(m, significand, n, half), n, half)
    rest = m.let("rest", select(rest < 0.0, rest + n, rest))
    scaled = m.let("scaled", rest * 2.0**-52 * _power_of_two(least_exponent - _BIAS + tiny))
    scaled = select(tiny > 0, scaled * 2.0**-_LIFT, scaled)
    return select(a < b, a, scaled)


def _taken_apart(m: FunctionBuilder, x: E) -> tuple[E, E, E]:
    """Return x as an integer of 53 bits, its biased exponent, and by how much it was lifted."""
    is_tiny = x < m.format.least_normal
    bits = m.let("bits", m.bits(select(is_tiny, x * 2.0**_LIFT, x)))
    lift = m.let("lift", select(is_tiny, const(_LIFT, Prim.I64), const(0, Prim.I64)))
    integer = (bits & ((1 << 52) - 1)) | m.format.bits(2.0**52)
    exponent = m.let("exponent", lshr(bits, 52) - lift)
    return m.let("integer", integer.bitcast(Prim.F64)), exponent, lift


def _power_of_two(exponent: E) -> E:
    return ((exponent + _BIAS) << 52).bitcast(Prim.F64)


def _product_modulo(m: FunctionBuilder, x: E, y: E, n: E, half: E) -> E:
    """x * y modulo n, all integers; |x|, |y| and the result are at most n / 2 < 2**52.

    The rounded quotient is off by less than 5/8, so that every step is exact.
    """
    product, low = m.exact_product(x, y)
    quotient = (product / n).unary(UnaryOp.ROUND_EVEN)
    return _centered(m, fma(-quotient, n, product, exact=True) + low, n, half)


def _centered(m: FunctionBuilder, x: E, n: E, half: E) -> E:
    """x, at most 3/2 n in size, less the multiple of n that brings it next to 0."""
    x = m.let("x", x)
    return m.let("centered", select(x > half, x - n, select(x < -half, x + n, x)))


def modulo(a: E, b: E) -> E:
    """NumPy's `mod`: the result has the sign of the divisor."""
    if a.type.prim.is_float:
        return call(float_modulo(a.type.prim), a, b)
    return modulo_integers(a, b)
