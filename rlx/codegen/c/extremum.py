"""Elementwise minimum, maximum and rounding of vectors in C.

clang turns `a < b ? a : b` in every lane into one instruction. GCC does so for scalars, but
compares and blends vectors, in case a NaN were to count, and takes integers lane by lane where many
of them follow each other. So it is given its own name of the instruction, which lets the second
operand win just as the expression does. Integers of 64 bits have no such instruction before
AVX-512: both compilers are given a comparison of whole vectors and a blend, which clang turns into
the instruction where there is one. Of 16 elements GCC rounds 8 at a time, through memory.

On aarch64 clang does not always find the lanes together again, and compares pairs of them: there,
too, vectors of floats are compared whole, and those of SVE by intrinsics.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.codegen.c.scalable import INTRINSICS_HEADER, has_scalable
from rlx.codegen.loops.nodes import BinaryOp, Prim, ValueType

_INSTRUCTIONS: Mapping[ValueType, tuple[str, str]] = {
    ValueType(Prim.F32, 16): ("__AVX512F__", "{op}ps512_mask(a, b, a, -1, 4)"),
    ValueType(Prim.F64, 8): ("__AVX512F__", "{op}pd512_mask(a, b, a, 255, 4)"),
    ValueType(Prim.F32, 8): ("__AVX__", "{op}ps256(a, b)"),
    ValueType(Prim.F64, 4): ("__AVX__", "{op}pd256(a, b)"),
    ValueType(Prim.F32, 4): ("__SSE2__", "{op}ps(a, b)"),
    ValueType(Prim.F64, 2): ("__SSE2__", "{op}pd(a, b)"),
    ValueType(Prim.I32, 16): ("__AVX512F__", "p{op}sd512_mask(a, b, a, 65535)"),
    ValueType(Prim.I32, 8): ("__AVX2__", "p{op}sd256(a, b)"),
    ValueType(Prim.I32, 4): ("__SSE4_1__", "p{op}sd128(a, b)"),
}
"""Vector type -> the target's macro, and the instruction's name after `__builtin_ia32_`."""


_SCALABLE_LANES = (8, 16)


def extremum_instruction(op: BinaryOp, type: ValueType) -> str:
    """Return statements that leave a function, each after its condition, or nothing."""
    if type not in _INSTRUCTIONS:
        return ""
    macro, instruction = _INSTRUCTIONS[type]
    call = f"__builtin_ia32_{instruction.format(op=op.value)}"
    x86 = f"#if defined({macro}) && !defined(__clang__)\n  return {call};"
    if not _has_scalable_form(type):
        return x86
    compare = "svcmplt_f32" if op is BinaryOp.MIN else "svcmpgt_f32"
    blended = f"  return svsel_f32({compare}(svptrue_b32(), a, b), a, b);"
    return f"{x86}\n#elif {has_scalable(4 * type.lanes)}\n{blended}"


def extremum_header(type: ValueType) -> str:
    """Return what must be included before the function."""
    return INTRINSICS_HEADER if _has_scalable_form(type) else ""


def _has_scalable_form(type: ValueType) -> bool:
    return type.prim is Prim.F32 and type.lanes in _SCALABLE_LANES


_ROUNDINGS: Mapping[ValueType, tuple[str, str]] = {
    ValueType(Prim.F32, 16): ("__AVX512F__", "rndscaleps_mask(x, 4, x, -1, 4)"),
    ValueType(Prim.F32, 8): ("__AVX__", "roundps256(x, 4)"),
    ValueType(Prim.F32, 4): ("__SSE4_1__", "roundps(x, 4)"),
}
"""As above; 4 is the rounding mode in use, to the nearest, ties to even."""


def rounding_instruction(type: ValueType) -> str:
    """Return the statement by which GCC rounds all elements, after its condition, or nothing."""
    if type not in _ROUNDINGS:
        return ""
    macro, call = _ROUNDINGS[type]
    return f"#if defined({macro}) && !defined(__clang__)\n  return __builtin_ia32_{call};"


def blends_on_arm(type: ValueType) -> bool:
    """True if on aarch64 the extremum is a comparison of whole vectors and a blend."""
    return type.prim.is_float and not _has_scalable_form(type)


def is_blended(type: ValueType) -> bool:
    """True if the extremum is spelled as a comparison of whole vectors and a blend."""
    return not type.prim.is_float and type.prim.size == 8
