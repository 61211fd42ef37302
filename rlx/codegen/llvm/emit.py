"""A `Module` of the loop language as LLVM IR text.

    text = emit_module(module, machine)

Equal modules give equal text. Kernels are internal functions, entries are exported with the C
calling convention; how both are called is written down in `rlx.codegen.entry`.
"""

from __future__ import annotations

from collections.abc import Callable

from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.spelling import type_name
from rlx.codegen.llvm.statements import StatementEmitter
from rlx.codegen.llvm.writer import FunctionWriter, ModuleWriter
from rlx.codegen.loops.nodes import Block, Buffer, Fail, For, If, Invoke, Kernel, Module, While

_FUNCTION = "#0"
_KERNEL = "#1"
_ENTRY = "#2"


def emit_module(module: Module, machine: Machine) -> str:
    """Return the IR of every kernel and entry, and of the functions that they call."""
    emitter = _ModuleEmitter(machine, failing_kernels(module))
    for kernel in module.kernels:
        emitter.kernel(kernel)
    for entry in module.entries:
        emitter.entry(entry)
    header = f'source_filename = "{module.name}"\ntarget triple = "{machine.triple}"'
    return emitter.writer.text(header, _attributes(machine))


def failing_kernels(module: Module) -> frozenset[str]:
    """Return the names of the kernels that return a status; callees come first in a module."""
    failing: set[str] = set()
    for kernel in module.kernels:
        if _fails(kernel.body, failing):
            failing.add(kernel.name)
    return frozenset(failing)


def _fails(body: Block, failing: set[str]) -> bool:
    for statement in body:
        match statement:
            case Fail():
                return True
            case Invoke(kernel=kernel) if kernel.name in failing:
                return True
            case For(body=inner) | While(body=inner) if _fails(inner, failing):
                return True
            case If() if _fails(statement.then, failing) or _fails(statement.orelse, failing):
                return True
            case _:
                continue
    return False


class _ModuleEmitter:
    def __init__(self, machine: Machine, failing: frozenset[str]) -> None:
        self.writer = ModuleWriter()
        self._machine = machine
        self._failing = failing

    def kernel(self, kernel: Kernel) -> None:
        params = [*_pointers(kernel, _promises), *_scalars(kernel)]
        if kernel.parallel_loop is not None:
            params += ["i64 %begin", "i64 %end"]
        if kernel.name not in self._failing:
            self._define(kernel, f"internal void @{kernel.name}", params, "void", _KERNEL)
            return
        params.append("ptr %fault")
        self._define(kernel, f"internal i32 @{kernel.name}", params, "i32 0", _KERNEL)

    def entry(self, entry: Kernel) -> None:
        # Other threads work on the same arena: entries promise nothing about their pointers.
        params = [*_pointers(entry, lambda _: ""), *_scalars(entry)]
        self._define(entry, f"i32 @{entry.name}", params, "i32 0", _ENTRY)

    def _define(
        self, kernel: Kernel, head: str, params: list[str], result: str, attributes: str
    ) -> None:
        fault = "%fault" if attributes == _KERNEL else _arena(kernel)
        emitter = StatementEmitter(FunctionWriter(self.writer), self._machine, fault, self._failing)
        emitter.pointers = {buffer.name: f"%{buffer.name}" for buffer in kernel.buffers}
        emitter.values = {scalar.name: f"%{scalar.name}" for scalar in kernel.scalars}
        emitter.block(kernel.body)
        emitter.writer.write(f"ret {result}")
        text = emitter.writer.text(f"define {head}({', '.join(params)}) {attributes}")
        comments = [f"; {line}".rstrip() for line in kernel.doc]
        self.writer.define(kernel.name, lambda: "\n".join([*comments, text]))


def _arena(entry: Kernel) -> str:
    """Return the pointer to the arena's header: an entry's first buffer."""
    return f"%{entry.buffers[0].name}" if entry.buffers else "null"


def _pointers(kernel: Kernel, promises: Callable[[Buffer], str]) -> list[str]:
    return [f"ptr{promises(buffer)} %{buffer.name}" for buffer in kernel.buffers]


def _scalars(kernel: Kernel) -> list[str]:
    return [f"{type_name(scalar.type)} %{scalar.name}" for scalar in kernel.scalars]


def _promises(buffer: Buffer) -> str:
    """State what the loop language promises: no other name for the memory, no writes."""
    restrict = "" if buffer.may_alias else " noalias"
    readonly = "" if buffer.writable else " readonly"
    return f"{restrict}{readonly} align {buffer.prim.size}"


def _attributes(machine: Machine) -> str:
    """Define the attribute groups of math functions, kernels and entries.

    The CPU and its features are the target machine's, so the text needs not repeat them.
    """
    common = f'nounwind "prefer-vector-width"="{machine.vector_bytes * 8}"'
    return "\n".join(
        [
            f"attributes {_FUNCTION} = {{ alwaysinline memory(none) {common} }}",
            f"attributes {_KERNEL} = {{ noinline {common} }}",
            f"attributes {_ENTRY} = {{ {common} }}",
        ]
    )
