"""Sums of products of bytes as LLVM's intrinsics, by what the machine has.

`vpdpbusd` takes unsigned by signed bytes, `sdot` and `smmla` signed by signed ones. x86 without
VNNI sums pairs of products of 16 bits (`pmaddwd`), those of even and of odd bytes, which is exact.
Other types and machines get the arithmetic of `rlx.codegen.loops.byte_dots`.
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
_SQUARES = {ValueType(Prim.I32, 4): ("llvm.aarch64.neon.smmla.v4i32.v16i8", ("i8mm",))}
"""The same for words that are squares."""
_PAIRS = {
    ValueType(Prim.U32, 16): ("llvm.x86.avx512.pmaddw.d.512", ("avx512bw",)),
    ValueType(Prim.U32, 8): ("llvm.x86.avx2.pmadd.wd", ("avx2",)),
}
"""The same for sums of pairs of products of 16 bits."""


def byte_dot_intrinsic(features: str, words: ValueType, *, squares: bool) -> str:
    """Return the name of the intrinsic for a machine with `features`, or nothing."""
    listed = features.split(",")
    for table in (_SQUARES,) if squares else (_INTRINSICS, _PAIRS):
        name, needed = table.get(words, ("", ()))
        if any(f"+{feature}" in listed for feature in needed):
            return name
    return ""


def call_byte_dot(writer: FunctionWriter, name: str, words: ValueType, args: list[str]) -> str:
    """Call the intrinsic with sums, first and second words."""
    kind = type_name(ValueType(Prim.I32, words.lanes))
    if "pmadd" in name:
        return _in_pairs(writer, name, words.lanes, args)
    taken = kind
    if not name.startswith(_X86):
        taken = f"<{4 * words.lanes} x i8>"
        args[1:] = [writer.value(f"bitcast {kind} {arg} to {taken}") for arg in args[1:]]
    writer.module.declare(name, kind, f"{kind}, {taken}, {taken}")
    total, a, b = args
    return writer.value(f"call {kind} @{name}({kind} {total}, {taken} {a}, {taken} {b})")


def _in_pairs(writer: FunctionWriter, name: str, lanes: int, args: list[str]) -> str:
    """Sum products of even bytes, then of odd ones, as pairs of i16."""
    kind, half = f"<{lanes} x i32>", f"<{2 * lanes} x i16>"
    writer.module.declare(name, kind, f"{half}, {half}")

    def vector(number: int) -> str:
        return "<" + ", ".join([f"i16 {number}"] * (2 * lanes)) + ">"

    total, *words = args
    a, b = (writer.value(f"bitcast {kind} {word} to {half}") for word in words)
    low = writer.value(f"shl {half} {b}, {vector(8)}")
    even = f"and {half} {a}, {vector(255)}", f"ashr {half} {low}, {vector(8)}"
    odd = f"lshr {half} {a}, {vector(8)}", f"ashr {half} {b}, {vector(8)}"
    for pair in (even, odd):
        x, y = map(writer.value, pair)
        products = writer.value(f"call {kind} @{name}({half} {x}, {half} {y})")
        total = writer.value(f"add {kind} {total}, {products}")
    return total
