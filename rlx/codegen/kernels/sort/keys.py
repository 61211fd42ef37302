"""Elements as integers of the same order, and back."""

from __future__ import annotations

from rlx.codegen.kernels.values import compute_prim
from rlx.codegen.loops.expr import E, const, select
from rlx.codegen.loops.nodes import Prim
from rlx.ir.dtype import DType


def top_bit(prim: Prim) -> E:
    """Return the sign bit of an integer."""
    return bit(8 * prim.size - 1, prim)


def bit(position: int, prim: Prim) -> E:
    value = 1 << position
    return const(-value if position == 8 * prim.size - 1 else value, prim)


def key_prim(dtype: DType) -> Prim:
    """Return the type of `order_key`."""
    return Prim.I64 if compute_prim(dtype).size == 8 else Prim.I32


def order_key(value: E) -> E:
    """Return an i32 or i64 that orders as `value` does: NaN last, both zeros equal."""
    prim = value.type.prim
    wide = Prim.I64 if prim.size == 8 else Prim.I32
    if prim.is_float:
        bits = _signed_order((value + 0.0).bitcast(wide))  # -0.0 + 0.0 is 0.0
        return select(value.ne(value), greatest(wide), bits)
    if prim in (Prim.U32, Prim.U64):
        return value.bitcast(wide) ^ top_bit(wide)
    return value.cast(wide)


def keyed_value(key: E, prim: Prim) -> E:
    """Return the element of a key: a zero is positive, a NaN any."""
    if prim.is_float:
        return _signed_order(key).bitcast(prim)
    if prim in (Prim.U32, Prim.U64):
        return (key ^ top_bit(key.type.prim)).bitcast(prim)
    return key.ne(0) if prim is Prim.BOOL else key.cast(prim)


def _signed_order(bits: E) -> E:
    """Turn a float's bits, as an integer, into one of the same order, and back."""
    prim = bits.type.prim
    return bits ^ ((bits >> (8 * prim.size - 1)) & greatest(prim))


def greatest(prim: Prim) -> E:
    return const((1 << (8 * prim.size - 1)) - 1, prim)


def is_signed(dtype: DType) -> bool:
    """True unless keys are small unsigned numbers in a wider word."""
    return dtype not in (DType.BOOL, DType.U8, DType.U16)
