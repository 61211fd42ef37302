"""C that calls functions by the addresses in their slots, where a library is loaded into Python."""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.c.prototypes import signatures
from rlx.codegen.c.templates import environment
from rlx.codegen.foreign import slot_name
from rlx.codegen.loops.nodes import Module
from rlx.codegen.text import Emitted, identifier, verbatim


def slots_text(module: Module, symbols: Sequence[str]) -> str:
    """Return the C text of the functions that `module` calls by slots; "" for none."""
    if not symbols:
        return ""
    found = signatures((*module.kernels, *module.entries))
    targets = [_target(symbol, *found[symbol]) for symbol in symbols]
    return environment().get_template("slots.c.j2").render(targets=targets)


def _target(
    symbol: str, result: str, params: Sequence[str]
) -> tuple[Emitted, Emitted, tuple[Emitted, list[Emitted]]]:
    """Return what the template prints of a function: its name, its slot and its signature."""
    signature = verbatim(result), [verbatim(param) for param in params]
    return identifier(symbol), identifier(slot_name(symbol)), signature
