"""Preparation for differentiation: fused ops are replaced by their bodies.

    %y = fused %x {body = ...}        ->        the nodes of the body

So do patterns of ops that have a derivative as one op only, by passes that packages of ops register
(`before_autodiff`).

Everything else is differentiated as it is, through rules or formulas (`sweep`). The map
from old to new values is kept, so that `wrt` still means what it meant.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.singular import remove_singularities
from rlx.passes.rewrite import GraphPass, Rewritten, ValueMap, copy_node, is_leaf
from rlx.passes.rewrites.unfuse import unfuse

_PASSES: list[GraphPass] = []


def before_autodiff(graph_pass: GraphPass) -> GraphPass:
    """Register a pass that graphs go through before they are differentiated."""
    _PASSES.append(graph_pass)
    return graph_pass


def prepare(graph: Graph, name: str, wrt: Iterable[Value] = ()) -> Rewritten:
    """Copy `graph`, without fused ops, into a new graph called `name`, which may grow.

    Roots are not taken out of the path to a value in `wrt` that is no leaf.
    """
    unfused = functools.reduce(Rewritten.then, _PASSES, unfuse.rewrite(graph))
    if all(is_leaf(value.node) for value in wrt):
        unfused = unfused.then(remove_singularities)
    copy, moved = Graph(name), dict[Value, Value]()
    for node in unfused.graph.nodes:
        copy_node(copy, node, moved)
    set_outputs_like(unfused.graph, copy, moved)
    return Rewritten(
        copy, {old: moved[new] for old, new in unfused.value_map.items() if new in moved}
    )


def prepare_for_autodiff(graph: Graph) -> Graph:
    """Return `graph` as the transformations see it: without fused ops."""
    return functools.reduce(Rewritten.then, _PASSES, unfuse.rewrite(graph)).graph


def set_outputs_like(graph: Graph, copy: Graph, value_map: ValueMap, *more: Value) -> None:
    """Give `copy` the outputs of `graph`, then `more`, and its leaves the same roles."""
    copy.set_outputs((*(value_map[output] for output in graph.outputs), *more))
    copy.take_roles(graph)
