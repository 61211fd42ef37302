"""Sums of products of bytes on vectors: the instruction where the compiler says there is one.

Compilers don't find it in loops over lanes. Both know it by names of their own on x86, and by those
of ARM's header on aarch64. x86 without VNNI sums pairs of products of 16 bits (`pmaddwd`), those of
even and of odd bytes, which is exact; `pmaddubsw` would saturate.
"""

from __future__ import annotations

from rlx.codegen.c.scalable import SCALABLE_HEADER, has_scalable
from rlx.codegen.loops.nodes import Prim, ValueType

_HAS_256 = "(defined(__AVX512VNNI__) && defined(__AVX512VL__)) || defined(__AVXVNNI__)"
_INSTRUCTIONS = {
    ValueType(Prim.U32, 16): ("defined(__AVX512VNNI__)", "vpdpbusd_v16si", "vpdpbusd512"),
    ValueType(Prim.U32, 8): (_HAS_256, "vpdpbusd_v8si", "vpdpbusd256"),
    ValueType(Prim.U32, 4): (_HAS_256, "vpdpbusd_v4si", "vpdpbusd128"),
}
"""Type of the first words -> when there is an instruction, GCC's name for it, and clang's."""
_PAIRS = {
    16: ("defined(__AVX512BW__)", "pmaddwd512_mask", ", (i32x16){0}, (uint16_t)-1"),
    8: ("defined(__AVX2__)", "pmaddwd256", ""),
    4: ("defined(__SSE2__)", "pmaddwd128", ""),
}
"""Lanes of words -> when pairs of products can be summed, GCC's name for it, and what it takes."""

_SCALABLE_LANES = (8, 16)
_NEON = """#if defined(__ARM_FEATURE_DOTPROD)
  return (i32x4)vdotq_s32((int32x4_t)c, (int8x16_t)a, (int8x16_t)b);
#endif"""
SQUARES_INSTRUCTION = """#if defined(__ARM_FEATURE_MATMUL_INT8)
  return (i32x4)vmmlaq_s32((int32x4_t)c, (int8x16_t)a, (int8x16_t)b);
#endif"""
"""The statement for four words that are squares."""
_NEON_HEADER = """#if defined(__ARM_FEATURE_DOTPROD) || defined(__ARM_FEATURE_MATMUL_INT8)
#include <arm_neon.h>
#endif
"""


def byte_dot_instruction(words: ValueType) -> str:
    """Return the statement that leaves a function with `c` plus the products, or nothing."""
    if words == ValueType(Prim.I32, 4):
        return _NEON
    if words.prim is Prim.I32 and words.lanes in _SCALABLE_LANES:
        call = "(scalable_i32)svdot_s32((scalable_i32)c, (scalable_i8)a, (scalable_i8)b)"
        return f"#if {has_scalable(4 * words.lanes)}\n  return (i32x{words.lanes}){call};\n#endif"
    if words not in _INSTRUCTIONS:
        return ""
    condition, gcc, clang = _INSTRUCTIONS[words]
    sums, args = f"i32x{words.lanes}", f"(c, (i32x{words.lanes})a, b)"
    return "\n".join(
        (
            f"#if ({condition}) && defined(__clang__) && __has_builtin(__builtin_ia32_{clang})",
            f"  return ({sums})__builtin_ia32_{clang}{args};",
            f"#elif ({condition}) && defined(__GNUC__) && !defined(__clang__)",
            f"  return ({sums})__builtin_ia32_{gcc}{args};",
            *_in_pairs(words.lanes),
            "#endif",
        )
    )


def _in_pairs(lanes: int) -> list[str]:
    """Return the branch that sums products of even bytes, then of odd ones, as pairs of i16."""
    condition, gcc, passed = _PAIRS[lanes]
    clang, half = gcc.removesuffix("_mask"), f"i16x{2 * lanes}"
    even = (f"({half})(a & 0x00ff00ff)", f"({half})((u16x{2 * lanes})b << 8) >> 8")
    odd = (f"({half})(a >> 8 & 0x00ff00ff)", f"({half})b >> 8")

    def sums(name: str, extra: str) -> str:
        pairs = " + ".join(
            f"(u32x{lanes})__builtin_ia32_{name}({x}, {y}{extra})" for x, y in (even, odd)
        )
        return f"  return (i32x{lanes})((u32x{lanes})c + {pairs});"

    return [
        f"#elif ({condition}) && defined(__clang__) && __has_builtin(__builtin_ia32_{clang})",
        sums(clang, ""),
        f"#elif ({condition}) && defined(__GNUC__) && !defined(__clang__)",
        sums(gcc, passed),
    ]


def byte_dot_header(words: ValueType) -> str:
    """Return what must be included before the function."""
    if words.prim is Prim.I32 and words.lanes in _SCALABLE_LANES:
        return SCALABLE_HEADER
    return _NEON_HEADER if words == ValueType(Prim.I32, 4) else ""
