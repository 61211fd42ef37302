"""A `Module` of the loop language as LLVM IR text.

    text = emit_module(module, machine).text

    parts = emit_parts(module, machine)     # the same in modules that are compiled separately

Equal modules give equal text. Kernels are internal functions, or hidden ones where parts are linked
together; entries are exported with the C calling convention. How both are called is written down
in `rlx.codegen.entry`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from rlx.codegen.entry import can_fail
from rlx.codegen.llvm.expressions import function_name
from rlx.codegen.llvm.machine import Machine
from rlx.codegen.llvm.spelling import type_name
from rlx.codegen.llvm.statements import BEGIN, END, FAULT, StatementEmitter
from rlx.codegen.llvm.writer import FunctionWriter, ModuleWriter
from rlx.codegen.loops.nodes import Block, Buffer, Call, Kernel, Module
from rlx.codegen.loops.passes.vectorize import vectorize
from rlx.codegen.loops.visit import blocks, count_lets, evaluated
from rlx.codegen.parts import divide
from rlx.codegen.text import identifier, llvm_comment
from rlx.dataclass import dataclass

_FUNCTION = "#0"
_KERNEL = "#1"
_ENTRY = "#2"
_MOST_INLINED = 8
"""Copies of a function in straight-line code. Each costs up to 8 ms of compiling, and a call a
nanosecond, which the smaller code gives back."""
_MOST_INLINED_LETS = 1600
"""What all copies of a function in a loop's body may bind. LLVM's time grows faster than a block
of code: at 100 sines of doubles it was a minute and a half."""
_PART = 600
"""Expressions from which a part is complete. LLVM takes some 40 ms for as many, and 2 ms more for
each part."""


@dataclass(frozen=True, slots=True)
class EmittedModule:
    """IR text, and what compiling it takes."""

    text: str
    externals: tuple[str, ...]
    """Symbols of the C functions that it calls."""
    needs_vectorizer: bool
    """True if a `simd` loop was left for LLVM to vectorize."""


def emit_module(
    module: Module,
    machine: Machine,
    *,
    exported: Collection[str] = (),
    symbols: Mapping[str, str] | None = None,
    slots: Collection[str] = (),
) -> EmittedModule:
    """Return the IR of every kernel and entry, and of the functions that they call.

    Kernels in `exported` can be linked with, by what is linked into the same library.
    `symbols` gives external functions their names for the linker, where they differ; those
    in `slots` are called by the addresses that the places of these names hold.
    """
    emitter = _ModuleEmitter(machine, exported, symbols or {}, slots)
    for kernel in module.kernels:
        emitter.kernel(kernel)
    for entry in module.entries:
        emitter.entry(entry)
    return emitter.emitted(module.name)


def emit_parts(
    module: Module, machine: Machine, *, slots: Collection[str] = ()
) -> tuple[EmittedModule, ...]:
    """Return the IR of `emit_module` as modules that link to each other's kernels."""
    kernels = frozenset(kernel.name for kernel in module.kernels)
    return tuple(
        emit_module(part, machine, exported=kernels, slots=slots) for part in divide(module, _PART)
    )


class _ModuleEmitter:
    def __init__(
        self,
        machine: Machine,
        exported: Collection[str],
        symbols: Mapping[str, str],
        slots: Collection[str],
    ) -> None:
        self.writer = ModuleWriter(symbols, machine.features, slots)
        self._machine = machine
        self._exported = exported

    def emitted(self, name: str) -> EmittedModule:
        """Return what was emitted as a module called `name`."""
        header = f'source_filename = "{identifier(name)}"\ntarget triple = "{self._machine.triple}"'
        text = self.writer.text(header, _attributes(self._machine))
        return EmittedModule(text, self.writer.externals, self.writer.needs_vectorizer)

    def kernel(self, kernel: Kernel) -> None:
        params = [*_pointers(kernel, _promises), *_scalars(kernel)]
        if kernel.parallel_loop is not None:
            params += [f"i64 {BEGIN}", f"i64 {END}"]
        linkage = "hidden" if kernel.name in self._exported else "internal"
        if not can_fail(kernel):
            self._define(kernel, f"{linkage} void @{kernel.name}", params, "void", _KERNEL)
            return
        params.append(f"ptr {FAULT}")
        self._define(kernel, f"{linkage} i32 @{kernel.name}", params, "i32 0", _KERNEL)

    def entry(self, entry: Kernel) -> None:
        # Other threads work on the same arena: entries have no attributes on their pointers.
        params = [*_pointers(entry, lambda _: ""), *_scalars(entry)]
        self._define(entry, f"i32 @{entry.name}", params, "i32 0", _ENTRY)

    def _define(
        self, kernel: Kernel, head: str, params: list[str], result: str, attributes: str
    ) -> None:
        for name in (
            kernel.name,
            *(b.name for b in kernel.buffers),
            *(s.name for s in kernel.scalars),
        ):
            identifier(name)
        fault = FAULT if attributes == _KERNEL else _arena(kernel)
        emitter = StatementEmitter(FunctionWriter(self.writer), self._machine, fault)
        emitter.pointers = {buffer.name: f"%{buffer.name}" for buffer in kernel.buffers}
        emitter.values = {scalar.name: f"%{scalar.name}" for scalar in kernel.scalars}
        body = vectorize(kernel, self._machine.vector_bytes).body
        emitter.called = _called_functions(body)
        emitter.block(body)
        emitter.writer.write(f"ret {result}")
        text = emitter.writer.text(f"define {head}({', '.join(params)}) {attributes}")
        comments = [llvm_comment(line) for line in kernel.doc]
        self.writer.define(kernel.name, lambda: "\n".join([*comments, text]))


def _called_functions(body: Block, *, within_loops: bool = False) -> set[str]:
    """Return the functions, by width, of which a stretch of straight-line code has many copies."""
    called = set[str]()
    copies = Counter[str]()
    for statement in body:
        for inner in blocks(statement):
            called |= _called_functions(inner, within_loops=True)
        for call in evaluated(statement):
            if isinstance(call, Call):
                name = function_name(call.function, call.args[0].type.lanes)
                copies[name] += count_lets(call) if within_loops else 1
    most = _MOST_INLINED_LETS if within_loops else _MOST_INLINED
    return called | {name for name, count in copies.items() if count > most}


def _arena(entry: Kernel) -> str:
    """Return the pointer to the arena's header: an entry's first buffer."""
    return f"%{entry.buffers[0].name}" if entry.buffers else "null"


def _pointers(kernel: Kernel, promises: Callable[[Buffer], str]) -> list[str]:
    return [f"ptr{promises(buffer)} %{buffer.name}" for buffer in kernel.buffers]


def _scalars(kernel: Kernel) -> list[str]:
    return [f"{type_name(scalar.type)} %{scalar.name}" for scalar in kernel.scalars]


def _promises(buffer: Buffer) -> str:
    """Return attributes of arguments that the loop language guarantees: `noalias`, `readonly`."""
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
