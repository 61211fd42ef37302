"""Floats to integers, saturated: toward zero, or to the nearest as quantization rounds.

Branch-free, and one call where it is used: compilers make vectors of it.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from rlx.codegen.loops.expr import E, Operand, const, maximum, minimum, select
from rlx.codegen.loops.math.arithmetic import greatest, least
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.nodes import Function, Prim

_BELOW_HALF = {
    Prim.F32: float(np.nextafter(np.float32(0.5), np.float32(0))),
    Prim.F64: math.nextafter(0.5, 0),
}
"""What is added before the fraction is cut. One half itself would round what is just below a half
up; where this sum is rounded, it is rounded across an integer for halves alone."""

MAGIC = 1.5 * 2.0**23
"""Added to an f32 it leaves the nearest integer in the low bits."""


@functools.cache
def to_integer(source: Prim, target: Prim, *, away: bool) -> Function:
    """Return the function from floats to integers; NaN is 0.

    `away` takes the nearest, halves away from zero; without it fractions are cut.
    """
    builder = FunctionBuilder(source)
    param = builder.parameter("x", source)
    x = E(param)
    if away:
        half = _BELOW_HALF[source]
        x = builder.let("moved", x + select(x < 0, const(-half, source), const(half, source)))
    result = _bounded(builder, x, target) if _holds(source, target) else _saturated(x, target)
    kind = "Halves are rounded away from zero" if away else "Fractions are cut"
    name = f"{source}_to_{target}_{'away' if away else 'cut'}"
    doc = f"{kind}; saturated, NaN is 0."
    return Function(name, (param,), tuple(builder.lets), result.node, doc)


def _holds(source: Prim, target: Prim) -> bool:
    """True if every integer of `target` is a number of `source`."""
    return target.size < Prim.I32.size or (source is Prim.F64 and target.size == Prim.I32.size)


def _bounded(builder: FunctionBuilder, x: E, target: Prim) -> E:
    """Bound first, which takes two instructions, then convert; NaN passes signed bounds."""
    low, high = (const(float(bound(target)), x.type.prim) for bound in (least, greatest))
    wide = target if target.size >= Prim.I32.size else Prim.I32  # whose vectors machines have
    if not target.is_signed:  # the maximum of NaN and 0 is 0, as is that of -0.5, which is not -0
        return builder.let("inside", minimum(high, maximum(x, low))).cast(wide).cast(target)
    inside = builder.let("inside", minimum(high, maximum(low, x)))
    return select(abs(inside) >= 1, inside, 0.0).cast(wide).cast(target)


@functools.cache
def rounded_to_integer(target: Prim) -> Function:
    """Return the function of an f32 and of a zero point: the sum of its nearest integer and that.

    Halves go to even, NaN is 0 and results are saturated: `to_integer` of the rounded number plus
    the zero point, which is an integer of `target`.
    """
    m = FunctionBuilder(Prim.F32)
    params = m.parameter("x", Prim.F32), m.parameter("zero_point", Prim.I32)
    x, zero_point = map(E, params)
    low, high = (const(float(bound(target)), Prim.F32) for bound in (least, greatest))
    zero = m.let("zero", zero_point.cast(Prim.F32))
    inside = within(x, low - zero, high - zero)
    bits = m.let("moved", inside + MAGIC).bitcast(Prim.I32)
    low_bits = (1 << 8 * target.size) - 1  # GCC takes lanes one by one that were just floats
    result = ((bits + zero_point) & low_bits).cast(target)
    if target.is_signed:
        result = select(x.eq(x), result, const(0, target))
    name, doc = f"f32_to_{target}_even", "Halves are rounded to even; saturated, NaN is 0."
    return Function(name, params, tuple(m.lets), result.node, doc)


def within(x: E, low: Operand, high: Operand) -> E:
    """Return a float in bounds; NaN is the lower one."""
    return minimum(maximum(x, low), high)


def _saturated(x: E, target: Prim) -> E:
    """Convert what is between the bounds, and clamp to them."""
    low, high = float(least(target)), float(greatest(target) + 1)
    size = _size(x, target)
    whole = select((size >= 1) & (size < high), x, 0.0).cast(target)
    above = select(x >= high, const(greatest(target), target), whole)
    return select(x <= low, const(least(target), target), above)


def _size(x: E, target: Prim) -> E:
    """Return a magnitude; only numbers with one of at least 1 are converted, others are 0.

    So -0.5 is not converted: GCC replaces `(float)(int)x` by `trunc(x)` under
    `-fno-trapping-math`, which is -0.0 there.
    """
    return abs(x) if target.is_signed else x
