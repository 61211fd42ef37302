"""Sums of products of pairs of bf16, where no instruction takes both at once.

dot_bf16(a, b, total)  ->  (total + upper(a) * upper(b)) + lower(a) * lower(b)

Products of bf16 are exact in f32 unless they are subnormal or infinite. It is what the primitive
means: the interpreter computes it, and both back ends print it for targets without the instruction.
"""

from __future__ import annotations

from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Const,
    DotBf16,
    Expr,
    Prim,
    ValueType,
)

HALF_BITS = 16
"""Bits of a bf16."""
_UPPER = 0xFFFF0000


def expanded_bf16(node: DotBf16) -> Expr:
    """Return the sum of products as arithmetic on f32; sums are rounded in this order."""
    total = node.c
    for half in (_upper, _lower):
        product = Binary(BinaryOp.MUL, half(node.a), half(node.b))
        total = Binary(BinaryOp.ADD, total, product)
    return total


def _upper(word: Expr) -> Expr:
    return Bitcast(Binary(BinaryOp.AND, word, _like(word, _UPPER)), Prim.F32)


def _lower(word: Expr) -> Expr:
    return Bitcast(Binary(BinaryOp.SHL, word, _like(word, HALF_BITS)), Prim.F32)


def _like(word: Expr, value: int) -> Expr:
    return Const(value, ValueType(Prim.U32, word.type.lanes))
