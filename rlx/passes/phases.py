"""Phase assignment: nodes that depend on params alone run in `setup`, once after params change."""

from __future__ import annotations

from rlx.ir.graph import Graph, Node
from rlx.ir.op import Trait
from rlx.ir.symbols import attribute_symbols
from rlx.passes.effects import is_impure
from rlx.passes.rewrite import is_leaf
from rlx.passes.views import view_of

_OF_EVERY_RUN = frozenset({Trait.EXPANDS, Trait.FOREIGN})
"""Traits of what is not computed once and kept."""


def setup_nodes(graph: Graph) -> frozenset[Node]:
    """Return the nodes, constants included, that depend on params and constants only.

    What expands few bytes to many is computed anew at every run, for the memory's sake.
    A param that an output replaces in place changes at every run, so what reads it runs
    every time; so does what a donated output is computed by, for it must be written anew.
    """
    return graph.once(_setup_nodes)


def _setup_nodes(graph: Graph) -> frozenset[Node]:
    found: set[Node] = set()
    replacing = _replacing(graph)
    for node in graph.nodes:
        fixed = _is_fixed(graph, node) or _computes_fixed(node, found)
        if fixed and node not in replacing:
            found.add(node)
    return frozenset(found)


def execution_order(graph: Graph) -> list[Node]:
    """Return the nodes in the order in which they run: `setup`, then `run`."""
    first = setup_nodes(graph)
    return sorted(graph.nodes, key=lambda node: (node not in first, node.index))


def _is_fixed(graph: Graph, node: Node) -> bool:
    kept_param = node.op.name == "param" and node.name not in graph.donations
    return kept_param or node.op.name == "constant"


def _computes_fixed(node: Node, found: set[Node]) -> bool:
    if not all(operand.node in found for operand in node.operands):
        return False
    # Extents are given at the call.
    static = all(result.type.is_static for result in node.results)
    static = static and not attribute_symbols(node.attrs)
    kept = not is_leaf(node) and not is_impure(node)
    return static and kept and not node.op.traits & _OF_EVERY_RUN


def _replacing(graph: Graph) -> set[Node]:
    """Return the nodes whose results are written into a donated leaf, and views of them."""
    found: set[Node] = set()
    for position in graph.donations.values():
        node = graph.outputs[position].node
        found.add(node)
        while view_of(node) is not None:
            node = node.operands[0].node
            found.add(node)
    return {node for node in found if not node.op.has(Trait.LEAF)}
