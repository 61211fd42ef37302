"""Modules as relocatable object code, for linking where there was no C compiler.

code = compile_kernels(module, target, triple=None, exported=("mlp_run_phase",), symbols={})
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rlx.codegen.llvm import binding
from rlx.codegen.llvm.emit import emit_module
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.optimize import Options
from rlx.codegen.loops.nodes import Module
from rlx.target import Target


def compile_kernels(
    module: Module,
    target: Target,
    *,
    triple: str | None,
    exported: Collection[str],
    symbols: Mapping[str, str],
) -> bytes:
    """Return an object file for `triple`, or for this system, that exports some kernels.

    `symbols` is what the linker calls external functions, where it differs.
    """
    machine = _machine(target, triple)
    emitted = emit_module(module, machine, exported=exported, symbols=symbols)
    options = Options().resolved(len(emitted.text), needs_vectorizer=emitted.needs_vectorizer)
    return binding.compile_object(emitted.text, machine, options)


def _machine(target: Target, triple: str | None) -> Machine:
    if triple is None and target.vendor != "generic":
        return binding.host_machine(target.vector_bytes)
    return binding.generic_machine(triple, target)
