"""Preparation for differentiation: fused ops give way to their bodies.

    %y = fused %x {body = ...}        ->        the nodes of the body

Stages of a rendering become one op, which has a derivative (`fuse_decomposed_gaussian_splat`).

Everything else is differentiated as it is, through rules or formulas (`sweep`). The map
from old to new values is kept, so that `wrt` still means what it meant.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlx.ir.graph import Graph, Value
from rlx.passes.autodiff.singular import remove_singularities
from rlx.passes.rewrite import Rewritten, ValueMap, copy_node, is_leaf
from rlx.passes.rewrites.fuse_decomposed_gaussian_splat import fuse_decomposed_gaussian_splat
from rlx.passes.rewrites.unfuse import unfuse


def prepare(graph: Graph, name: str, wrt: Iterable[Value] = ()) -> Rewritten:
    """Copy `graph`, without fused ops, into a new graph called `name`, which may grow.

    Roots are not taken out of the path to a value in `wrt` that is no leaf.
    """
    unfused = unfuse.rewrite(graph).then(fuse_decomposed_gaussian_splat)
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
    """Return `graph` as the transformations see it: without fused ops, renderings whole."""
    return fuse_decomposed_gaussian_splat(unfuse(graph))


def set_outputs_like(graph: Graph, copy: Graph, value_map: ValueMap, *more: Value) -> None:
    """Give `copy` the outputs of `graph`, then `more`, and its leaves the same roles."""
    copy.set_outputs((*(value_map[output] for output in graph.outputs), *more))
    copy.take_roles(graph)
