"""Conversions between f16 and f32 by instruction, where the machine has one.

Without it LLVM would call a library, so that other machines get the arithmetic on bits.
"""

from __future__ import annotations

from rlx.codegen.llvm.writer import FunctionWriter
from rlx.codegen.loops.math.storage import f16_to_f32, f32_to_f16, round_to_f16
from rlx.codegen.loops.nodes import Function

_HAVING = ("+f16c", "+neon")
"""x86 since its level 3, and aarch64."""
_STEPS = {
    f16_to_f32.name: (("bitcast", "i16", "half"), ("fpext", "half", "float")),
    f32_to_f16.name: (("fptrunc", "float", "half"), ("bitcast", "half", "i16")),
    round_to_f16.name: (("fptrunc", "float", "half"), ("fpext", "half", "float")),
}
_Steps = tuple[tuple[str, str, str], ...]


def half_steps(features: str, function: Function) -> _Steps:
    """Return the conversions that `function` is on a machine with `features`; none for others."""
    listed = features.split(",")
    return _STEPS.get(function.name, ()) if any(each in listed for each in _HAVING) else ()


def convert_half(writer: FunctionWriter, steps: _Steps, lanes: int, x: str) -> str:
    """Write the conversions of a scalar or a vector."""
    for step, source, target in steps:
        taken, made = (f"<{lanes} x {kind}>" if lanes > 1 else kind for kind in (source, target))
        x = writer.value(f"{step} {taken} {x} to {made}")
    return x
