"""Exact arithmetic that machines lack: floor modulo, integer division and power without traps."""

from __future__ import annotations

import math
from functools import cache

from rlx.codegen.loops.expr import E, call, const, fma, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim, UnaryOp

_STEPS = {Prim.F32: 6, Prim.F64: 4}


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
    """`a ** max(b, 0)`, wrapping."""
    m = FunctionBuilder(Prim.F32)
    params = m.parameter("a", prim), m.parameter("b", prim)
    a, b = E(params[0]), E(params[1])
    exponent = select(b < 0, 0, b) if prim.is_signed else b
    exponent = m.let("exponent", exponent)
    result, square = const(1, prim), a
    bits = prim.size * 8 - (1 if prim.is_signed else 0)
    for bit in range(bits):
        chosen = (exponent & (1 << bit)).ne(0)
        result = m.let("power", select(chosen, result * square, result))
        if bit + 1 < bits:
            square = m.let("square", square * square)
    doc = "a ** max(b, 0), wrapping."
    return Function(f"pow_{prim}", params, tuple(m.lets), result.node, doc)


@cache
def float_modulo(prim: Prim) -> Function:
    """a modulo b with the sign of b, exact up to the final sum.

    Each step takes some 52 bits of the quotient. Six reach every f32; four reach |a / b| below
    2**200 in f64, beyond which the result is NaN rather than noise.
    """
    m = FunctionBuilder(Prim.F64)
    params = m.parameter("a", prim), m.parameter("b", prim)
    a, b = E(params[0]), E(params[1])
    divisor = m.let("divisor", abs(b.cast(Prim.F64)))
    magnitude = m.let("magnitude", abs(a.cast(Prim.F64)))
    rest = magnitude
    for _ in range(_STEPS[prim]):
        quotient = (rest / divisor).unary(UnaryOp.TRUNC)
        rest = m.let("rest", fma(-quotient, divisor, rest))
    rest = m.let("rest", select(rest < 0.0, rest + divisor, rest))
    rest = m.let("rest", select(magnitude < divisor, magnitude, rest))
    in_range = (rest >= 0.0) & (rest < divisor)
    rest = m.let("rest", select(in_range, rest, m.constant(math.nan)))
    differ = (a < 0.0) ^ (b < 0.0)
    turned = m.let("turned", select(differ & (rest > 0.0), divisor - rest, rest))
    result = turned.cast(prim)
    signed = FunctionBuilder(prim).with_sign_of(result, b)
    value = select(turned.eq(turned), signed, const(math.nan, prim))
    doc = "a modulo b with the sign of b."
    return Function(f"mod_{prim}", params, tuple(m.lets), value.node, doc)


def modulo(a: E, b: E) -> E:
    """NumPy's `mod`: the result has the sign of the divisor."""
    if a.type.prim.is_float:
        return call(float_modulo(a.type.prim), a, b)
    return modulo_integers(a, b)
