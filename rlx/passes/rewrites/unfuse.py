"""Fused ops back to what they were made of, for transforms and for backends without them."""

from __future__ import annotations

from rlx.ir.graph import Graph, Node
from rlx.ir.op import Trait
from rlx.passes.rewrite import Replacement, Rewritten, apply_rewrites, graph_pass, rewrite
from rlx.passes.rewrites.decompose import expand_formula


@graph_pass
def unfuse(graph: Graph) -> Rewritten:
    """Replace every op made by fusion by its body or formula.

    %1: f32[4] = fused %0 {body = exp, neg}     ->      %1: f32[4] = exp %0
                                                        %2: f32[4] = neg %1
    """
    return apply_rewrites(graph, [_fused_op])


@rewrite()
def _fused_op(node: Node) -> Replacement:
    return expand_formula(node) if node.op.has(Trait.FUSED) else None
