"""Regions: connected, convex sets of nodes that become one node with a body."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OpDef, Trait, make_attrs
from rlx.passes.fusion.policy import is_literal
from rlx.passes.ordering import sorted_by_need
from rlx.passes.rewrite import Rewritten, copy_node, finish
from rlx.passes.rewrites.decompose import expand_pointwise


def connected(
    graph: Graph,
    kinds: Mapping[Node, Hashable],
    joins: Callable[[Value, Node], bool] = lambda _, __: True,
) -> list[list[Node]]:
    """Return the connected parts of the nodes of each kind between which no other node is.

    `joins` says whether a node may be in one region with an operand of its kind. Each node has a
    rank: how often a path to it changes its kind, or passes such an operand. Nodes of one kind and
    rank are convex, and so is each connected part of them.
    """
    ranks: dict[Node, int] = {}
    parent: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while parent[node] is not node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for node in graph.nodes:
        kind = kinds.get(node)
        sources = [o for o in node.operands if not o.op.has(Trait.LEAF)]
        apart = [kinds.get(o.node) != kind or not (kind is None or joins(o, node)) for o in sources]
        pairs = zip(sources, apart, strict=True)
        ranks[node] = max((ranks[o.node] + is_apart for o, is_apart in pairs), default=0)
        if kind is not None:
            parent[node] = node
            for operand, is_apart in zip(sources, apart, strict=True):
                if not is_apart and ranks[operand.node] == ranks[node]:
                    parent[root(operand.node)] = root(node)
    parts: dict[Node, list[Node]] = {}
    for node in parent:
        parts.setdefault(root(node), []).append(node)
    return list(parts.values())


def contracted(
    graph: Graph, regions: Sequence[Sequence[Node]], op: OpDef, largest_constant: int = 1
) -> Rewritten:
    """Return the graph with each region as one node of `op`, where its last node was.

    Constants of up to `largest_constant` elements are part of the regions that read them.
    """
    region_of = {node: number for number, region in enumerate(regions) for node in region}
    escaping = set(graph.outputs)
    for node in graph.nodes:
        here = region_of.get(node)
        escaping |= {o for o in node.operands if here is None or region_of.get(o.node) != here}
    target = Graph(graph.name)
    value_map: dict[Value, Value] = {}
    for unit in _ordered(graph, regions, region_of):
        if unit in region_of:
            region = _Region(op, regions[region_of[unit]], escaping, largest_constant)
            region.append(target, value_map)
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


@dataclass(frozen=True, slots=True)
class _Region:
    op: OpDef
    nodes: Sequence[Node]
    escaping: Collection[Value]
    """The values that are read outside of regions."""
    largest_constant: int

    def append(self, target: Graph, value_map: dict[Value, Value]) -> None:
        """Append the region as one node."""
        results = [r for node in self.nodes for r in node.results if r in self.escaping]
        operands, body = self._body(f"{target.name}_{self.op.name.partition('_')[0]}s", results)
        faults = (node for node in self.nodes if node.op.has(Trait.MAY_FAULT))
        like = next(faults, results[-1].node)
        made = target.append(
            self.op,
            [value_map[operand] for operand in operands],
            make_attrs(self.op, {"body": body}),
            name=results[-1].node.name,
            source=like.source,
            scope=like.scope,
        )
        value_map.update(zip(results, made, strict=True))

    def _body(self, name: str, results: Sequence[Value]) -> tuple[list[Value], Graph]:
        """Return what the region reads, and what it computes of that."""
        members, body, inner = set(self.nodes), Graph(name), dict[Value, Value]()
        read = dict.fromkeys(o for n in self.nodes for o in n.operands if o.node not in members)
        known = [operand for operand in read if self._is_known(operand)]
        operands = [operand for operand in read if operand not in known]
        for operand in operands:
            inner[operand] = body.input_of(_input_name(operand, body), operand.type)
        for node in (*(operand.node for operand in known), *self.nodes):
            if node.op is ops.fused:
                made = body.inline(node.attribute("body"), [inner[o] for o in node.operands])
                inner.update(zip(node.results, made, strict=True))
            else:
                body.copy_node(node, inner)
        body.outputs = tuple(inner[result] for result in results)
        return operands, expand_pointwise(body)

    def _is_known(self, operand: Value) -> bool:
        is_small = operand.type.is_static and operand.type.elements <= self.largest_constant
        return is_literal(operand.node) or (operand.op is ops.constant and is_small)


def _input_name(operand: Value, body: Graph) -> str:
    """Return the user's name of an operand, or that of its op, unique in the body."""
    word = (operand.node.name or operand.op.name).rpartition(".")[2]
    taken = {value.node.name for value in body.inputs}
    numbered = (f"{word}_{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([word], numbered) if name not in taken)
