"""How machine types, vector types and literals are spelled in C.

Vector types are named after the loop language (`f32x16`). `f32x16_u` is the same type as it
may be stored in memory: aligned like one element and allowed to alias anything.
"""

from __future__ import annotations

import math

import numpy as np

from rlx.codegen.loops.nodes import Buffer, Const, Prim, ValueType

_SCALARS = {
    Prim.BOOL: "bool",
    Prim.F32: "float",
    Prim.F64: "double",
    **{p: f"int{p.size * 8}_t" for p in Prim if p.is_signed},
    **{p: f"uint{p.size * 8}_t" for p in Prim if p.is_unsigned},
}


_LEAST_PLAIN, _FIRST_SCIENTIFIC = 1e-4, 1e9
"""Between them a float is written without an exponent."""


def scalar_type(prim: Prim) -> str:
    return _SCALARS[prim]


def mask_prim(size: int) -> Prim:
    """Return the signed integer whose lanes hold a comparison of `size`-byte elements."""
    return Prim(f"i{size * 8}")


def unsigned(prim: Prim) -> Prim:
    return Prim(f"u{prim.size * 8}")


def vector_typedef(type: ValueType) -> str:
    """Return the typedef of a vector type."""
    return (
        f"typedef {scalar_type(type.prim)} {type} "
        f"__attribute__((vector_size({type.prim.size * type.lanes})));"
    )


def memory_typedef(type: ValueType) -> str:
    """Return the typedef of a vector type as stored in memory."""
    return (
        f"typedef {scalar_type(type.prim)} {type}_u __attribute__((vector_size("
        f"{type.prim.size * type.lanes}), aligned({type.prim.size}), may_alias));"
    )


def pointer(buffer: Buffer, name: str, *, is_alone: bool = True) -> str:
    """Return the declaration of a kernel argument, such as `const float *restrict x`.

    Nothing else leads to what it points to, if it `is_alone`.
    """
    const = "" if buffer.writable else "const "
    restrict = "restrict " if is_alone and not buffer.may_alias else ""
    return f"{const}{scalar_type(buffer.prim)} *{restrict}{name}"


def literal(constant: Const) -> str:
    """Return a C literal that reads back as the same value."""
    value, prim = constant.value, constant.type.prim
    if prim is Prim.BOOL:
        return "true" if value else "false"
    if prim.is_float:
        return _float_literal(float(value), prim)
    return _integer_literal(int(value), prim)


def _float_literal(value: float, prim: Prim) -> str:
    if math.isnan(value):
        return "NAN" if prim is Prim.F32 else "(double)NAN"
    if math.isinf(value):
        name = "INFINITY" if prim is Prim.F32 else "(double)INFINITY"
        return name if value > 0 else f"-{name}"
    exact = np.float32(value) if prim is Prim.F32 else np.float64(value)
    if value == 0 or _LEAST_PLAIN <= abs(value) < _FIRST_SCIENTIFIC:
        text = np.format_float_positional(exact, unique=True, trim="0")
    else:
        text = np.format_float_scientific(exact, unique=True, trim="-", exp_digits=1)
    return text.replace("e+", "e") + ("f" if prim is Prim.F32 else "")


def hexadecimal(constant: Const) -> str:
    """Return a C literal of a positive integer in hexadecimal: its bits, not its size, matter."""
    value, prim = int(constant.value), constant.type.prim
    text = f"0x{value:X}"
    if prim is Prim.U64:
        return f"UINT64_C({text})"
    if prim is Prim.U32:
        return f"{text}u"
    return text if value < 1 << 31 else f"INT64_C({text})"


def _integer_literal(value: int, prim: Prim) -> str:
    bits = prim.size * 8
    if prim.is_signed and value == -(1 << (bits - 1)):
        return f"INT{bits}_MIN"
    if prim is Prim.U64:
        return f"UINT64_C({value})"
    if prim is Prim.U32:
        return f"{value}u"
    return str(value) if abs(value) < 1 << 31 else f"INT64_C({value})"
