"""FFI targets that a module calls, and the slots that hold their addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlx.ir.foreign import SYMBOLS

if TYPE_CHECKING:
    from rlx.codegen.loops.nodes import Module


def foreign_symbols(module: Module) -> list[str]:
    """Return the symbols of the targets that a module calls, sorted."""
    if not SYMBOLS:  # nearly always
        return []
    from rlx.codegen.loops.nodes import External  # which a loaded program needs not
    from rlx.codegen.loops.visit import walk

    kernels = (*module.kernels, *module.entries)
    statements = (s for kernel in kernels for s in walk(kernel.body))
    called = {s.symbol for s in statements if isinstance(s, External)}
    return sorted(called.intersection(SYMBOLS))


def slot_name(symbol: str) -> str:
    """Return what a C library calls the pointer to the slot of a target."""
    return f"{symbol}_slot"
