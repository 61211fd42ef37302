"""Vector operations of the loop language in C with GCC's and clang's vector extension.

A vector of bools is a mask: signed integer lanes, all bits set for true. Its lanes are as wide
as the elements whose comparison made it, and are converted where two widths are combined.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rlx.codegen.c.code import Code, Level, call, cast, infix, prefix
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.c.scalars import COMPARE_SIGNS, SIGNS
from rlx.codegen.c.spelling import mask_prim, unsigned
from rlx.codegen.loops.nodes import BinaryOp, CompareOp, Prim, UnaryOp, ValueType

_WRAPS = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.SHL)
_DIVIDES = (BinaryOp.DIV, BinaryOp.MOD)
_OPERATORS = {
    True: (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV),
    False: (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR, BinaryOp.SHL, BinaryOp.SHR, BinaryOp.LSHR),
}
"""Operators in C of floats, and of integers: the others are functions."""

_Builder: TypeAlias = Callable[[str], Code]


def mask_type(lanes: int, size: int) -> ValueType:
    return ValueType(mask_prim(size), lanes)


def takes_scalars(op: BinaryOp, prim: Prim) -> bool:
    """True if one operand may be a scalar: no literal of a narrow integer, which C widens."""
    return op in _OPERATORS[prim.is_float] and compares_scalars(prim)


def compares_scalars(prim: Prim) -> bool:
    """True if vectors are compared with a scalar of `prim` as it is."""
    return prim.is_float or prim.size >= 4


def unary(prelude: Prelude, op: UnaryOp, type: ValueType, x: Code) -> Code:
    if op is UnaryOp.NOT:
        return prefix("~", x)
    if op is UnaryOp.NEG and type.prim.is_float:
        return prefix("-", x)
    if op is UnaryOp.NEG:
        return _as_unsigned(prelude, type, lambda bits: prefix("-", cast(bits, x)))
    if type.prim.is_float or (op is UnaryOp.ABS and type.prim.is_signed):
        return call(prelude.vector_unary(op, type), x)
    return x


def binary(prelude: Prelude, op: BinaryOp, type: ValueType, a: Code, b: Code) -> Code:
    if op in (BinaryOp.MIN, BinaryOp.MAX):
        return call(prelude.vector_extremum(op, type), a, b)
    if op in _DIVIDES and type.prim.is_signed:
        return call(prelude.vector_divide(op, type), a, b)
    if op is BinaryOp.LSHR:
        return _as_unsigned(prelude, type, lambda bits: infix(cast(bits, a), ">>", cast(bits, b)))
    if op in _WRAPS and type.prim.is_signed:
        return call(prelude.vector_wrapping(op, type), a, b)
    return infix(a, SIGNS[op], b)


def shift(prelude: Prelude, op: BinaryOp, type: ValueType, a: Code, places: Code) -> Code:
    """Shift the bits of all lanes by one number of places."""
    sign = "<<" if op is BinaryOp.SHL else ">>"
    return _as_unsigned(prelude, type, lambda bits: infix(cast(bits, a), sign, places))


def compare(prelude: Prelude, op: CompareOp, type: ValueType, a: Code, b: Code) -> Code:
    mask = prelude.vector(mask_type(type.lanes, type.prim.size))
    return cast(mask, infix(a, COMPARE_SIGNS[op], b))


def convert(prelude: Prelude, source: ValueType, type: ValueType, x: Code) -> Code:
    """Convert lanes; integers become wider by one step of two at a time.

    GCC 12 takes lanes one by one where they become four times as wide.
    """
    for prim in (*_between(source.prim, type.prim), type.prim):
        wider = prelude.vector(ValueType(prim, type.lanes))
        x = Code(f"__builtin_convertvector({x.text}, {wider})")
    return x


def _between(source: Prim, target: Prim) -> tuple[Prim, ...]:
    """Return the signed integers, which hold all of `source`, that are narrower than `target`."""
    if source.is_float:
        return ()
    return tuple(p for p in (Prim.I16, Prim.I32) if source.size < p.size < target.size)


def ramp(prelude: Prelude, type: ValueType, base: Code) -> Code:
    steps = ", ".join(str(lane) for lane in range(type.lanes))
    offsets = Code(f"({prelude.vector(type)}){{{steps}}}")
    return binary(prelude, BinaryOp.ADD, type, call(prelude.splat(type), base), offsets)


def shuffle(
    prelude: Prelude, type: ValueType, a: Code, b: Code, positions: tuple[int, ...]
) -> Code:
    """Pick lanes of two vectors of `type`, or of the one that they come from."""
    if a == b:
        positions = tuple(at % type.lanes for at in positions)
    if min(positions) >= type.lanes:
        a, positions = b, tuple(at - type.lanes for at in positions)
    given = (a,) if max(positions) < type.lanes else (a, b)
    return call(prelude.shuffle(type, len(given), positions), *given)


def fold(prelude: Prelude, op: BinaryOp, type: ValueType, x: Code) -> Code:
    """Combine all lanes, high half with low half, until one is left."""
    steps, half = [], type.lanes // 2
    while half:
        rotated = tuple((lane + half) % type.lanes for lane in range(type.lanes))
        upper = shuffle(prelude, type, Code("x"), Code("x"), rotated)
        steps.append(f"x = {binary(prelude, op, type, Code('x'), upper).text};")
        half //= 2
    return call(prelude.fold(op.value, type, steps), x)


def lane(x: Code, position: int) -> Code:
    return Code(f"{x.at(Level.POSTFIX)}[{position}]")


def _as_unsigned(prelude: Prelude, type: ValueType, build: _Builder) -> Code:
    """Compute on the unsigned type, where overflow wraps, and return to `type`."""
    bits = prelude.vector(ValueType(_unsigned(type.prim), type.lanes))
    return cast(prelude.vector(type), build(bits))


def _unsigned(prim: Prim) -> Prim:
    return unsigned(prim) if prim.is_signed else prim
