"""Fused multiply-add on vectors.

C has `fma` for scalars alone. On x86 clang turns those of a vector into one instruction; GCC does
so only in the pass that also spoils the loop around (it broadcasts through a shuffle where the
instruction could read memory), and the product runs at little more than half its speed. So GCC is
given its own name of the instruction where the target has it. On aarch64 GCC does, and clang takes
vectors apart: a 3x3 convolution had eight times the instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlx.codegen.loops.nodes import Prim, ValueType

_INSTRUCTIONS: Mapping[ValueType, tuple[str, str]] = {
    ValueType(Prim.F32, 16): (
        "__AVX512F__",
        "__builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4)",
    ),
    ValueType(Prim.F64, 8): (
        "__AVX512F__",
        "__builtin_ia32_vfmaddpd512_mask(a, b, c, 0xff, 4)",
    ),
    ValueType(Prim.F32, 8): ("__FMA__", "__builtin_ia32_vfmaddps256(a, b, c)"),
    ValueType(Prim.F64, 4): ("__FMA__", "__builtin_ia32_vfmaddpd256(a, b, c)"),
    ValueType(Prim.F32, 4): ("__FMA__", "__builtin_ia32_vfmaddps(a, b, c)"),
    ValueType(Prim.F64, 2): ("__FMA__", "__builtin_ia32_vfmaddpd(a, b, c)"),
}
"""Vector type -> the target's macro, and the instruction. The 4 keeps the rounding mode."""

_NEON = 16
"""Bytes of a vector of aarch64."""

_CLANG_ON_ARM = "defined(__ARM_FEATURE_FMA) && defined(__clang__) && __clang_major__ >= 17"
"""Where clang has `__builtin_elementwise_fma`, in Apple's numbers of versions, too."""


def fma_instruction(type: ValueType) -> str:
    """Return the statements that compilers leave a function with, after conditions, or nothing."""
    if type not in _INSTRUCTIONS:
        return ""
    macro, instruction = _INSTRUCTIONS[type]
    lines = [f"#if defined({macro}) && !defined(__clang__)", f"  return {instruction};"]
    if type.lanes * type.prim.size == _NEON:
        lines += [f"#elif {_CLANG_ON_ARM}", "  return __builtin_elementwise_fma(a, b, c);"]
    return "\n".join(lines)
