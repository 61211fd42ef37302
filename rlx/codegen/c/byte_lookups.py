"""Bytes of vectors looked up in a table of sixteen: the instruction where the compiler has one.

Compilers don't find it in loops over lanes. Both know it by names of their own on x86, and by those
of ARM's header on aarch64.
"""

from __future__ import annotations

_NEON = """#if defined(__aarch64__)
  return (u32x4)vqtbl1q_u8((uint8x16_t)table, (uint8x16_t)x);
#endif"""
_NEON_HEADER = "#if defined(__aarch64__)\n#include <arm_neon.h>\n#endif\n"
_CONDITIONS = {4: "__SSSE3__", 8: "__AVX2__", 16: "__AVX512BW__"}


def byte_lookup_instruction(lanes: int) -> str:
    """Return statements that leave a function with what `x` finds in `table`, or nothing."""
    if lanes not in _CONDITIONS:
        return ""
    bits, chars = 32 * lanes, f"bytes{4 * lanes}"
    name, args = f"__builtin_ia32_pshufb{bits}", f"({chars})table, ({chars})x"
    masked = f"{name}_mask({args}, ({chars})x, ~UINT64_C(0))" if bits == 512 else f"{name}({args})"
    types = f"  typedef char {chars} __attribute__((vector_size({4 * lanes})));"
    lines = [
        f"#if defined({_CONDITIONS[lanes]}) && defined(__clang__) && __has_builtin({name})",
        types,
        f"  return (u32x{lanes}){name}({args});",
        f"#elif defined({_CONDITIONS[lanes]}) && defined(__GNUC__) && !defined(__clang__)",
        types,
        f"  return (u32x{lanes}){masked};",
        "#endif",
    ]
    return "\n".join([*lines, _NEON] if lanes == 4 else lines)


def byte_lookup_header(lanes: int) -> str:
    """Return what must be included before the function."""
    return _NEON_HEADER if lanes == 4 else ""
