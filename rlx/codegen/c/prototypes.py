"""Prototypes of the external C functions that kernels call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlx.codegen.c.code import fit
from rlx.codegen.c.sources import is_source
from rlx.codegen.c.spelling import scalar_type
from rlx.codegen.loops.nodes import Address, External, Kernel
from rlx.codegen.loops.visit import walk
from rlx.codegen.text import Emitted, c_string, identifier, verbatim
from rlx.errors import GraphError


def external_symbols(kernels: Sequence[Kernel]) -> list[str]:
    """Return the logical names of all external functions, sorted."""
    return sorted(signatures(kernels))


def external_prototypes(
    kernels: Sequence[Kernel],
    symbols: Mapping[str, str],
    *,
    only: Callable[[str], bool] = lambda _: True,
    is_plain: bool = False,
) -> list[Emitted]:
    """Return one prototype per external function, sorted by name.

    A function that a user brought is defined in the same text: `static`, so that programs which
    are linked together can each have theirs, unless `symbols` gives it a name to be linked by.
    `only` says which are wanted. Plain C has no names for the linker alone: there the preprocessor
    has them.
    """
    return [
        _prototype(name, *signature, symbols, is_plain=is_plain)
        for name, signature in sorted(signatures(kernels).items())
        if only(name)
    ]


def _prototype(
    name: str,
    result: str,
    params: Sequence[str],
    symbols: Mapping[str, str],
    *,
    is_plain: bool,
) -> Emitted:
    linked = symbols.get(name, name)
    label = "" if linked == name or is_plain else f" __asm__({c_string(linked)})"
    head = f"{_storage(name, symbols)} {result} {identifier(name)}("
    text = "\n".join(fit(head, list(params) or ["void"], f"){label};", ""))
    renamed = linked != name and is_plain
    return verbatim(f"#define {name} {identifier(linked)}\n{text}" if renamed else text)


def _storage(name: str, symbols: Mapping[str, str]) -> str:
    return "static" if is_source(name) and name not in symbols else "extern"


def signatures(kernels: Sequence[Kernel]) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the result and the parameters, in C, of all external functions by name."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for kernel in kernels:
        for statement in walk(kernel.body):
            if isinstance(statement, External) and statement.address is None:
                own = signature(statement)
                if found.setdefault(statement.symbol, own) != own:
                    raise GraphError(
                        f"the C function {statement.symbol} is called with two signatures",
                        remedy="register it under one name for each",
                    )
    return found


def signature(call: External) -> tuple[str, tuple[str, ...]]:
    """Return the result and the parameters, in C, of the function that is called."""
    result = "void" if call.result is None else scalar_type(call.result.type.prim)
    return result, tuple(
        f"{'' if arg.writable else 'const '}{scalar_type(arg.prim)} *"
        if isinstance(arg, Address)
        else scalar_type(arg.type.prim)
        for arg in call.args
    )
