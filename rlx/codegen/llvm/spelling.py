"""How types and literals of the loop language are spelled in LLVM IR.

Bools are `i1` in registers and `i8` in memory; signedness lives in the instructions, so `i32`
and `u32` are one LLVM type.
"""

from __future__ import annotations

import ctypes
import struct

from rlx.codegen.loops.nodes import Const, Prim, ValueType

_SCALARS = {Prim.BOOL: "i1", Prim.F32: "float", Prim.F64: "double"}


def prim_name(prim: Prim) -> str:
    """Return the type of one element in a register."""
    return _SCALARS.get(prim) or f"i{prim.size * 8}"


def type_name(type: ValueType) -> str:
    """Return the type of a value in a register."""
    return _widened(prim_name(type.prim), type.lanes)


def memory_name(prim: Prim, lanes: int = 1) -> str:
    """Return the type that a load or store moves."""
    return _widened("i8" if prim is Prim.BOOL else prim_name(prim), lanes)


def intrinsic_suffix(type: ValueType) -> str:
    """Return the overload suffix of an intrinsic, such as `v8f32`."""
    letter = "f" if type.prim.is_float else "i"
    scalar = f"{letter}{type.prim.size * 8}"
    return scalar if type.lanes == 1 else f"v{type.lanes}{scalar}"


def literal(constant: Const) -> str:
    """Return the operand for a literal, without its type."""
    prim, lanes = constant.type.prim, constant.type.lanes
    scalar = _scalar_literal(constant.value, prim)
    return scalar if lanes == 1 else f"splat ({prim_name(prim)} {scalar})"


def _widened(scalar: str, lanes: int) -> str:
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


def _scalar_literal(value: bool | int | float, prim: Prim) -> str:
    if prim is Prim.BOOL:
        return "true" if value else "false"
    if prim.is_float:
        return _float_literal(float(value), prim)
    bits = prim.size * 8
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def _float_literal(value: float, prim: Prim) -> str:
    """Spell a float by the bits of its double: exact for f32 as well, infinities and NaN too."""
    rounded = ctypes.c_float(value).value if prim is Prim.F32 else value
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
