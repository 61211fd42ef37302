"""Sums of products of bytes, where no instruction takes four of them at once.

dot_bytes(a, b, total)  ->  total + byte(a, 0) * byte(b, 0) + ... + byte(a, 3) * byte(b, 3)

It is what the primitive means: the interpreter computes it, and both back ends print it for targets
without the instruction.
"""

from __future__ import annotations

from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Const,
    DotBytes,
    Expr,
    Prim,
    ValueType,
)

BYTES = 4
"""Bytes of a word."""


def expanded(node: DotBytes) -> Expr:
    """Return the sum of products as arithmetic on words; sums wrap, so that their order is free."""
    total = node.c
    for place in range(BYTES):
        product = Binary(BinaryOp.MUL, _byte(node.a, place), _byte(node.b, place))
        total = Binary(BinaryOp.ADD, total, product)
    return total


def _byte(word: Expr, place: int) -> Expr:
    """Return a byte of every word as i32: extended by its sign, or by zeros from u32."""
    lifted = word
    if place != BYTES - 1:
        lifted = Binary(BinaryOp.SHL, word, _count(BYTES - 1 - place, word))
    byte = Binary(BinaryOp.SHR, lifted, _count(BYTES - 1, word))
    return byte if word.type.prim is Prim.I32 else Bitcast(byte, Prim.I32)


def _count(places: int, word: Expr) -> Expr:
    return Const(8 * places, ValueType(word.type.prim, word.type.lanes))
