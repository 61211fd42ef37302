"""Prototypes of the external C functions that kernels call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlx.codegen.c.spelling import scalar_type
from rlx.codegen.loops.nodes import Address, External, Kernel
from rlx.codegen.loops.visit import walk
from rlx.errors import InternalError


def external_symbols(kernels: Sequence[Kernel]) -> list[str]:
    """Return the logical names of all external functions, sorted."""
    return sorted(_signatures(kernels))


def external_prototypes(kernels: Sequence[Kernel], symbols: Mapping[str, str]) -> list[str]:
    """Return one prototype per external function, sorted by name."""
    return [
        f"extern {result} {name}({', '.join(params) or 'void'}){_label(name, symbols)};"
        for name, (result, params) in sorted(_signatures(kernels).items())
    ]


def _label(name: str, symbols: Mapping[str, str]) -> str:
    linked = symbols.get(name, name)
    return "" if linked == name else f' __asm__("{linked}")'


def _signatures(kernels: Sequence[Kernel]) -> dict[str, tuple[str, tuple[str, ...]]]:
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for kernel in kernels:
        for statement in walk(kernel.body):
            if isinstance(statement, External):
                signature = _signature(statement)
                if found.setdefault(statement.symbol, signature) != signature:
                    raise InternalError(
                        f"external function {statement.symbol} is called with two signatures"
                    )
    return found


def _signature(call: External) -> tuple[str, tuple[str, ...]]:
    result = "void" if call.result is None else scalar_type(call.result.type.prim)
    return result, tuple(
        f"{'' if arg.writable else 'const '}{scalar_type(arg.prim)} *"
        if isinstance(arg, Address)
        else scalar_type(arg.type.prim)
        for arg in call.args
    )
