"""A module of the loop language as one C11 translation unit.

`emit_module` gives the whole file, `emit_kernel` one kernel without what it relies on (for
goldens and inspection). The text depends on the module alone. It needs the compiler flags
`-ffp-contract=off` (no fused operation that the kernel did not ask for) and, to vectorize,
`-fopenmp-simd`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from rlx.codegen.c.code import fit
from rlx.codegen.c.expressions import ExpressionEmitter
from rlx.codegen.c.functions import FunctionTable
from rlx.codegen.c.names import free_name, function_name, variable_name
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.c.prototypes import external_prototypes
from rlx.codegen.c.spelling import pointer, scalar_type
from rlx.codegen.c.statements import StatementEmitter
from rlx.codegen.c.walk import (
    bound_names,
    index_variables,
    live_statements,
    statements,
    used_names,
)
from rlx.codegen.entry import can_fail
from rlx.codegen.loops.nodes import Invoke, Kernel, Module, Status


@dataclass(frozen=True, slots=True)
class UnitView:
    """What the template of a translation unit lays out."""

    name: str
    statuses: tuple[Status, ...]
    types: tuple[str, ...]
    externals: tuple[str, ...]
    entries: tuple[str, ...]
    helpers: tuple[str, ...]
    functions: tuple[str, ...]
    kernels: tuple[str, ...]


def emit_module(module: Module, *, symbols: Mapping[str, str] | None = None) -> str:
    """Return the C source of `module`.

    `symbols` gives external functions the name that the linker knows, where it differs from the
    one that kernels call (`cblas_sgemm` may be `scipy_cblas_sgemm` in the library).
    """
    view = unit_view(module, symbols or {})
    return environment().get_template("module.c.j2").render(unit=view)


def unit_view(module: Module, symbols: Mapping[str, str]) -> UnitView:
    """Return the parts of `module`'s translation unit, for a template to lay out."""
    emitter = ModuleEmitter()
    kernels = [emitter.kernel(kernel) for kernel in module.kernels]
    kernels += [emitter.kernel(entry, is_entry=True) for entry in module.entries]
    return UnitView(
        name=module.name,
        statuses=tuple(emitter.prelude.statuses),
        types=tuple(emitter.prelude.types),
        externals=tuple(external_prototypes((*module.kernels, *module.entries), symbols)),
        entries=tuple(emitter.signature(entry, is_entry=True) for entry in module.entries),
        helpers=tuple(emitter.prelude.helpers),
        functions=tuple(emitter.functions.texts),
        kernels=tuple(kernels),
    )


def emit_kernel(kernel: Kernel) -> str:
    """Return the C function of one kernel, with its comment."""
    return ModuleEmitter().kernel(kernel)


@functools.cache
def environment() -> Environment:
    """Return the templates of all generated files."""
    return Environment(
        loader=PackageLoader("rlx.codegen", "templates"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


class ModuleEmitter:
    """Emits kernels that share one prelude and one table of math functions."""

    def __init__(self) -> None:
        self.prelude = Prelude()
        self.functions = FunctionTable(self.prelude)

    def kernel(self, kernel: Kernel, *, is_entry: bool = False) -> str:
        """Return the definition of `kernel`; an entry is exported and always returns a status."""
        live = live_statements(kernel)
        used = used_names(kernel, live)
        names = _extra_names(kernel)
        expressions = ExpressionEmitter(
            self.prelude, index_variables(kernel), self.functions.request
        )
        emitter = StatementEmitter(expressions, names, live, used)
        self._open(emitter, kernel, used, is_entry=is_entry)
        emitter.block(kernel.body)
        if is_entry or can_fail(kernel):
            emitter.line("return 0;")
        doc = [f"// {line}".rstrip().rstrip("\\") for line in kernel.doc]
        head = self.signature(kernel, is_entry=is_entry, tail=") {")
        return "\n".join([*doc, head, *emitter.lines, "}"])

    def signature(self, kernel: Kernel, *, is_entry: bool = False, tail: str = ");") -> str:
        """Return the function's head up to `tail`."""
        names = _extra_names(kernel)
        params = [pointer(buffer) for buffer in kernel.buffers]
        params += [f"{scalar_type(s.type.prim)} {variable_name(s.name)}" for s in kernel.scalars]
        if kernel.parallel_loop is not None:
            params += [f"int64_t {names['begin']}", f"int64_t {names['end']}"]
        if can_fail(kernel) and not is_entry:
            params.append(f"int64_t *{names['fault']}")
        returned = "int" if is_entry or can_fail(kernel) else "void"
        static = "" if is_entry else "static "
        head = f"{static}{returned} {function_name(kernel.name)}("
        return "\n".join(fit(head, params or ["void"], tail, ""))

    def _open(
        self, emitter: StatementEmitter, kernel: Kernel, used: set[str], *, is_entry: bool
    ) -> None:
        """Print what comes before the body: unused arguments, the header, the status."""
        arguments = [b.name for b in kernel.buffers] + [s.name for s in kernel.scalars]
        holds_header = is_entry and can_fail(kernel)
        for name in arguments[1:] if holds_header else arguments:
            if name not in used:
                emitter.line(f"(void){variable_name(name)};")
        names = _extra_names(kernel)
        if holds_header:
            arena = variable_name(kernel.buffers[0].name)
            emitter.line(f"int64_t *const {names['fault']} = (int64_t *){arena};")
        invokes = (s for s in statements(kernel.body) if isinstance(s, Invoke))
        if any(can_fail(invoke.kernel) for invoke in invokes):
            emitter.line(f"int {names['status']};")


def _extra_names(kernel: Kernel) -> dict[str, str]:
    taken = bound_names(kernel)
    return {name: free_name(name, taken) for name in ("begin", "end", "fault", "status")}
