"""What happens to a graph before it is differentiated: fused ops give way to their bodies.

    %y = fused %x {body = ...}        ->        the nodes of the body

Everything else is differentiated as it stands, through rules or formulas (`sweep`). The map
from old to new values is kept, so that `wrt` still means what it meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.autodiff.derived import formula_of, present, spread


@dataclass(frozen=True, slots=True)
class Copied:
    """A copy of a graph and, for every value of the original, the value it became."""

    graph: Graph
    image: Mapping[Value, Value]

    def then(self, next: Copied) -> Copied:
        """Compose with a copy of this copy."""
        return Copied(next.graph, {old: next.image[new] for old, new in self.image.items()})


def prepare(graph: Graph, name: str | None = None) -> Copied:
    """Copy `graph` with fused ops replaced by their bodies, bodies within bodies included."""
    copied = expand_nodes(graph, _is_fused, name)
    while any(_is_fused(node) for node in copied.graph.nodes):
        copied = copied.then(expand_nodes(copied.graph, _is_fused, name))
    return copied


def prepare_for_autodiff(graph: Graph) -> Graph:
    """Return `graph` as the transformations see it: without fused ops."""
    return prepare(graph).graph


def expand_nodes(graph: Graph, chosen: Callable[[Node], bool], name: str | None = None) -> Copied:
    """Copy `graph` with the `chosen` nodes replaced by their formulas."""
    copy = Graph(name or graph.name)
    image: dict[Value, Value] = {}
    for node in graph.nodes:
        formula = formula_of(node.op) if chosen(node) else None
        if formula is None:
            copy.copy_node(node, image)
            continue
        with copy.attributed(node.source):
            operands = [image[operand] for operand in node.operands]
            results = spread(formula(*operands, **node.attrs.as_dict()), len(node.results))
        image.update(zip(node.results, present(results), strict=True))
    set_outputs_like(graph, copy, image)
    return Copied(copy, image)


def set_outputs_like(graph: Graph, copy: Graph, image: Mapping[Value, Value], *more: Value) -> None:
    """Give `copy` the outputs of `graph`, then `more`; donations keep their positions."""
    donated = {
        copy.leaf(name): image[graph.outputs[position]]
        for name, position in graph.donations.items()
    }
    copy.set_outputs((*(image[output] for output in graph.outputs), *more), donated=donated)


def _is_fused(node: Node) -> bool:
    return node.op.has(Trait.FUSED) and formula_of(node.op) is not None
