"""What makes loops lean, in order; nothing happens to graphs without loops."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.passes.common_subexpressions import common_subexpressions
from rlx.passes.hoist_invariants import hoist_invariants
from rlx.passes.merge_loops import merge_loops
from rlx.passes.prune_loops import prune_loops
from rlx.passes.rewrite import Rewritten, graph_pass, unchanged
from rlx.passes.simplify import simplify

_PASSES = (
    merge_loops,  # first: what is dead in one loop may be live in its twin
    hoist_invariants,
    prune_loops,
    simplify,  # what left a loop meets what was outside
    common_subexpressions,
)


@graph_pass
def tidy_loops(graph: Graph) -> Rewritten:
    """Merge, hoist, prune, and simplify again; requires common subexpressions to be one."""
    done = unchanged(graph)
    if any(node.op in (ops.scan, ops.while_loop, ops.switch) for node in graph.nodes):
        for following in _PASSES:
            done = done.then(following)
    return done
