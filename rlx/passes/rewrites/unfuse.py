"""Unfusion: fused and lowered ops are replaced by their formulas, for transforms."""

from __future__ import annotations

from rlx.ir.graph import Graph
from rlx.ir.op import OpDef, Trait
from rlx.passes.rewrite import LocalRewrite, Rewritten, apply_rewrites, graph_pass
from rlx.passes.rewrites.decompose import expand_formula


@graph_pass
def unfuse(graph: Graph) -> Rewritten:
    """Replace every op made by fusion by its body, and tensors in layouts by plain ones.

    %1: f32[4] = fused %0 {body = exp, neg}     ->      %1: f32[4] = exp %0
                                                        %2: f32[4] = neg %1
    """
    return apply_rewrites(graph, [LocalRewrite(_is_made_by_passes, expand_formula)])


def _is_made_by_passes(definition: OpDef) -> bool:
    return definition.has(Trait.FUSED) or definition.has(Trait.LAYOUT)
