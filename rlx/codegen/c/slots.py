"""C that calls targets by the addresses in their slots, where a library is loaded into Python."""

from __future__ import annotations

from rlx.codegen.c.prototypes import signatures
from rlx.codegen.c.templates import environment
from rlx.codegen.foreign import foreign_symbols, slot_name
from rlx.codegen.loops.nodes import Module


def slots_text(module: Module) -> str:
    """Return the C text of the targets that `module` calls; "" for none."""
    symbols = foreign_symbols(module)
    if not symbols:
        return ""
    found = signatures((*module.kernels, *module.entries))
    targets = [(symbol, slot_name(symbol), found[symbol]) for symbol in symbols]
    return environment().get_template("slots.c.j2").render(targets=targets)
