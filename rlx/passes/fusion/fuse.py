"""Fusion: the pass that makes one kernel of several nodes.

Which nodes join is decided in `claims`, what a node costs and whether it fits in `policy`, that
a claim leaves the graph acyclic in `groups`; bodies are built in `bodies`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from rlx.ir.graph import Graph
from rlx.passes.fusion.bodies import contract
from rlx.passes.fusion.claims import Claims
from rlx.passes.fusion.groups import Groups
from rlx.passes.fusion.missed import missed_fusions
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.reasons import MissedFusion
from rlx.passes.fusion.recompute import find_recomputed
from rlx.passes.rewrite import GraphPass, Rewritten, over_bodies
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
