"""Scalar regions: connected parts of a graph on small arrays become one function of scalars."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence

from rlx.ir import ops
from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait, make_attrs
from rlx.ir.shape import upper
from rlx.passes.fusion.fuse import with_bodies
from rlx.passes.loops.nests import count_terms, has_elements, is_composed
from rlx.passes.lowering.phases import setup_nodes
from rlx.passes.ordering import sorted_by_need
from rlx.passes.rewrite import GraphPass, Rewritten, copy_node, finish, unchanged
from rlx.passes.rewrites.common_subexpressions import is_impure
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import expand_pointwise
from rlx.target import Target

LARGEST_VALUE = 64
"""Elements of a value: beyond, loops over arrays are shorter and vectors pay."""

LARGEST_SYSTEM = 6
"""Unknowns of a linear system whose elimination is spelled out."""

FEWEST_KERNELS = 3
"""Products, reductions and systems of a region: fewer are as fast in kernels of their own."""

_FREE = (Trait.MOVEMENT, Trait.GENERATED, Trait.VIEW)


def scalar_regions(target: Target) -> GraphPass:
    """Return the pass that forms `scalar_region` nodes within the target's budget of code.

        %4: f32[2, 2] = matmul %0, %1
        %5: f32[2, 2] = add %4, %2         ->      %6: f32[2] = scalar_region %0, %1, %2, %3
        %6: f32[2] = solve %5, %3

    Requires decomposed and simplified ops.
    """

    def form(graph: Graph) -> Rewritten:
        regions = find_regions(graph, target.scalar_budget, target.scalar_fold)
        return _contracted(graph, regions).then(dead_code) if regions else unchanged(graph)

    inner = GraphPass("scalar-regions-inner", lambda g: with_bodies(g, lambda b: form(b).graph))
    live = GraphPass("scalar-regions", form)
    return GraphPass(
        "scalar-regions",
        lambda graph: unchanged(graph).then(inner).then(live),
        scalar_regions.__doc__ or "",
    )


def find_regions(graph: Graph, budget: int, largest_fold: int) -> list[list[Node]]:
    """Return the regions that are worth it: convex, connected, of `budget` operations at most.

    No node of theirs sums more than `largest_fold` terms.
    """
    hoisted = setup_nodes(graph) if graph.params else frozenset[Node]()
    small = {node for node in graph.nodes if node not in hoisted and _is_small(node, largest_fold)}
    if sum(map(_is_kernel, small)) < FEWEST_KERNELS:
        return []
    found = _connected(graph, small)
    return [region for region in found if _pays(region, budget)]


def _is_small(node: Node, largest_fold: int) -> bool:
    """True for a node whose elements are computed one by one, few of them."""
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
    if not 0 < math.prod(result.type.static_shape) <= LARGEST_VALUE:
        return False
    if not all(map(_is_readable, node.operands)):
        return False
    if fold_map(node) is not None and (
        any(x.type.elements > LARGEST_VALUE for x in node.operands)
        or result.type.elements * count_terms(node) > largest_fold
    ):
        return False  # loops over rows read it in vectors
    return _is_small_system(node) or has_elements(node)


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


def count_operations(node: Node) -> int:
    """Return the scalar operations of a node, none of whose elements is known."""
    elements = math.prod(node.result.type.static_shape)
    if node.op is ops.solve:
        unknowns = int(node.operands[0].type.static_shape[-1])
        return unknowns * unknowns * (unknowns + elements // unknowns)
    if fold_map(node) is not None:
        return elements * count_terms(node)
    return 0 if any(map(node.op.has, _FREE)) else elements


def _connected(graph: Graph, small: Collection[Node]) -> list[list[Node]]:
    """Return the connected parts of the small nodes between which no other node is.

    Each node has a rank: how often a path to it changes between small nodes and others. Small nodes
    of one rank are convex, and so is each connected part of them.
    """
    ranks: dict[Node, int] = {}
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in graph.nodes:
        is_small = node in small
        sources = [o.node for o in node.operands if not o.op.has(Trait.LEAF)]
        ranks[node] = max((ranks[s] + ((s in small) != is_small) for s in sources), default=0)
        if is_small:
            parent[node] = node
            for source in sources:
                if source in small and ranks[source] == ranks[node]:
                    parent[root(source)] = root(node)
    parts: dict[Node, list[Node]] = {}
    for node in parent:
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())


def _contracted(graph: Graph, regions: Sequence[Sequence[Node]]) -> Rewritten:
    """Return the graph with each region as one node, where its last node was."""
    region_of = {node: number for number, region in enumerate(regions) for node in region}
    escaping = set(graph.outputs)
    for node in graph.nodes:
        here = region_of.get(node)
        escaping |= {o for o in node.operands if here is None or region_of.get(o.node) != here}
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for unit in _ordered(graph, regions, region_of):
        if unit in region_of:
            _append_region(target, regions[region_of[unit]], escaping, value_map)
        else:
            copy_node(target, unit, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _ordered(
    graph: Graph, regions: Sequence[Sequence[Node]], region_of: Mapping[Node, int]
) -> list[Node]:
    """Return all nodes in order, the last one of each region in the place of all of its nodes."""
    last = {n: regions[region_of[n]][-1] if n in region_of else n for n in graph.nodes}
    units = [node for node in graph.nodes if last[node] is node]
    needed: dict[Node, set[Node]] = {unit: set() for unit in units}
    for node, unit in last.items():
        needed[unit] |= {last[operand.node] for operand in node.operands} - {unit}
    return sorted_by_need(units, needed)


def _append_region(
    target: Graph,
    region: Sequence[Node],
    escaping: Collection[Value],
    value_map: dict[Value, Value],
) -> None:
    """Append a region as one node; `escaping` are the values that are read outside of regions."""
    members = set(region)
    body, inner = Graph(f"{target.name}_scalars"), dict[Value, Value]()
    read = dict.fromkeys(o for node in region for o in node.operands if o.node not in members)
    known = [o for o in read if o.op is ops.constant and o.type.elements <= LARGEST_VALUE]
    operands = [operand for operand in read if operand not in known]
    for operand in operands:
        inner[operand] = body.input_of(_input_name(operand, body), operand.type)
    for node in (*(operand.node for operand in known), *region):
        body.copy_node(node, inner)
    results = [node.result for node in region if node.result in escaping]
    body.outputs = tuple(inner[result] for result in results)
    body = expand_pointwise(body)
    like = next((node for node in region if node.op.has(Trait.MAY_FAULT)), results[-1].node)
    made = target.append(
        ops.scalar_region,
        [value_map[operand] for operand in operands],
        make_attrs(ops.scalar_region, {"body": body}),
        name=results[-1].node.name,
        source=like.source,
        scope=like.scope,
    )
    value_map.update(zip(results, made, strict=True))


def _input_name(operand: Value, body: Graph) -> str:
    """Return the user's name of an operand, or that of its op, unique in the body."""
    word = (operand.node.name or operand.op.name).rpartition(".")[2]
    taken = {value.node.name for value in body.inputs}
    numbered = (f"{word}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([word], numbered) if name not in taken)
