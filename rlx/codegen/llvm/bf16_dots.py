"""Sums of products of pairs of bf16 as LLVM's intrinsics, by what the machine has.

Other lanes and machines get the arithmetic of `rlx.codegen.loops.bf16_dots`.
"""

from __future__ import annotations

from rlx.codegen.llvm.spelling import type_name
from rlx.codegen.llvm.writer import FunctionWriter
from rlx.codegen.loops.nodes import Prim, ValueType

_X86 = "llvm.x86.avx512bf16.dpbf16ps."
_INTRINSICS = {
    16: ((f"{_X86}512", ("avx512bf16",)),),
    8: ((f"{_X86}256", ("avx512bf16", "avx512vl")),),
    4: (
        (f"{_X86}128", ("avx512bf16", "avx512vl")),
        ("llvm.aarch64.neon.bfdot.v4f32.v8bf16", ("bf16",)),
    ),
}
"""Lanes -> intrinsics, and the features that each needs."""


def bf16_dot_intrinsic(features: str, lanes: int) -> str:
    """Return the name of the intrinsic for a machine with `features`, or nothing."""
    listed = features.split(",")
    for name, needed in _INTRINSICS.get(lanes, ()):
        if all(f"+{feature}" in listed for feature in needed):
            return name
    return ""


def call_bf16_dot(writer: FunctionWriter, name: str, lanes: int, args: list[str]) -> str:
    """Call the intrinsic with sums, first and second words."""
    sums, words = (type_name(ValueType(prim, lanes)) for prim in (Prim.F32, Prim.U32))
    taken = f"<{2 * lanes} x bfloat>"
    total, a, b = args[0], *(writer.value(f"bitcast {words} {x} to {taken}") for x in args[1:])
    writer.module.declare(name, sums, f"{sums}, {taken}, {taken}")
    return writer.value(f"call {sums} @{name}({sums} {total}, {taken} {a}, {taken} {b})")
