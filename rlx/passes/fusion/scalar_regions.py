"""Scalar regions: connected parts of a graph on small arrays become one function of scalars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rlx.ir import ops
from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import upper
from rlx.passes.effects import is_impure
from rlx.passes.fusion.known_zeros import Terms, count_live_terms, has_known_zeros
from rlx.passes.fusion.regions import connected, contracted
from rlx.passes.loops.nests import count_terms, has_elements, is_composed
from rlx.passes.phases import setup_nodes
from rlx.passes.rewrite import GraphPass, Rewritten, over_bodies, unchanged
from rlx.passes.rewrites.dead_code import dead_code
from rlx.target import Target

LARGEST_VALUE = 64
"""Elements of a value: beyond, loops over arrays are shorter and vectors pay."""

LARGEST_SPARSE = 256
"""Elements of a value next to products many of whose terms have absent entries, where there are no
vectors: short loops over one axis compute it, whose terms are spelled out."""

LARGEST_SYSTEM = 6
"""Unknowns of a linear system whose elimination is spelled out."""

FEWEST_KERNELS = 3
"""Products, reductions and systems of a region: fewer are as fast in kernels of their own."""

_FREE = (Trait.MOVEMENT, Trait.GENERATED, Trait.VIEW)


def scalar_regions(target: Target, *, sparse_only: bool = False) -> GraphPass:
    """Return the pass that forms `scalar_region` nodes within the target's budget of code.

    If `sparse_only`, where there are known zeros and no vectors.

        %4: f32[2, 2] = matmul %0, %1
        %5: f32[2, 2] = add %4, %2         ->      %6: f32[2] = scalar_region %0, %1, %2, %3
        %6: f32[2] = solve %5, %3

    Requires decomposed and simplified ops.
    """

    def form(graph: Graph) -> Rewritten:
        budget, is_sparse = target.scalar_budget, not target.has_vectors
        if sparse_only and not (is_sparse and has_known_zeros(graph)):
            return unchanged(graph)
        regions = find_regions(
            graph, budget, target.scalar_fold, longest=target.scalar_axis, is_sparse=is_sparse
        )
        if not regions:
            return unchanged(graph)
        return contracted(graph, regions, ops.scalar_region, LARGEST_SPARSE).then(dead_code)

    return over_bodies("scalar-regions", form, scalar_regions.__doc__ or "")


def find_regions(
    graph: Graph,
    budget: int,
    largest_fold: int,
    *,
    longest: int = LARGEST_VALUE,
    is_sparse: bool = False,
) -> list[list[Node]]:
    """Return the regions that are worth it: convex, connected, of `budget` operations at most.

    No node of theirs sums more than `largest_fold` terms or has an axis of more than `longest`
    elements, but in regions that are sparse, where those are allowed.
    """
    hoisted = setup_nodes(graph) if graph.params else frozenset[Node]()
    nodes = [node for node in graph.nodes if node not in hoisted]
    sparse: set[Node] = set()
    if is_sparse and has_known_zeros(graph):
        sparse = {node for node in nodes if _is_small(node, LARGEST_SPARSE**2, LARGEST_SPARSE)}
    small = {
        node
        for node in nodes
        if _has_short_axes(node, longest) and _is_small(node, largest_fold, LARGEST_VALUE)
    }
    if sum(map(_is_kernel, sparse | small)) < FEWEST_KERNELS:
        return []
    found = _connected_if(graph, sparse, budget)
    kinds = {**dict.fromkeys(small, 1), **dict.fromkeys(found, 2)}
    regions = connected(graph, kinds)
    return [each for each in regions if each[0] in found or _pays(each, budget)]


def _connected_if(graph: Graph, nodes: set[Node], budget: int) -> set[Node]:
    """Return the nodes of the sparse regions that are worth it."""
    terms = count_live_terms(node for node in graph.nodes if node in nodes)
    regions = connected(graph, dict.fromkeys(nodes, True)) if nodes else []
    return {node for region in regions if _pays_sparse(region, terms, budget) for node in region}


def _is_small(node: Node, largest_fold: int, largest: int) -> bool:
    """True for a node whose elements are computed one by one, `largest` of them."""
    if (
        node.op.has(Trait.LEAF)
        or len(node.results) != 1
        or node.lowering is not None
        or is_impure(node)
    ):
        return False
    result = node.result
    if not result.type.is_static or result.type.layout is not None or is_composed(result):
        return False
    if not 0 < math.prod(result.type.static_shape) <= largest:
        return False
    if not all(map(_is_readable, node.operands)):
        return False
    if fold_map(node) is not None and (
        any(x.type.elements > largest for x in node.operands)
        or result.type.elements * count_terms(node) > largest_fold
    ):
        return False  # loops over rows read it in vectors
    return _is_small_system(node) or has_elements(node)


def _has_short_axes(node: Node, longest: int) -> bool:
    """True if no axis of a node's result, or of what it sums, is longer."""
    summed = node.operands if fold_map(node) is not None else ()
    return all(upper(extent) <= longest for x in (*node.results, *summed) for extent in x.shape)


def _is_readable(operand: Value) -> bool:
    """True for an array of machine numbers in memory."""
    static = operand.type.is_static and 0 not in operand.shape
    return static and operand.op is not ops.extent and not is_composed(operand)


def _is_small_system(node: Node) -> bool:
    if node.op is not ops.solve or node.attribute("on_singular") != "error":
        return False
    a = node.operands[0]
    return a.rank == 2 and upper(a.shape[-1]) <= LARGEST_SYSTEM


def _is_kernel(node: Node) -> bool:
    """True for what would be a kernel of its own."""
    return fold_map(node) is not None or node.op is ops.solve


def _pays(region: Sequence[Node], budget: int) -> bool:
    operations = sum(map(count_operations, region))
    return sum(map(_is_kernel, region)) >= FEWEST_KERNELS and operations <= budget


def _pays_sparse(region: Sequence[Node], terms: Mapping[Value, Terms], budget: int) -> bool:
    """True if known zeros leave out a third of the region's terms, and its code is in the budget.

    What is no product is shorter in loops: it must be less than what products leave out. Values
    with more live elements than there are locals are computed by loops over an axis.
    """
    folds = {node for node in region if fold_map(node) is not None}
    every = sum(int(node.result.type.elements) * count_terms(node) for node in folds)
    live = sum(float(np.sum(terms[node.result])) for node in folds)
    products = sum(_count_spelled(node, terms[node.result]) for node in folds)
    rest = sum(_count_spelled(node, terms[node.result]) for node in region if node not in folds)
    kernels = sum(map(_is_kernel, region))
    left_out = every - live
    pays = 3 * left_out >= every and rest <= left_out
    return kernels >= FEWEST_KERNELS and pays and products + rest <= budget


def _count_spelled(node: Node, terms: Terms) -> int:
    """Return the scalar operations in the code of a node, some of whose elements are known."""
    if node.op is ops.solve or any(map(node.op.has, _FREE)):
        return count_operations(node)
    live = int(np.sum(terms))
    return live if np.count_nonzero(terms) <= LARGEST_VALUE else live // max(terms.shape)


def count_operations(node: Node) -> int:
    """Return the scalar operations of a node, none of whose elements is known."""
    elements = math.prod(node.result.type.static_shape)
    if node.op is ops.solve:
        unknowns = int(node.operands[0].type.static_shape[-1])
        return unknowns * unknowns * (unknowns + elements // unknowns)
    if fold_map(node) is not None:
        return elements * count_terms(node)
    return 0 if any(map(node.op.has, _FREE)) else elements
