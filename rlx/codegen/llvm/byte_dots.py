"""Sums of products of bytes as LLVM's intrinsics, by what the machine has.

`vpdpbusd` takes unsigned by signed bytes, `sdot` signed by signed ones. Other types and machines
get the arithmetic of `rlx.codegen.loops.byte_dots`.
"""

from __future__ import annotations

from rlx.codegen.llvm.spelling import type_name
from rlx.codegen.llvm.writer import FunctionWriter
from rlx.codegen.loops.nodes import Prim, ValueType

_X86 = "llvm.x86.avx512.vpdpbusd."
_NARROW = ("avx512vnni", "avxvnni")
_INTRINSICS = {
    ValueType(Prim.U32, 16): (f"{_X86}512", ("avx512vnni",)),
    ValueType(Prim.U32, 8): (f"{_X86}256", _NARROW),
    ValueType(Prim.U32, 4): (f"{_X86}128", _NARROW),
    ValueType(Prim.I32, 4): ("llvm.aarch64.neon.sdot.v4i32.v16i8", ("dotprod",)),
}
"""Type of the first words -> the intrinsic, and the features any of which brings it."""


def byte_dot_intrinsic(features: str, words: ValueType) -> str:
    """Return the name of the intrinsic for a machine with `features`, or nothing."""
    name, needed = _INTRINSICS.get(words, ("", ()))
    listed = features.split(",")
    return name if any(f"+{feature}" in listed for feature in needed) else ""


def call_byte_dot(writer: FunctionWriter, name: str, words: ValueType, args: list[str]) -> str:
    """Call the intrinsic with sums, first and second words."""
    kind = type_name(ValueType(Prim.I32, words.lanes))
    taken = kind
    if not name.startswith(_X86):
        taken = f"<{4 * words.lanes} x i8>"
        args[1:] = [writer.value(f"bitcast {kind} {arg} to {taken}") for arg in args[1:]]
    writer.module.declare(name, kind, f"{kind}, {taken}, {taken}")
    total, a, b = args
    return writer.value(f"call {kind} @{name}({kind} {total}, {taken} {a}, {taken} {b})")
