"""Bytes looked up in a table of sixteen, where no instruction shuffles bytes.

lookup_bytes(table, x)  ->  in every byte of a word, the byte of the table that it counts to

Bits of the positions choose between halves of the table, four bytes at a time. Both back ends print
the same integers, by an instruction or by this arithmetic.
"""

from __future__ import annotations

from rlx.codegen.loops.nodes import Binary, BinaryOp, Const, Expr, LookupBytes, Prim, ValueType

TABLE = 16
"""Bytes of a table."""
_EACH = 0x01010101


def expanded_lookup(node: LookupBytes) -> Expr:
    """Return the lookup as arithmetic on words."""
    return _chosen(node.x, node.table, TABLE // 2)


def _chosen(x: Expr, table: tuple[int, ...], half: int) -> Expr:
    """Return the bytes of a table of `2 * half` bytes."""
    if len(set(table)) == 1:
        return _words(x, table[0] * _EACH)
    low, high = (_chosen(x, part, half // 2) for part in (table[:half], table[half:]))
    bit = Binary(BinaryOp.SHR, x, _words(x, half.bit_length() - 1))
    is_high = Binary(BinaryOp.MUL, Binary(BinaryOp.AND, bit, _words(x, _EACH)), _words(x, 255))
    differs = Binary(BinaryOp.AND, Binary(BinaryOp.XOR, low, high), is_high)
    return Binary(BinaryOp.XOR, low, differs)


def _words(x: Expr, value: int) -> Expr:
    return Const(value, ValueType(Prim.U32, x.type.lanes))
