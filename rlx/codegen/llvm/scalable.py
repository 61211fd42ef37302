"""Calls of SVE's intrinsics, whose vectors have no number of lanes, with vectors that have one.

Functions say how wide the registers are (`vscale_range`), so that moving between both is no
instruction.
"""

from __future__ import annotations

from rlx.codegen.llvm.writer import FunctionWriter

_BLOCK = 4
"""Words of 128 bits, of which a register has a number that is known when code runs."""


def call_scalable(
    writer: FunctionWriter,
    name: str,
    lanes: int,
    words: tuple[str, str],
    parts: tuple[str, int],
    args: list[str],
) -> str:
    """Call an intrinsic with sums, first and second words, which it takes apart.

    `words` are the types of a sum and of a word, `parts` the type of what is in a word and how
    many there are.
    """
    (sum_type, word), (part, count) = words, parts
    fixed = f"<{lanes} x {sum_type}>", f"<{lanes * count} x {part}>"
    scalable = f"<vscale x {_BLOCK} x {sum_type}>", f"<vscale x {_BLOCK * count} x {part}>"
    total, *factors = args
    found = [_inserted(writer, fixed[0], scalable[0], total)]
    for factor in factors:
        bits = writer.value(f"bitcast <{lanes} x {word}> {factor} to {fixed[1]}")
        found.append(_inserted(writer, fixed[1], scalable[1], bits))
    writer.module.declare(name, scalable[0], ", ".join((scalable[0], scalable[1], scalable[1])))
    kinds = (scalable[0], scalable[1], scalable[1])
    given = ", ".join(f"{kind} {value}" for kind, value in zip(kinds, found, strict=True))
    result = writer.value(f"call {scalable[0]} @{name}({given})")
    extract = f"llvm.vector.extract.{_suffix(fixed[0])}.{_suffix(scalable[0])}"
    writer.module.declare(extract, fixed[0], f"{scalable[0]}, i64")
    return writer.value(f"call {fixed[0]} @{extract}({scalable[0]} {result}, i64 0)")


def _inserted(writer: FunctionWriter, fixed: str, scalable: str, value: str) -> str:
    """Return a vector as the first lanes of a scalable one, which has no others."""
    insert = f"llvm.vector.insert.{_suffix(scalable)}.{_suffix(fixed)}"
    writer.module.declare(insert, scalable, f"{scalable}, {fixed}, i64")
    return writer.value(f"call {scalable} @{insert}({scalable} poison, {fixed} {value}, i64 0)")


def _suffix(kind: str) -> str:
    """Return what the name of an intrinsic calls a vector type: `nxv4i32` or `v8i32`."""
    *scale, lanes, part = kind.strip("<>").replace(" x ", " ").split()
    short = {"float": "f32", "bfloat": "bf16"}.get(part, part)
    return f"{'nx' if scale else ''}v{lanes}{short}"
