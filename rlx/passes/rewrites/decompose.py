"""Decomposition of composite ops into primitive ones, but for those with kernels of their own."""

from __future__ import annotations

from collections.abc import Container
from contextlib import nullcontext

from rlx.ir.graph import Graph, Node
from rlx.ir.op import OpDef, Trait
from rlx.passes.rewrite import GraphPass, LocalRewrite, Replacement, Rewritten, apply_rewrites


def decompose(claimed: Container[str] = (), but: Container[str] = ()) -> GraphPass:
    """Return the pass that replaces ops having a formula by it.

    Ops named in `claimed` stay, but for those in `but`, and nodes with a lowering record: their
    kernels are chosen.

    %1: f32[4] = silu %0     ->      %1: f32[4] = sigmoid %0
                                     %2: f32[4] = mul %0, %1
    """

    def is_expanded(definition: OpDef) -> bool:
        is_composite = definition.decompose is not None and not definition.has(Trait.FUSED)
        return is_composite and (definition.name not in claimed or definition.name in but)

    def rule(node: Node) -> Replacement:
        return expand_formula(node) if node.lowering is None else None

    by_formula = LocalRewrite(is_expanded, rule)

    def run(graph: Graph) -> Rewritten:
        return apply_rewrites(graph, [by_formula])

    return GraphPass("decompose", run, "Replace ops by their formulas.")


def expand_formula(node: Node) -> Replacement:
    """Build the formula of `node`'s op on its operands; None for a primitive.

    Nodes of a formula that may fail are in the scope of the op, so that errors name it.
    """
    if node.op.decompose is None:
        return None
    fails = node.op.has(Trait.MAY_FAULT)
    with node.operands[0].graph.scope(node.op.name) if fails else nullcontext():
        built: Replacement = node.op.decompose(*node.operands, **node.attrs.as_dict())
    return built


def is_pointwise_formula(definition: OpDef) -> bool:
    """True for an elementwise op that is a formula over others, as `gelu` is."""
    return definition.has(Trait.ELEMENTWISE) and definition.decompose is not None


def expand_pointwise(graph: Graph) -> Graph:
    """Return `graph` with the formulas of elementwise ops in their place.

    Such ops keep their names up to code generation, so that kernels are named after them.
    """
    return apply_rewrites(graph, [LocalRewrite(is_pointwise_formula, expand_formula)]).graph
