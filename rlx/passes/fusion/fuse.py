"""Fusion: the pass that makes one kernel of several nodes.

Which nodes join is decided in `claims`, what a node costs and whether it fits in `policy`, that
a claim leaves the graph acyclic in `groups`; bodies are built in `bodies`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.passes.fusion.bodies import contract
from rlx.passes.fusion.claims import Claims
from rlx.passes.fusion.groups import Groups
from rlx.passes.fusion.missed import missed_fusions
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.reasons import MissedFusion
from rlx.passes.fusion.recompute import find_recomputed
from rlx.passes.rewrite import (
    GraphPass,
    Rewritten,
    copy_node,
    finish,
    map_bodies,
    unchanged,
)
from rlx.passes.rewrites.dead_code import dead_code


def fuse(
    policy: FusionPolicy | None = None, *, seen: Callable[[MissedFusion], None] | None = None
) -> GraphPass:
    """Return the pass that forms `fused` nodes; their contract is in `rlx.ir.ops.fused`.

        %3: f32[8, 4] = matmul %0, %1
        %4: f32[8, 4] = add %3, %2       ->      %3: f32[8, 4] = fused %0, %1, %2 {body = ...}
        %5: f32[8, 4] = relu %4

    Requires decomposed ops. Nothing costly is computed twice, and a value that others read
    becomes a further result of its fusion. `seen` is called with what was not fused.
    """
    chosen = policy or FusionPolicy()

    def form(graph: Graph) -> Rewritten:
        live = dead_code.rewrite(graph)
        return live.then(GraphPass("fuse", contracted))

    def contracted(graph: Graph) -> Rewritten:
        groups = Groups(graph, find_recomputed(graph, chosen))
        claims = Claims(groups, chosen)
        claims.run()
        if seen is not None:
            for missed in missed_fusions(claims):
                seen(missed)
        return contract(groups, chosen)

    return over_bodies("fuse", form, inspect.getdoc(fuse) or "")


def _holds_nodes(node: Node) -> bool:
    return node.op.has(Trait.CONTROL) and not node.is_one_kernel


def over_bodies(name: str, form: Callable[[Graph], Rewritten], doc: str) -> GraphPass:
    """Return the pass that applies `form` to the bodies of loops and branches, then to the graph.

    Bodies of bodies come before these.
    """

    def run(graph: Graph) -> Rewritten:
        return unchanged(graph).then(inner).then(GraphPass(name, form))

    inner = GraphPass(name, lambda graph: _with_bodies(graph, lambda body: run(body).graph))
    return GraphPass(name, run, doc)


def _with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Rewritten:
    """Change the bodies of loops and branches, which are graphs of their own."""
    changed = {node: map_bodies(node.attrs, change) for node in graph.nodes if _holds_nodes(node)}
    if all(attrs is node.attrs for node, attrs in changed.items()):
        return unchanged(graph)
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for node in graph.nodes:
        copy_node(target, node, value_map, attrs=changed.get(node))
    finish(target, graph, value_map)
    return Rewritten(target, value_map)
