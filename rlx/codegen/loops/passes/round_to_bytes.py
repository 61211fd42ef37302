"""Rounding to small integers in fewer steps: the same integers.

    y[i] = f32_to_u8_cut(round_even(x[i]) + 3.0)    ->    y[i] = f32_to_u8_even(x[i], 3)
    y[i] = f32(i32(f32_to_u8_cut(round_even(x[i]) + 3.0)) - 3)
        ->  y[i] = min(max(x[i], -3.0), 252.0) + 12582912.0 - 12582912.0

Quantization spells its steps out: round, add the zero point, bound, convert. In bounds, adding
1.5 * 2**23 rounds, and leaves the integer in the low bits; taken off again, it leaves a float.
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.expr import E, call, const, select
from rlx.codegen.loops.math.arithmetic import greatest, least
from rlx.codegen.loops.math.integers import MAGIC, rounded_to_integer, to_integer, within
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Const,
    Expr,
    Kernel,
    Prim,
    Splat,
    Unary,
    UnaryOp,
)
from rlx.codegen.loops.visit import all_expressions, rewrite_block

_TARGETS = (Prim.U8, Prim.I8, Prim.U16, Prim.I16)
_CUT = {id(to_integer(Prim.F32, target, away=False)): target for target in _TARGETS}
_EVEN = {id(rounded_to_integer(target)): target for target in _TARGETS}


def round_to_bytes(kernel: Kernel) -> Kernel:
    """Rewrite conversions of rounded numbers to small integers."""
    calls = (e for e in all_expressions(kernel.body) if isinstance(e, Call))
    if not any(id(call.function) in _CUT for call in calls):
        return kernel
    return replace(kernel, body=rewrite_block(kernel.body, _rewritten))


def _rewritten(expr: Expr) -> Expr:
    match expr:
        case Call(function, (x,)) if id(function) in _CUT:
            return _rounded(expr, x)
        case Cast(inner, Prim.F32):
            return _as_float(expr, inner)
        case _:
            return expr


def _rounded(conversion: Call, x: Expr) -> Expr:
    """Return a conversion that rounds, if what it converts is rounded and moved by an integer."""
    zero_point = 0.0
    match x:
        case Binary(BinaryOp.ADD, rounded, moved) if (value := _number(moved)) is not None:
            x, zero_point = rounded, value
    target = _CUT[id(conversion.function)]
    is_even = isinstance(x, Unary) and x.op is UnaryOp.ROUND_EVEN
    if not is_even or not least(target) <= zero_point <= greatest(target) or zero_point % 1:
        return conversion
    assert isinstance(x, Unary)
    zeros = const(int(zero_point), Prim.I32, x.type.lanes)
    return call(rounded_to_integer(target), E(x.x), zeros).node


def _as_float(conversion: Cast, x: Expr) -> Expr:
    """Return the float of an integer less its zero point: rounded, bounded and never converted."""
    taken = 0.0
    match x:
        case Binary(BinaryOp.SUB, integer, moved) if (value := _number(moved)) is not None:
            x, taken = integer, value
    if isinstance(x, Cast) and x.prim is Prim.I32:
        x = x.x
    if not isinstance(x, Call) or id(x.function) not in _EVEN or _number(x.args[1]) != taken:
        return conversion
    given, target = E(x.args[0]), _EVEN[id(x.function)]
    result = within(given, least(target) - taken, greatest(target) - taken) + MAGIC - MAGIC
    if target.is_signed:
        result = select(given.eq(given), result, 0.0 - taken)
    return result.node


def _number(expr: Expr) -> float | None:
    match expr:
        case Const(value) | Splat(Const(value)):
            return float(value)
        case _:
            return None
