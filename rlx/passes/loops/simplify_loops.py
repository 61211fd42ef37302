"""Loop simplification: the passes over loops in their order; graphs without loops stay as is."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.ir.op import Trait
from rlx.passes.loops.empty_loops import drop_empty_loops
from rlx.passes.loops.invariant_code_motion import loop_invariant_code_motion
from rlx.passes.loops.loop_cse import loop_cse
from rlx.passes.loops.loop_dead_code import loop_dead_code
from rlx.passes.rewrite import Rewritten, graph_pass, unchanged
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.simplify import simplify

_PASSES = (
    drop_empty_loops,
    loop_cse,  # first: what is dead in one loop may be live in its twin
    loop_invariant_code_motion,
    loop_dead_code,
    simplify,  # what left a loop simplifies with what was outside
    common_subexpressions,
)


@graph_pass
def simplify_loops(graph: Graph) -> Rewritten:
    """Merge, hoist, prune, and simplify again; requires common subexpressions to be one."""
    done = unchanged(graph)
    if any(node.op.has(Trait.CONTROL) for node in graph.nodes):
        for following in _PASSES:
            done = done.then(following)
    return done
