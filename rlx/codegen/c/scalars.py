"""Scalar operations of the loop language in C."""

from __future__ import annotations

import re

from rlx.codegen.c.code import Code, call, cast, conditional, infix, prefix
from rlx.codegen.c.prelude import Prelude, libm
from rlx.codegen.c.spelling import scalar_type, unsigned
from rlx.codegen.loops.nodes import BinaryOp, CompareOp, Prim, UnaryOp

COMPARE_SIGNS = {
    CompareOp.EQ: "==",
    CompareOp.NE: "!=",
    CompareOp.LT: "<",
    CompareOp.LE: "<=",
    CompareOp.GT: ">",
    CompareOp.GE: ">=",
}
SIGNS = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.DIV: "/",
    BinaryOp.MOD: "%",
    BinaryOp.AND: "&",
    BinaryOp.OR: "|",
    BinaryOp.XOR: "^",
    BinaryOp.SHL: "<<",
    BinaryOp.SHR: ">>",
}
_WRAPS = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.SHL)
_DIVIDES = (BinaryOp.DIV, BinaryOp.MOD)


def narrow(prim: Prim, code: Code) -> Code:
    """Undo C's promotion to int: cast what is smaller than int back to its own type."""
    return cast(scalar_type(prim), code) if prim.is_int and prim.size < 4 else code


def unary(prelude: Prelude, op: UnaryOp, prim: Prim, x: Code) -> Code:
    if op is UnaryOp.NOT:
        return prefix("!", x) if prim is Prim.BOOL else narrow(prim, prefix("~", x))
    if op is UnaryOp.NEG:
        return prefix("-", x) if prim.is_float else call(prelude.negate(prim), x)
    if prim.is_float:
        return call(libm(op, prim), x)
    if op is UnaryOp.ABS and prim.is_signed:
        return call(prelude.absolute(prim), x)
    return x  # an integer is its own floor, and an unsigned one its own magnitude


def binary(prelude: Prelude, op: BinaryOp, prim: Prim, a: Code, b: Code) -> Code:
    """Arithmetic on tensor data: integers wrap."""
    if prim is Prim.BOOL:
        return infix(a, _bool_sign(op, b), b)
    if op in (BinaryOp.MIN, BinaryOp.MAX):
        return call(prelude.extremum(op, prim), a, b)
    if op is BinaryOp.LSHR:
        return _logical_shift(prim, a, b)
    if prim.is_int and _never_reached(op, b):
        return Code("0")
    if op in _WRAPS and (prim.is_signed or (prim.is_int and prim.size < 4)):
        return call(prelude.wrapping(op, prim), a, b)
    if op in _DIVIDES and prim.is_signed and not _positive(b):
        return call(prelude.divide(op, prim), a, b)
    return narrow(prim, infix(a, SIGNS[op], b))


def index_binary(prelude: Prelude, op: BinaryOp, a: Code, b: Code) -> Code:
    """Arithmetic on indices, which cannot overflow."""
    if op in (BinaryOp.MIN, BinaryOp.MAX):
        return call(prelude.extremum(op, Prim.I64), a, b)
    if op is BinaryOp.LSHR:
        return _logical_shift(Prim.I64, a, b)
    if op is BinaryOp.SHL:
        return call(prelude.wrapping(op, Prim.I64), a, b)
    if _never_reached(op, b):
        return Code("0")
    return infix(a, SIGNS[op], b)


def select(prim: Prim, condition: Code, a: Code, b: Code) -> Code:
    return narrow(prim, conditional(condition, a, b))


def convert(source: Prim, target: Prim, x: Code) -> Code:
    if target is Prim.BOOL:
        return infix(x, "!=", Code("0.0f" if source is Prim.F32 else "0"))
    return cast(scalar_type(target), x)


def reinterpret(prelude: Prelude, source: Prim, target: Prim, x: Code) -> Code:
    if source.is_float or target.is_float:
        return call(prelude.reinterpret(source, target), x)
    return cast(scalar_type(target), x)


def _logical_shift(prim: Prim, a: Code, b: Code) -> Code:
    if prim.is_unsigned:
        return narrow(prim, infix(a, ">>", b))
    return cast(scalar_type(prim), infix(cast(scalar_type(unsigned(prim)), a), ">>", b))


def _bool_sign(op: BinaryOp, b: Code) -> str:
    """Bools combine without a branch, except where the right side calls a function.

    Compilers warn about a bitwise operator whose right side looks as if it had effects.
    """
    if op in (BinaryOp.XOR, BinaryOp.ADD):
        return "!="
    conjunction = op in (BinaryOp.AND, BinaryOp.MIN, BinaryOp.MUL)
    if re.search(r"\w\(", b.text):
        return "&&" if conjunction else "||"
    return "&" if conjunction else "|"


def _never_reached(op: BinaryOp, divisor: Code) -> bool:
    """True for a division by the literal 0, which occurs in loops over empty axes only."""
    return op in _DIVIDES and divisor.text == "0"


def _positive(divisor: Code) -> bool:
    return divisor.text.isdigit()
