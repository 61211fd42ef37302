"""Sums of products of pairs of bf16 on vectors: the instruction where the compiler has one.

It is an intrinsic of the compiler's header: the types of its builtin have changed.
"""

from __future__ import annotations

from rlx.codegen.c.scalable import SCALABLE_HEADER, has_scalable

_HAS_512 = "defined(__AVX512BF16__)"
_HAS_256 = "defined(__AVX512BF16__) && defined(__AVX512VL__)"
_HAS_NEON = "defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)"
_SVE = "(scalable_f32)svbfdot_f32((scalable_f32)c, (scalable_bf16)a, (scalable_bf16)b)"


def _has_sve(lanes: int) -> str:
    return f"{_HAS_NEON} && {has_scalable(4 * lanes)}"


_INSTRUCTIONS = {
    16: (
        (_HAS_512, "_mm512_dpbf16_ps((__m512)c, (__m512bh)a, (__m512bh)b)"),
        (_has_sve(16), _SVE),
    ),
    8: (
        (_HAS_256, "_mm256_dpbf16_ps((__m256)c, (__m256bh)a, (__m256bh)b)"),
        (_has_sve(8), _SVE),
    ),
    4: (
        (_HAS_256, "_mm_dpbf16_ps((__m128)c, (__m128bh)a, (__m128bh)b)"),
        (_HAS_NEON, "vbfdotq_f32((float32x4_t)c, (bfloat16x8_t)a, (bfloat16x8_t)b)"),
    ),
}
"""Lanes -> when there is an instruction, and its intrinsic."""

BF16_HEADER = f"""#if {_HAS_512}
#include <immintrin.h>
#elif {_HAS_NEON}
#include <arm_neon.h>
#endif
{SCALABLE_HEADER}"""


def bf16_dot_instruction(lanes: int) -> str:
    """Return the statement that leaves a function with `c` plus the products, or nothing."""
    found = _INSTRUCTIONS.get(lanes, ())
    lines = (f"#if {when}\n  return (f32x{lanes}){what};\n#endif" for when, what in found)
    return "\n".join(lines)
