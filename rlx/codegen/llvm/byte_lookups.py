"""Bytes looked up in a table of sixteen as LLVM's intrinsics, by what the machine has.

`pshufb` and `tbl` give the byte of the table for positions below sixteen. Other machines get the
arithmetic of `rlx.codegen.loops.byte_lookups`.
"""

from __future__ import annotations

from rlx.codegen.llvm.spelling import type_name
from rlx.codegen.llvm.writer import FunctionWriter
from rlx.codegen.loops.nodes import LookupBytes

_INTRINSICS = {
    16: (("llvm.x86.avx512.pshuf.b.512", "avx512bw"),),
    8: (("llvm.x86.avx2.pshuf.b", "avx2"),),
    4: (("llvm.x86.ssse3.pshuf.b.128", "ssse3"), ("llvm.aarch64.neon.tbl1.v16i8", "neon")),
}
"""Words -> intrinsics, and the feature that brings each."""


def byte_lookup_intrinsic(features: str, lanes: int) -> str:
    """Return the name of the intrinsic for a machine with `features`, or nothing."""
    listed = features.split(",")
    found = (name for name, needed in _INTRINSICS.get(lanes, ()) if f"+{needed}" in listed)
    return next(found, "")


def call_byte_lookup(writer: FunctionWriter, name: str, node: LookupBytes, x: str) -> str:
    """Call the intrinsic with the table, once for every four words, and the positions."""
    words, lanes = type_name(node.type), 4 * node.type.lanes
    bytes = f"<{lanes} x i8>"
    repeated = node.table * (lanes // len(node.table))
    table = f"<{', '.join(f'i8 {value}' for value in repeated)}>"
    at = writer.value(f"bitcast {words} {x} to {bytes}")
    writer.module.declare(name, bytes, f"{bytes}, {bytes}")
    found = writer.value(f"call {bytes} @{name}({bytes} {table}, {bytes} {at})")
    return writer.value(f"bitcast {bytes} {found} to {words}")
