"""SVE's vectors in C, where a flag says how wide they are (`-msve-vector-bits`).

Types of that width take part in both: arithmetic of GCC's vectors, and intrinsics.
"""

from __future__ import annotations

_TYPES = {
    "scalable_i32": ("svint32_t", ""),
    "scalable_i8": ("svint8_t", ""),
    "scalable_f32": ("svfloat32_t", ""),
    "scalable_bf16": ("svbfloat16_t", "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"),
}
"""Name -> SVE's type, and the macro of what has it besides."""


def has_scalable(bytes: int) -> str:
    """Return the condition for vectors of so many bytes."""
    return f"defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == {8 * bytes}"


def _declared(name: str) -> str:
    kind, macro = _TYPES[name]
    attribute = "__attribute__((arm_sve_vector_bits(__ARM_FEATURE_SVE_BITS)))"
    line = f"typedef {kind} {name} {attribute};"
    return f"#ifdef {macro}\n{line}\n#endif" if macro else line


INTRINSICS_HEADER = """#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0
#include <arm_sve.h>
#endif
"""

SCALABLE_HEADER = "\n".join(
    (
        "#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS > 0",
        "#include <arm_sve.h>",
        *map(_declared, _TYPES),
        "#endif\n",
    )
)
"""What must come before a function with one of these types."""
