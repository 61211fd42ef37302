"""Sine and cosine of an f32 by one function, for targets where code is small.

Both come from one reduction of the argument, and are returned in the halves of an i64, which
32-bit cores keep in two registers. Huge arguments branch to the reduction for the full range.
"""

from __future__ import annotations

from functools import cache

from rlx.codegen.loops.expr import E, call, const, select
from rlx.codegen.loops.math.define import FunctionBuilder
from rlx.codegen.loops.math.near import near_limit, reduce_near
from rlx.codegen.loops.math.trigonometry import (
    flip_sign,
    reduce_argument,
    reduce_far_single,
    sine_and_cosine,
    unless_small,
)
from rlx.codegen.loops.nodes import Call, Expr, Function, Prim

HALVES = {"sin": 32, "cos": 0}
"""The lowest bit of each function's value."""

_MASK = 0xFFFFFFFF


def paired(name: str, x: Expr, *, single: bool) -> Expr:
    """Return "sin" or "cos" of an f32 as a half of what one function computes of both."""
    both = E(Call(sine_and_cosine_function(single=single), (x,)))
    return (both >> HALVES[name]).cast(Prim.I32).bitcast(Prim.F32).node


@cache
def sine_and_cosine_function(*, single: bool) -> Function:
    """Return the function of both, which reduces near arguments without doubles if `single`."""
    m = FunctionBuilder(Prim.F32)
    param = m.parameter("x", Prim.F32)
    x = E(param)
    magnitude = m.let("magnitude", abs(x))
    # Small arguments need no reduction: compilers branch around it.
    reduced = unless_small(m, magnitude, reduce_near(m, magnitude, single=single))
    near = call(_function_of_reduced(), x, *reduced)
    far = call(_far_function(single=single), x)
    result = select(magnitude <= near_limit(single=single), near, far)
    doc = "Sine in the upper half, cosine in the lower, within 1 ulp; NaN at infinity."
    return Function("sin_cos_f32", (param,), tuple(m.lets), result.node, doc)


@cache
def _far_function(*, single: bool) -> Function:
    """Return the same of large arguments."""
    m = FunctionBuilder(Prim.F32)
    param = m.parameter("x", Prim.F32)
    x = E(param)
    magnitude = m.let("magnitude", abs(x))
    reduce = reduce_far_single if single else reduce_argument
    both = call(_function_of_reduced(), x, *reduce(m, magnitude))
    nan = m.format.bits(float("nan"))
    is_number = magnitude < float("inf")
    result = select(is_number, both, const((nan << 32) | nan, Prim.I64))
    doc = "Sine and cosine in the halves of an integer, of large arguments; NaN at infinity."
    return Function("far_sin_cos_f32", (param,), tuple(m.lets), result.node, doc)


@cache
def _function_of_reduced() -> Function:
    """Return the same of an argument and what is left of it in its quadrant."""
    m = FunctionBuilder(Prim.F32)
    types = {"x": Prim.F32, "quadrant": Prim.I32, "r": Prim.F32, "low": Prim.F32}
    params = tuple(m.parameter(each, of) for each, of in types.items())
    x, *reduced = map(E, params)
    result = _both(m, x, (reduced[0], reduced[1], reduced[2]))
    doc = "Sine and cosine in the halves of an integer, of a reduced argument."
    return Function("reduced_sin_cos_f32", params, tuple(m.lets), result.node, doc)


def _both(m: FunctionBuilder, x: E, reduced: tuple[E, E, E]) -> E:
    """Return the bits of the sine and the cosine, of what is left of `x` in its quadrant."""
    quadrant, r, low = reduced
    sine, cosine = sine_and_cosine(m, r, low)
    is_odd = m.let("is_odd", (quadrant & 1).ne(0))
    upper = m.bits(flip_sign(m, select(is_odd, cosine, sine), quadrant))
    upper = upper ^ (m.bits(x) & m.format.sign_bit)
    lower = m.bits(flip_sign(m, select(is_odd, sine, cosine), quadrant + (quadrant & 1)))
    return (upper.cast(Prim.I64) << 32) | (lower.cast(Prim.I64) & _MASK)
