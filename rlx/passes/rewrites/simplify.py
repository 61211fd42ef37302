"""Algebraic simplification: all local rewrites, to a fixpoint."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass
from rlx.passes.rewrites.simplify_arithmetic import ARITHMETIC
from rlx.passes.rewrites.simplify_shape import MOVEMENT
from rlx.passes.rewrites.simplify_systems import SYSTEMS


@graph_pass
def simplify(graph: Graph) -> Rewritten:
    """Rewrite to fewer and cheaper nodes of the same values; never less accurate.

    %1: f32[4] = neg %0
    %2: f32[4] = neg %1      ->      return %0
    return %2
    """
    return apply_rewrites(graph, (*ARITHMETIC, *MOVEMENT, *SYSTEMS))
