"""Expressions with Python operators: what kernel builders compute with.

`E` wraps a loop-language expression; numbers adapt to the other operand's type and scalars
combine with vectors through `splat`. Integer constants fold, so that index arithmetic prints as a
person would write it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

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
    Function,
    Lane,
    LookupBytes,
    Prim,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Unary,
    UnaryOp,
    ValueType,
)

Number: TypeAlias = bool | int | float


class E:
    """An expression under construction."""

    __slots__ = ("node", "type")

    def __init__(self, node: Expr, type: ValueType | None = None) -> None:
        self.node = node
        self.type = node.type if type is None else type
        """Kept, because a node finds its own by asking the nodes below it."""

    def __repr__(self) -> str:
        return f"E({self.node})"

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value while the kernel is built")

    def __add__(self, other: Operand) -> E:
        return binary(BinaryOp.ADD, self, other)

    def __radd__(self, other: Operand) -> E:
        return binary(BinaryOp.ADD, other, self)

    def __sub__(self, other: Operand) -> E:
        return binary(BinaryOp.SUB, self, other)

    def __rsub__(self, other: Operand) -> E:
        return binary(BinaryOp.SUB, other, self)

    def __mul__(self, other: Operand) -> E:
        return binary(BinaryOp.MUL, self, other)

    def __rmul__(self, other: Operand) -> E:
        return binary(BinaryOp.MUL, other, self)

    def __truediv__(self, other: Operand) -> E:
        return binary(BinaryOp.DIV, self, other)

    def __rtruediv__(self, other: Operand) -> E:
        return binary(BinaryOp.DIV, other, self)

    def __floordiv__(self, other: Operand) -> E:
        """Integer division truncating toward zero; write it for nonnegative indices."""
        return binary(BinaryOp.DIV, self, other)

    def __mod__(self, other: Operand) -> E:
        return binary(BinaryOp.MOD, self, other)

    def __and__(self, other: Operand) -> E:
        return binary(BinaryOp.AND, self, other)

    def __or__(self, other: Operand) -> E:
        return binary(BinaryOp.OR, self, other)

    def __xor__(self, other: Operand) -> E:
        return binary(BinaryOp.XOR, self, other)

    def __lshift__(self, other: Operand) -> E:
        return binary(BinaryOp.SHL, self, other)

    def __rshift__(self, other: Operand) -> E:
        return binary(BinaryOp.SHR, self, other)

    def __neg__(self) -> E:
        return self.unary(UnaryOp.NEG)

    def __invert__(self) -> E:
        return self.unary(UnaryOp.NOT)

    def __abs__(self) -> E:
        return self.unary(UnaryOp.ABS)

    def __lt__(self, other: Operand) -> E:
        return compare(CompareOp.LT, self, other)

    def __le__(self, other: Operand) -> E:
        return compare(CompareOp.LE, self, other)

    def __gt__(self, other: Operand) -> E:
        return compare(CompareOp.GT, self, other)

    def __ge__(self, other: Operand) -> E:
        return compare(CompareOp.GE, self, other)

    def eq(self, other: Operand) -> E:
        return compare(CompareOp.EQ, self, other)

    def ne(self, other: Operand) -> E:
        return compare(CompareOp.NE, self, other)

    def unary(self, op: UnaryOp) -> E:
        return E(Unary(op, self.node), self.type)

    def cast(self, prim: Prim) -> E:
        if prim is self.type.prim:
            return self
        return E(Cast(self.node, prim), ValueType(prim, self.type.lanes))

    def bitcast(self, prim: Prim) -> E:
        if prim is self.type.prim:
            return self
        return E(Bitcast(self.node, prim))

    def splat(self, lanes: int) -> E:
        if lanes == self.type.lanes:
            return self
        return E(Splat(self.node, lanes), ValueType(self.type.prim, lanes))

    def ramp(self, lanes: int) -> E:
        return E(Ramp(self.node, lanes))

    def lane(self, lane: int) -> E:
        return E(Lane(self.node, lane))

    def fold(self, op: BinaryOp) -> E:
        return E(Fold(op, self.node))


Operand: TypeAlias = E | bool | int | float


def const(value: Number, prim: Prim, lanes: int = 1) -> E:
    """Return a literal of a machine type; an f32 is rounded here, once, for all printers."""
    if prim is Prim.F32:
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    return E(Const(value, ValueType(prim, lanes)))


def index(value: Operand) -> E:
    """Return `value` as an i64 scalar: an index or extent."""
    return value if isinstance(value, E) else const(value, Prim.I64)


def binary(op: BinaryOp, a: Operand, b: Operand) -> E:
    """Return `a op b`, folding integer constants and dropping neutral elements."""
    left, right = _in_one_type(a, b)
    if left.type.prim.is_int and left.type.lanes == 1:
        folded = _fold_integers(op, left, right)
        if folded is not None:
            return folded
    return E(Binary(op, left.node, right.node), left.type)


def compare(op: CompareOp, a: Operand, b: Operand) -> E:
    left, right = _in_one_type(a, b)
    return E(Compare(op, left.node, right.node), ValueType(Prim.BOOL, left.type.lanes))


def minimum(a: Operand, b: Operand) -> E:
    """`a < b ? a : b`."""
    return binary(BinaryOp.MIN, a, b)


def maximum(a: Operand, b: Operand) -> E:
    """`a > b ? a : b`."""
    return binary(BinaryOp.MAX, a, b)


def lshr(a: E, b: Operand) -> E:
    """Logical shift right."""
    return binary(BinaryOp.LSHR, a, b)


def select(condition: E, a: Operand, b: Operand) -> E:
    left, right = _in_one_type(a, b)
    lanes = max(condition.type.lanes, left.type.lanes)
    left, right = left.splat(lanes), right.splat(lanes)
    return E(Select(condition.splat(lanes).node, left.node, right.node), left.type)


def fma(a: Operand, b: Operand, c: Operand, *, exact: bool = False) -> E:
    """`a * b + c`, rounded once; unless `exact`, twice where the target lacks the instruction."""
    wide = max((x for x in (a, b, c) if isinstance(x, E)), key=lambda x: x.type.lanes)
    left, middle, right = (_in_one_type(wide, x)[1] for x in (a, b, c))
    return E(Fma(left.node, middle.node, right.node, exact), left.type)


def dot_bytes(a: E, b: E, total: E, *, squares: bool = False) -> E:
    """`total` plus the products of the four bytes of each word of `a` by those of `b`.

    With `squares` every four words are two rows of eight bytes, and four sums those of each row by
    each.
    """
    lanes = total.type.lanes
    return E(DotBytes(a.splat(lanes).node, b.splat(lanes).node, total.node, squares), total.type)


def lookup_bytes(table: Sequence[int], x: E) -> E:
    """Replace every byte of the words of `x`, in 0..15, by the table's byte at that index."""
    return E(LookupBytes(tuple(table), x.node), x.type)


