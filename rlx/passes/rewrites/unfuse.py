"""Unfusion: fused and lowered ops are replaced by their formulas, for transforms."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.ir.op import OPS, Trait
from rlx.passes.rewrite import Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.decompose import expand_formula


@graph_pass
def unfuse(graph: Graph) -> Rewritten:
    """Replace every op made by fusion by its body, and tensors in layouts by plain ones.

    %1: f32[4] = fused %0 {body = exp, neg}     ->      %1: f32[4] = exp %0
                                                        %2: f32[4] = neg %1
    """
    made = (d for d in OPS.values() if d.has(Trait.FUSED) or d.has(Trait.LAYOUT))
    return apply_rewrites(graph, [rewrite(*made)(expand_formula)])
