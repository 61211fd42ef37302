"""Sums of products of bytes, where no instruction takes four of them at once.

dot_bytes(a, b, total)  ->  total + byte(a, 0) * byte(b, 0) + ... + byte(a, 3) * byte(b, 3)

It is what the primitive means: the interpreter computes it, and both back ends print it for targets
without the instruction. That of squares sums products of the first words of their rows, then those
of the second:

    [a0, a1, a2, a3], [b0, b1, b2, b3]  ->  [a0, a0, a2, a2] by [b0, b2, b0, b2]
                                            [a1, a1, a3, a3] by [b1, b3, b1, b3]
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Bitcast,
    Const,
    DotBytes,
    Expr,
    Prim,
    Shuffle,
    ValueType,
)

BYTES = 4
"""Bytes of a word."""

SQUARE = 4
"""Words of two rows of two, and sums of two rows of two."""
LEFT, RIGHT = ((0, 0, 2, 2), (1, 1, 3, 3)), ((0, 2, 0, 2), (1, 3, 1, 3))
"""Which words of a square of `a`, and of `b`, are multiplied for the four sums."""


def expanded(node: DotBytes) -> Expr:
    """Return the sum of products as arithmetic on words; sums wrap, so that their order is free."""
    if node.squares:
        return _expanded_squares(node)
    total = node.c
    for place in range(BYTES):
        product = Binary(BinaryOp.MUL, _byte(node.a, place), _byte(node.b, place))
        total = Binary(BinaryOp.ADD, total, product)
    return total


def _expanded_squares(node: DotBytes) -> Expr:
    total = node.c
    for left, right in zip(LEFT, RIGHT, strict=True):
        total = DotBytes(_in_squares(node.a, left), _in_squares(node.b, right), total)
    return total


def _in_squares(words: Expr, positions: Sequence[int]) -> Expr:
    """Return some words of every square."""
    squares = range(0, words.type.lanes, SQUARE)
    return Shuffle(words, words, tuple(first + each for first in squares for each in positions))


def _byte(word: Expr, place: int) -> Expr:
    """Return a byte of every word as i32: extended by its sign, or by zeros from u32."""
    lifted = word
    if place != BYTES - 1:
        lifted = Binary(BinaryOp.SHL, word, _count(BYTES - 1 - place, word))
    byte = Binary(BinaryOp.SHR, lifted, _count(BYTES - 1, word))
    return byte if word.type.prim is Prim.I32 else Bitcast(byte, Prim.I32)


def _count(places: int, word: Expr) -> Expr:
    return Const(8 * places, ValueType(word.type.prim, word.type.lanes))