def dot_bf16(a: E, b: E, total: E) -> E:
    """`total` plus the products of both bf16 of each word of `a` by those of `b`."""
    lanes = total.type.lanes
    return E(DotBf16(a.splat(lanes).node, b.splat(lanes).node, total.node), total.type)


def call(function: Function, *args: E) -> E:
    lanes = max(arg.type.lanes for arg in args)
    type = ValueType(function.result.type.prim, lanes)
    return E(Call(function, tuple(arg.splat(lanes).node for arg in args)), type)


def shuffle(a: E, b: E, positions: Sequence[int]) -> E:
    return E(Shuffle(a.node, b.node, tuple(positions)))


def _in_one_type(a: Operand, b: Operand) -> tuple[E, E]:
    """Bring both operands to one type: numbers are converted, scalars are broadcast."""
    if not isinstance(a, E):
        if not isinstance(b, E):
            raise TypeError("at least one operand must be an expression")
        return const(a, b.type.prim, b.type.lanes), b
    if not isinstance(b, E):
        return a, const(b, a.type.prim, a.type.lanes)
    lanes = max(a.type.lanes, b.type.lanes)
    return a.splat(lanes), b.splat(lanes)


def _fold_integers(op: BinaryOp, a: E, b: E) -> E | None:
    left = a.node.value if isinstance(a.node, Const) else None
    right = b.node.value if isinstance(b.node, Const) else None
    prim = a.type.prim
    if left is not None and right is not None:
        return _fold_constants(op, int(left), int(right), prim)
    if op is BinaryOp.ADD:
        return b if left == 0 else a if right == 0 else None
    if op is BinaryOp.SUB:
        return a if right == 0 else _fold_offset(a, b)
    if op is BinaryOp.MUL:
        if left == 0 or right == 0:
            return const(0, prim)
        return b if left == 1 else a if right == 1 else None
    if op is BinaryOp.DIV:
        return a if right == 1 else None
    if op is BinaryOp.MOD:
        return const(0, prim) if right == 1 else None
    return None


def _fold_offset(a: E, b: E) -> E | None:
    """Return `x + c - x` as `c`; `x + c - d` as `x + (c - d)`, if that is no negative offset."""
    match a.node, b.node:
        case Binary(BinaryOp.ADD, x, Const() as offset), less if x is less:
            return E(offset)
        case Binary(BinaryOp.ADD, x, Const(c)), Const(d) if c >= d > 0:
            return binary(BinaryOp.ADD, E(x), int(c) - int(d))
        case _:
            return None


def _fold_constants(op: BinaryOp, a: int, b: int, prim: Prim) -> E | None:
    if prim is not Prim.I64 or max(abs(a), abs(b)) >= 2**31:
        return None  # wrapping is left to the target
    if op is BinaryOp.ADD:
        return const(a + b, prim)
    if op is BinaryOp.SUB:
        return const(a - b, prim)
    if op is BinaryOp.MUL:
        return const(a * b, prim)
    if a < 0 or b < 0:
        return None  # and so is truncation
    if op is BinaryOp.DIV and b:
        return const(a // b, prim)
    if op is BinaryOp.MOD and b:
        return const(a % b, prim)
    if op is BinaryOp.MIN:
        return const(min(a, b), prim)
    if op is BinaryOp.MAX:
        return const(max(a, b), prim)
    return None
