"""Which symbols a node depends on beyond those of its operands' and results' types."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.ir.op import Attrs
from rlx.ir.shape import Dim, Symbol, symbols_of


def attribute_symbols(attributes: Attrs) -> set[Symbol]:
    """Return the symbols of extents among attributes, and of all types inside of bodies.

    A sum over `expand(x, shape=(n,))` inside of a body has `n` nowhere else, and `extent`
    has it in its attribute alone.
    """
    found: set[Symbol] = set()
    for each in attributes.as_dict().values():
        if isinstance(each, Dim):
            found.update(each.symbols)
        elif isinstance(each, Graph):
            for node in each.nodes:
                found.update(*(symbols_of(result.shape) for result in node.results))
                found |= attribute_symbols(node.attrs)
    return found
