"""The lesser and the greater of vectors.

clang turns `a < b ? a : b` in every lane into one instruction. GCC does so for scalars, but
compares and blends vectors, in case a NaN were to count. So it is given its own name of the
instruction, which lets the second operand win just as the expression does.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.codegen.loops.nodes import BinaryOp, Prim, ValueType

_INSTRUCTIONS: Mapping[ValueType, tuple[str, str]] = {
    ValueType(Prim.F32, 16): ("__AVX512F__", "ps512_mask(a, b, a, -1, 4)"),
    ValueType(Prim.F64, 8): ("__AVX512F__", "pd512_mask(a, b, a, 255, 4)"),
    ValueType(Prim.F32, 8): ("__AVX__", "ps256(a, b)"),
    ValueType(Prim.F64, 4): ("__AVX__", "pd256(a, b)"),
    ValueType(Prim.F32, 4): ("__SSE2__", "ps(a, b)"),
    ValueType(Prim.F64, 2): ("__SSE2__", "pd(a, b)"),
}
"""Vector type -> the target's macro, and the end of the instruction's name."""


def extremum_instruction(op: BinaryOp, type: ValueType) -> str:
    """Return the statement that GCC leaves a function with, behind its condition, or nothing."""
    if type not in _INSTRUCTIONS:
        return ""
    macro, rest = _INSTRUCTIONS[type]
    call = f"__builtin_ia32_{op.value}{rest}"
    return f"#if defined({macro}) && !defined(__clang__)\n  return {call};"
