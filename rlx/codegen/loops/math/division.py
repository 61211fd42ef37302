"""Quotients by whole numbers that are known when a program is compiled, in multiply-adds.

A vector division takes ten to sixteen cycles on x86, in which twenty to thirty-two multiply-adds
could run, and programs divide by 6, 9 or 255 at every element.
"""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from functools import cache

from rlx.codegen.loops.expr import E, fma, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim

_GREATEST = {Prim.F32: 2.0**20, Prim.F64: 2.0**49}
"""With eight times as many the error of the reciprocal could turn a result."""


def has_exact_quotient(divisor: float, prim: Prim) -> bool:
    """True if `divide_by` divides by this number; a power of two has an exact reciprocal."""
    is_whole = 2.0 < divisor <= _GREATEST[prim] and divisor.is_integer()
    return is_whole and math.frexp(divisor)[0] != math.frexp(1.0)[0]


@cache
def divide_by(divisor: float, prim: Prim) -> Function:
    """Return `x / divisor` with the bits of the division, for any x.

    The product with the rounded reciprocal is off by less than two units, and what that leaves of
    x is a number of the format, as it counts whole units: it gives the correction (Markstein,
    1990). Quotients by whole numbers stay away from where rounding turns, further than the
    error of the reciprocal reaches. Only subnormal quotients are halfway between two numbers:
    there a reciprocal above the true one leaves an odd quotient, and one below stays at an even.
    """
    m = FunctionBuilder(prim)
    param = m.parameter("x", prim)
    x = E(param)
    nearest, below = _reciprocals(divisor, prim)
    quotient = m.let("quotient", x * nearest)
    rest = m.let("rest", fma(quotient, divisor, -x, exact=True))  # in this order zeros keep signs
    is_odd = m.bits(quotient) & 1
    reciprocal = m.let("reciprocal", (is_odd + m.format.bits(below)).bitcast(prim))
    corrected = fma(-rest, reciprocal, quotient, exact=True)
    result = select(rest.eq(rest), corrected, quotient)  # an infinity leaves NaN
    doc = f"x / {divisor:g}, rounded once."
    return Function(f"divide_by_{divisor:.0f}_{prim}", (param,), tuple(m.lets), result.node, doc)


def _reciprocals(divisor: float, prim: Prim) -> tuple[float, float]:
    """Return the number of `prim` nearest to the reciprocal, and the next one below it."""
    form = ("<f", "<i") if prim is Prim.F32 else ("<d", "<q")
    nearest = struct.unpack(form[0], struct.pack(form[0], 1.0 / divisor))[0]
    if Fraction(nearest) * int(divisor) < 1:
        return nearest, nearest
    bits = struct.unpack(form[1], struct.pack(form[0], nearest))[0]
    return nearest, struct.unpack(form[0], struct.pack(form[1], bits - 1))[0]
