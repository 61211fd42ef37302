"""Conversions between f16 and f32 by instruction, where the compiler says there is one.

`f16_to_f32` and its inverse are arithmetic on bits, which compilers do not recognize.
"""

from __future__ import annotations

from rlx.codegen.loops.math.storage import f16_to_f32, f32_to_f16, round_to_f16
from rlx.codegen.loops.nodes import Function

_F16C = "defined(__F16C__)"
_F16C_64 = "defined(__F16C__) && defined(__x86_64__)"
"""Four halves move through a general register, which has 64 bits there."""
_AVX512 = "defined(__AVX512F__)"
_NEON = "defined(__aarch64__) && defined(__ARM_NEON)"
_WIDEN = {
    16: ((_AVX512, "_mm512_cvtph_ps((__m256i){})"),),
    8: ((_F16C, "_mm256_cvtph_ps((__m128i){})"),),
    4: (
        (_F16C_64, "_mm_cvtph_ps(_mm_cvtsi64_si128((long long){}))"),
        (_NEON, "vcvt_f32_f16((float16x4_t){})"),
    ),
    1: ((_F16C, "_cvtsh_ss({})"),),
}
"""Lanes -> when there is an instruction, and it."""
_NARROW = {
    16: ((_AVX512, "_mm512_maskz_cvtps_ph(65535, (__m512){}, 0)"),),
    8: ((_F16C, "_mm256_cvtps_ph((__m256){}, 0)"),),
    4: (
        (_F16C_64, "_mm_cvtsi128_si64(_mm_cvtps_ph((__m128){}, 0))"),
        (_NEON, "vcvt_f16_f32((float32x4_t){})"),
    ),
    1: ((_F16C, "_cvtss_sh({}, 0)"),),
}
"""The same for rounding; 0 is to nearest, ties to even.

65535 is every lane: the form without a mask has -1 there, of whose sign GCC warns at `-O0`.
"""

HALF_HEADER = f"""#if {_F16C} || {_AVX512}
#include <immintrin.h>
#elif {_NEON}
#include <arm_neon.h>
#endif
"""


def half_instruction(function: Function, lanes: int) -> str:
    """Return the statement that leaves a conversion of `x` with its result, or nothing."""
    lines = []
    for (when, narrow), (_, widen) in zip(
        _NARROW.get(lanes, ()), _WIDEN.get(lanes, ()), strict=True
    ):
        forms = {
            f16_to_f32.name: ("f32", widen.format("x")),
            f32_to_f16.name: ("u16", narrow.format("x")),
            round_to_f16.name: ("f32", widen.format(narrow.format("x"))),
        }
        if function.name in forms:
            prim, value = forms[function.name]
            cast = f"({prim}x{lanes})" if lanes > 1 else ""
            lines.append(f"#if {when}\n  return {cast}{value};\n#endif")
    return "\n".join(lines)
