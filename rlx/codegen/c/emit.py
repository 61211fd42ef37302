"""A module of the loop language as one C11 translation unit.

`emit_module` gives the whole file, `emit_kernel` one kernel without what it relies on (for
goldens and inspection). The text depends on the module alone. It needs the compiler flags
`-ffp-contract=off` (no fused operation that the kernel did not ask for) and, to vectorize,
`-fopenmp-simd`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from rlx.codegen.c.code import comment, fit
from rlx.codegen.c.expressions import ExpressionEmitter
from rlx.codegen.c.functions import FunctionTable
from rlx.codegen.c.names import function_name
from rlx.codegen.c.prelude import Prelude
from rlx.codegen.c.prototypes import external_prototypes, external_symbols
from rlx.codegen.c.scopes import BEGIN, END, FAULT, STATUS, display_names
from rlx.codegen.c.sources import is_source, sources_of
from rlx.codegen.c.spelling import pointer, scalar_type
from rlx.codegen.c.statements import StatementEmitter
from rlx.codegen.c.templates import environment
from rlx.codegen.c.uses import index_variables, used_names
from rlx.codegen.c.vector_width import keeps_wide_vectors, touches_doubles
from rlx.codegen.entry import can_fail
from rlx.codegen.loops.nodes import Invoke, Kernel, Load, Module, Status, Store
from rlx.codegen.loops.passes.dead_arguments import dead_arguments
from rlx.codegen.loops.passes.dead_code import dead_code
from rlx.codegen.loops.visit import all_expressions, walk
from rlx.codegen.parts import divide
from rlx.codegen.text import Emitted, identifier, verbatim
from rlx.dataclass import dataclass

_PART = 1500
"""Expressions from which a unit is complete, where a module is compiled as several. GCC takes some
0.4 s for as many, and 0.03 s more for each unit."""
_HIDDEN = 'visibility("hidden")'
_MOST_INLINED = 128
"""Calls of a kernel in one function that a compiler may inline."""


class StatusCode(NamedTuple):
    """A status code as an enumerator of C."""

    name: Emitted
    value: int


@dataclass(frozen=True, slots=True)
class UnitView:
    """What the template of a translation unit lays out."""

    name: str
    statuses: tuple[StatusCode, ...]
    places: tuple[tuple[Emitted, list[tuple[Emitted, int]]], ...]
    """Per block of memory the offsets of its tensors."""
    types: tuple[Emitted, ...]
    externals: tuple[Emitted, ...]
    prototypes: tuple[Emitted, ...]
    """Of the entries, and of kernels that are defined in other units."""
    helpers: tuple[Emitted, ...]
    functions: tuple[Emitted, ...]
    kernels: tuple[Emitted, ...]
    has_doubles: bool = False
    """True if vectors of eight doubles must be kept from compilers that move them wrongly."""
    is_plain: bool = False
    """True if it is C99, for any compiler."""


def emit_module(module: Module, *, symbols: Mapping[str, str] | None = None) -> str:
    """Return the C source of `module`.

    `symbols` gives external functions their name for the linker, where it differs from the
    one that kernels call (`cblas_sgemm` may be `scipy_cblas_sgemm` in the library).
    """
    view = unit_view(module, symbols or {})
    return environment().get_template("module.c.j2").render(unit=view)


def emit_parts(module: Module, *, symbols: Mapping[str, str]) -> tuple[str, ...]:
    """Return the C source of `emit_module` as units that link to each other's kernels.

    Kernels that call external functions are in the last. A small module is one unit.
    """
    module = dead_arguments(module)
    parts = divide(module, _PART, stays=lambda kernel: bool(external_symbols((kernel,))))
    linked = {kernel.name for kernel in module.kernels} if len(parts) > 1 else set()
    template = environment().get_template("module.c.j2")
    return tuple(template.render(unit=_view(part, symbols, linked=linked)) for part in parts)


def emit_source(symbol: str) -> str:
    """Return the C file of a function that a user brought, by itself."""
    return (
        environment()
        .get_template("source.c.j2")
        .render(text=verbatim(sources_of([symbol]).strip()))
    )


def unit_view(module: Module, symbols: Mapping[str, str], *, is_plain: bool = False) -> UnitView:
    """Return the parts of `module`'s translation unit, for a template to lay out.

    A plain one is C99, for any compiler.
    """
    return _view(dead_arguments(module), symbols, is_plain=is_plain)


def _view(
    module: Module,
    symbols: Mapping[str, str],
    *,
    is_plain: bool = False,
    linked: Collection[str] = (),
) -> UnitView:
    """Return the view of a unit; kernels in `linked` may be called from others, or be in them."""
    defined = (*module.kernels, *module.entries)
    has_doubles = touches_doubles(defined) or any(map(is_source, external_symbols(defined)))
    emitter = ModuleEmitter(
        marks_wide=has_doubles and not is_plain,
        is_plain=is_plain,
        called_often=_called_often(defined),
        linked=linked,
    )
    kernels = [emitter.kernel(kernel) for kernel in module.kernels]
    kernels += [emitter.kernel(entry, is_entry=True) for entry in module.entries]
    return UnitView(
        name=module.name,
        statuses=tuple(map(_status_code, emitter.prelude.statuses)),
        places=tuple(emitter.prelude.places),
        types=tuple(map(verbatim, emitter.prelude.types)),
        externals=tuple(external_prototypes(defined, symbols, is_plain=is_plain)),
        prototypes=(*_linked_prototypes(defined, linked), *map(entry_signature, module.entries)),
        helpers=tuple(map(verbatim, emitter.prelude.helpers)),
        functions=tuple(map(verbatim, emitter.functions.texts)),
        kernels=tuple(kernels),
        has_doubles=has_doubles and not is_plain,
        is_plain=is_plain,
    )


def _status_code(status: Status) -> StatusCode:
    return StatusCode(identifier(status.name), int(status))


def emit_kernel(kernel: Kernel) -> Emitted:
    """Return the C function of one kernel, with its comment."""
    return ModuleEmitter().kernel(kernel)


class ModuleEmitter:
    """Emits kernels that share one prelude and one table of math functions.

    `marks_wide` marks kernels that may use the widest vectors. Kernels
    in `called_often` are not inlined; those in `linked` may be called from other units.
    """

    def __init__(
        self,
        *,
        marks_wide: bool = False,
        is_plain: bool = False,
        called_often: Container[str] = (),
        linked: Container[str] = (),
    ) -> None:
        self._marks_wide = marks_wide
        self._called_often = called_often
        self._linked = linked
        self.prelude = Prelude(is_plain=is_plain)
        self.functions = FunctionTable(self.prelude)

    def kernel(self, kernel: Kernel, *, is_entry: bool = False) -> Emitted:
        """Return the definition of `kernel`; an entry is exported and always returns a status."""
        kernel = dead_code(kernel)
        used = used_names(kernel)
        names = display_names(kernel, is_entry=is_entry)
        expressions = ExpressionEmitter(
            self.prelude, names, index_variables(kernel), self.functions.request
        )
        emitter = StatementEmitter(expressions, used)
        self._open(emitter, kernel, used, is_entry=is_entry)
        emitter.block(kernel.body)
        if is_entry or can_fail(kernel):
            emitter.line("return 0;")
        doc = [line for text in kernel.doc for line in comment(text)]
        is_plain = self.prelude.is_plain
        linkage = "" if is_entry else self._linkage(kernel)
        head = _signature(kernel, names, linkage, is_entry=is_entry, tail=") {", is_plain=is_plain)
        if self._marks_wide and not is_entry and keeps_wide_vectors(kernel):
            doc.append("WIDE_VECTORS")
        return verbatim("\n".join([*doc, head, *emitter.lines, "}"]))

    def _linkage(self, kernel: Kernel) -> str:
        """Return the attributes before the type of a kernel's function.

        A kernel that is called many times is not inlined: compilers take more than linear time
        for functions that grow so.

        A kernel that reads what it writes is not inlined: GCC 12 at -O3 then moves loads of an
        element after its store, as if the pointers' `restrict` held for the caller's, too. Plain
        C, which cannot say so, does without `restrict` there.
        """
        is_linked = kernel.name in self._linked
        is_called_often = kernel.name in self._called_often
        stays = not self.prelude.is_plain and (is_called_often or _updates_in_place(kernel))
        attributes = [*[_HIDDEN] * is_linked, *["noinline"] * stays]
        return _attributes("" if is_linked else "static ", attributes)

    def _open(
        self, emitter: StatementEmitter, kernel: Kernel, used: set[str], *, is_entry: bool
    ) -> None:
        """Print what comes before the body: unused arguments, the header, the status."""
        arguments = [b.name for b in kernel.buffers] + [s.name for s in kernel.scalars]
        shown = emitter.expressions.name
        holds_header = is_entry and can_fail(kernel)
        for name in arguments[1:] if holds_header else arguments:
            if name not in used:
                emitter.line(f"(void){shown(name)};")
        if holds_header:
            arena = shown(kernel.buffers[0].name)
            emitter.line(f"int64_t *const {shown(FAULT)} = (void *){arena};")
        invokes = (s for s in walk(kernel.body) if isinstance(s, Invoke))
        if any(can_fail(invoke.kernel) for invoke in invokes):
            emitter.line(f"int {shown(STATUS)};")


def entry_signature(entry: Kernel) -> Emitted:
    """Return the prototype of an entry."""
    names = display_names(dead_code(entry), is_entry=True)
    return verbatim(_signature(entry, names, "", is_entry=True, tail=");"))


def kernel_prototype(kernel: Kernel, linkage: str = "") -> Emitted:
    """Return the prototype of a kernel that is defined elsewhere."""
    names = display_names(dead_code(kernel), is_entry=False)
    return verbatim(_signature(kernel, names, linkage, is_entry=False, tail=");"))


def _linked_prototypes(defined: Sequence[Kernel], linked: Container[str]) -> list[Emitted]:
    """Return the prototypes of the kernels that are called but defined in other units."""
    calls = (s for kernel in defined for s in walk(kernel.body) if isinstance(s, Invoke))
    called = {call.kernel.name: call.kernel for call in calls if call.kernel.name in linked}
    for kernel in defined:
        called.pop(kernel.name, None)
    return [kernel_prototype(kernel, _attributes("", [_HIDDEN])) for kernel in called.values()]


def _signature(
    kernel: Kernel,
    names: Mapping[str, str],
    linkage: str,
    *,
    is_entry: bool,
    tail: str,
    is_plain: bool = False,
) -> str:
    """Return the function's head up to `tail`."""
    is_alone = not (is_plain and _updates_in_place(kernel))
    params = [pointer(b, names[b.name], is_alone=is_alone) for b in kernel.buffers]
    params += [f"{scalar_type(s.type.prim)} {names[s.name]}" for s in kernel.scalars]
    if kernel.parallel_loop is not None:
        params += [f"int64_t {names[BEGIN]}", f"int64_t {names[END]}"]
    if can_fail(kernel) and not is_entry:
        params.append(f"int64_t *{names[FAULT]}")
    returned = "int" if is_entry or can_fail(kernel) else "void"
    head = f"{linkage}{returned} {identifier(function_name(kernel.name))}("
    return "\n".join(fit(head, params or ["void"], tail, ""))


def _called_often(kernels: Sequence[Kernel]) -> set[str]:
    """Return the names of the kernels that some other one calls more than `_MOST_INLINED` times."""
    found: set[str] = set()
    for kernel in kernels:
        calls = Counter(s.kernel.name for s in walk(kernel.body) if isinstance(s, Invoke))
        found.update(name for name, count in calls.items() if count > _MOST_INLINED)
    return found


def _attributes(storage: str, attributes: Sequence[str]) -> str:
    """Return what is before the type of a function."""
    return storage + (f"__attribute__(({', '.join(attributes)})) " if attributes else "")


def _updates_in_place(kernel: Kernel) -> bool:
    written = {s.buffer.name for s in walk(kernel.body) if isinstance(s, Store)}
    read = {e.buffer.name for e in all_expressions(kernel.body) if isinstance(e, Load)}
    return any(buffer.name in written & read for buffer in kernel.buffers)
