"""Decomposition of composite ops into primitive ones, but for those with kernels of their own."""

from __future__ import annotations

from collections.abc import Collection

from rlx.ir.graph import Graph, Node
from rlx.ir.op import OPS, Trait
from rlx.passes.rewrite import GraphPass, Replacement, Rewritten, apply_rewrites, rewrite


def decompose(claimed: Collection[str] = ()) -> GraphPass:
    """Return the pass that replaces ops having a formula by it.

    Ops named in `claimed` stay, and nodes with a lowering record: their kernels are chosen.

    %1: f32[4] = silu %0     ->      %1: f32[4] = sigmoid %0
                                     %2: f32[4] = mul %0, %1
    """

    composites = [d for d in OPS.values() if d.decompose is not None and not d.has(Trait.FUSED)]
    chosen = [d for d in composites if d.name not in claimed]

    def rule(node: Node) -> Replacement:
        return expand_formula(node) if node.lowering is None else None

    by_formula = rewrite(*chosen)(rule)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [by_formula] if chosen else [])

    return GraphPass("decompose", run, "Replace ops by their formulas.")


def expand_formula(node: Node) -> Replacement:
    """Build the formula of `node`'s op on its operands; None for a primitive."""
    if node.op.decompose is None:
        return None
    built: Replacement = node.op.decompose(*node.operands, **node.attrs.as_dict())
    return built


def is_pointwise_formula(node: Node) -> bool:
    """True for an elementwise op that is a formula over others, as `gelu` is."""
    return node.op.has(Trait.ELEMENTWISE) and node.op.decompose is not None


def expand_pointwise(graph: Graph) -> Graph:
    """Return `graph` with the formulas of elementwise ops in their place.

    Such ops keep their names up to code generation, so that kernels are named after them.
    """
    if not any(is_pointwise_formula(node) for node in graph.nodes):
        return graph
    formulas = [d for d in OPS.values() if d.has(Trait.ELEMENTWISE) and d.decompose is not None]
    return apply_rewrites(graph, [rewrite(*formulas)(expand_formula)]).graph
