"""A multiply-add that rounds once, for targets without the instruction."""

from __future__ import annotations

from functools import cache

from rlx.codegen.loops.expr import E
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim


@cache
def exact_multiply_add(prim: Prim) -> Function:
    """Return `a * b + c`, wrong by less than a unit, and exact where it is a number of `prim`.

    What the product's rounding lost comes from the halves of its factors (Dekker, 1971). A factor
    of more than 2**(emax - p / 2) overflows to NaN: the math library keeps those away.
    """
    m = FunctionBuilder(prim)
    params = tuple(m.parameter(name, prim) for name in "abc")
    a, b, c = map(E, params)
    (a_high, a_low), (b_high, b_low) = _halves(m, a), _halves(m, b)
    product = m.let("product", a * b)
    lost = m.let("lost", ((a_high * b_high - product) + a_high * b_low) + a_low * b_high)
    total, rest = m.exact_sum(product, c)
    doc = "a * b + c, as from one rounding."
    result = total + (rest + (lost + a_low * b_low))
    return Function(f"multiply_add_{prim}", params, tuple(m.lets), result.node, doc)


def _halves(m: FunctionBuilder, x: E) -> tuple[E, E]:
    """Return x as a sum of two numbers of half its digits (Veltkamp)."""
    factor = 2.0 ** ((m.format.mantissa + 2) // 2) + 1.0
    scaled = m.let("scaled", x * factor)
    high = m.let("high", scaled - (scaled - x))
    return high, m.let("low", x - high)
