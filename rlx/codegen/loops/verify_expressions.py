"""Which expressions are well typed: the part of the verifier that looks at one expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from rlx.codegen.loops.byte_dots import SQUARE
from rlx.codegen.loops.byte_lookups import TABLE
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    DotBf16,
    DotBytes,
    Expr,
    Fma,
    Fold,
    Lane,
    Load,
    LookupBytes,
    Prim,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Unary,
    UnaryOp,
    ValueType,
    Var,
)

INDEX = ValueType(Prim.I64)
CONDITION = ValueType(Prim.BOOL)
ROUNDINGS = (UnaryOp.SQRT, UnaryOp.FLOOR, UnaryOp.CEIL, UnaryOp.TRUNC, UnaryOp.ROUND_EVEN)
FOLDS = (BinaryOp.ADD, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX, BinaryOp.AND, BinaryOp.OR)
BITWISE = (BinaryOp.AND, BinaryOp.OR, BinaryOp.XOR)
INTEGER_ONLY = (BinaryOp.MOD, BinaryOp.SHL, BinaryOp.SHR, BinaryOp.LSHR)


def expression_faults(expr: Expr) -> Iterator[str]:
    """Yield what is wrong with this node itself; its operands are checked on their own."""
    match expr:
        case Const():
            yield from _constant_faults(expr)
        case Var():
            return
        case Load():
            yield from index_faults(expr.index, f"load of {expr.buffer.name}")
            if expr.lanes < 1:
                yield f"load of {expr.lanes} lanes"
        case Unary():
            if not unary_takes(expr.op, expr.x.type.prim):
                yield f"{expr.op.value} does not take {expr.x.type}"
        case Binary():
            yield from _same(expr.op.value, expr.a, expr.b)
            if not binary_takes(expr.op, expr.a.type.prim):
                yield f"{expr.op.value} does not take {expr.a.type}"
        case Compare():
            yield from _same(expr.op.value, expr.a, expr.b)
            ordered = expr.op not in (CompareOp.EQ, CompareOp.NE)
            if ordered and expr.a.type.prim is Prim.BOOL:
                yield f"{expr.op.value} does not take {expr.a.type}"
        case Select():
            yield from _same("select", expr.a, expr.b)
            if expr.condition.type != ValueType(Prim.BOOL, expr.a.type.lanes):
                yield f"select between {expr.a.type} by a condition of {expr.condition.type}"
        case Fma():
            yield from _same("fma", expr.a, expr.b, expr.c)
            if not expr.a.type.prim.is_float:
                yield f"fma does not take {expr.a.type}"
        case DotBytes():
            yield from _word_faults(expr)
        case LookupBytes():
            yield from _lookup_faults(expr)
        case DotBf16():
            yield from _pair_faults(expr)
        case Cast():
            return
        case Bitcast():
            given = expr.x.type
            if given.lanes * given.prim.size % expr.prim.size or Prim.BOOL in (
                expr.prim,
                given.prim,
            ):
                yield f"bitcast of {expr.x.type} to {expr.prim}"
        case Splat() | Ramp() | Lane() | Fold() | Shuffle():
            yield from _lane_faults(expr)
        case Call():
            yield from _call_faults(expr)
        case _:
            assert_never(expr)


def index_faults(index: Expr, what: str) -> Iterator[str]:
    if index.type != INDEX:
        yield f"{what}: the index is {index.type}; it must be i64"


def unary_takes(op: UnaryOp, prim: Prim) -> bool:
    if op is UnaryOp.NOT:
        return not prim.is_float
    if op in ROUNDINGS:
        return prim.is_float
    return prim.is_float or prim.is_signed or (op is UnaryOp.NEG and prim.is_unsigned)


def binary_takes(op: BinaryOp, prim: Prim) -> bool:
    if op in BITWISE:
        return not prim.is_float
    return prim.is_int if op in INTEGER_ONLY else prim is not Prim.BOOL


def _same(what: str, *operands: Expr) -> Iterator[str]:
    first, *others = [operand.type for operand in operands]
    if any(other != first for other in others):
        types = (first, *others)
        yield f"{what} of {', '.join(map(str, types))}; the operands must have one type"


def _constant_faults(expr: Const) -> Iterator[str]:
    prim, value = expr.type.prim, expr.value
    if prim is Prim.BOOL:
        fits = value in (False, True)
    elif prim.is_float:
        fits = isinstance(value, (int, float))
    else:
        bits = prim.size * 8
        low, high = (-(1 << bits - 1), 1 << bits - 1) if prim.is_signed else (0, 1 << bits)
        fits = isinstance(value, int) and low <= value < high
    if not fits:
        yield f"{value!r} is no constant of {prim}"


def _lane_faults(expr: Splat | Ramp | Lane | Fold | Shuffle) -> Iterator[str]:
    match expr:
        case Splat():
            if expr.x.type.lanes != 1 or expr.lanes < 2:
                yield f"splat of {expr.x.type} to {expr.lanes} lanes"
        case Ramp():
            if expr.base.type.lanes != 1 or not expr.base.type.prim.is_int or expr.lanes < 2:
                yield f"ramp of {expr.base.type} to {expr.lanes} lanes"
        case Lane():
            if expr.x.type.lanes < 2 or not 0 <= expr.lane < expr.x.type.lanes:
                yield f"lane {expr.lane} of {expr.x.type}"
        case Fold():
            lanes = expr.x.type.lanes
            if lanes < 2 or lanes & (lanes - 1):
                yield f"fold of {expr.x.type}; the lanes must be a power of two above one"
            if expr.op not in FOLDS or not binary_takes(expr.op, expr.x.type.prim):
                yield f"fold of {expr.x.type} by {expr.op.value}"
        case Shuffle():
            yield from _same("shuffle", expr.a, expr.b)
            count = expr.a.type.lanes + expr.b.type.lanes
            if not expr.positions or not all(0 <= each < count for each in expr.positions):
                yield f"shuffle of {count} lanes by positions {expr.positions}"


def _word_faults(expr: DotBytes) -> Iterator[str]:
    yield from _same("dot_bytes", expr.b, expr.c)
    taken = [ValueType(prim, expr.c.type.lanes) for prim in (Prim.U32, Prim.I32)]
    if expr.a.type not in taken or expr.c.type.prim is not Prim.I32:
        yield f"dot_bytes does not take {expr.a.type}, {expr.b.type} and {expr.c.type}"
    if expr.squares and expr.c.type.lanes % SQUARE:
        yield f"dot_bytes of squares does not take {expr.c.type}: {SQUARE} lanes are a square"


def _lookup_faults(expr: LookupBytes) -> Iterator[str]:
    if len(expr.table) != TABLE or not all(0 <= byte < 256 for byte in expr.table):
        yield f"lookup_bytes in {expr.table}; a table is {TABLE} bytes"
    if expr.x.type.prim is not Prim.U32:
        yield f"lookup_bytes does not take {expr.x.type}"


def _pair_faults(expr: DotBf16) -> Iterator[str]:
    words = ValueType(Prim.U32, expr.c.type.lanes)
    if (expr.a.type, expr.b.type) != (words, words) or expr.c.type.prim is not Prim.F32:
        yield f"dot_bf16 does not take {expr.a.type}, {expr.b.type} and {expr.c.type}"


def _call_faults(expr: Call) -> Iterator[str]:
    function = expr.function
    expected = [param.type.prim for param in function.params]
    given = [arg.type.prim for arg in expr.args]
    if given != expected:
        shown = ", ".join(map(str, given))
        yield f"{function.name} takes ({', '.join(map(str, expected))}) and is given ({shown})"
    if len({arg.type.lanes for arg in expr.args}) > 1:
        yield f"{function.name} is given arguments of different lanes"
