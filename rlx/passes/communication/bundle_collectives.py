"""Bucketing of all-reduces: small ones over the same ranks become one, as latency dominates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.shape import Extent, product
from rlx.passes.ordering import sorted_by_need
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged

SMALL_BYTES = 1 << 16
"""An array up to here is bundled: a copy of it takes less than the latency it saves.

A message between processes of one machine takes about 1 us and 5 GB/s; over a network 2 to 20 us.
"""
BUNDLE_BYTES = 1 << 20
"""A bundle grows no larger, so that the first one leaves while the next is computed."""

Bundle = list[Node]


@graph_pass
def bundle_collectives(graph: Graph) -> Rewritten:
    """Join the operands of small, independent `all_reduce`s.

    %3: f32[4] = all_reduce %1       %3: f32[6] = concat %1, %2
    %4: f32[2] = all_reduce %2  ->   %4: f32[6] = all_reduce %3
                                     %5: f32[4] = narrow %4 {0, 4} ...
    """
    bundles = [bundle for bundle in _bundles(graph) if len(bundle) > 1]
    if not bundles:
        return unchanged(graph)
    bundle_of = {node: bundle for bundle in bundles for node in bundle}
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in _ordered(graph, bundle_of):
        if node in bundle_of:
            _append(target, bundle_of[node], value_map)
        else:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map)


def _bundles(graph: Graph) -> list[Bundle]:
    """Group by what is folded over whom, and by how many sums came before on the way.

    Sums of one depth do not depend on each other, and a bundle depends on lower ones alone.
    """
    depth: dict[Node, int] = {}
    open_bundles: dict[Hashable, Bundle] = {}
    closed: list[Bundle] = []
    for node in graph.nodes:
        before = max((depth[operand.node] for operand in node.operands), default=0)
        bundled = _is_small(node)
        depth[node] = before + bundled
        if bundled:
            key = (node.attrs, node.operands[1:], node.operands[0].dtype, before)
            bundle = open_bundles.setdefault(key, [])
            if sum(map(_bytes, bundle)) + _bytes(node) > BUNDLE_BYTES:
                closed.append(bundle)
                bundle = open_bundles[key] = []
            bundle.append(node)
    return [*closed, *open_bundles.values()]


def _is_small(node: Node) -> bool:
    return node.op is ops.all_reduce and len(node.operands) == 2 and 0 < _bytes(node) <= SMALL_BYTES


def _bytes(node: Node) -> int:
    """Return the size of an operand; 0 for one that is known only at the call."""
    type = node.operands[0].type
    elements = type.elements
    return elements * type.dtype.size if isinstance(elements, int) else 0


def _ordered(graph: Graph, bundle_of: dict[Node, Bundle]) -> list[Node]:
    """Sort nodes so that a bundle, at the place of its last member, comes as a whole."""
    last = {node: bundle[-1] for node, bundle in bundle_of.items()}
    needed: dict[Node, set[Node]] = {}
    for node in graph.nodes:
        sources = {last.get(operand.node, operand.node) for operand in node.operands}
        needed.setdefault(last.get(node, node), set()).update(sources)
    return sorted_by_need([node for node in graph.nodes if last.get(node, node) is node], needed)


def _append(target: Graph, bundle: Sequence[Node], value_map: dict[Value, Value]) -> None:
    """Append one sum in place of those of `bundle`, and its parts."""
    first = bundle[0]
    operands = [value_map[node.operands[0]] for node in bundle]
    with target.attributed(first.source, first.scope):
        flat = [ops.reshape(x, shape=(product(x.shape),)) for x in operands]
        joined = ops.concat(*flat, axis=0)
        ranks = [value_map[operand] for operand in first.operands[1:]]
        (total,) = target.append(ops.all_reduce, (joined, *ranks), first.attrs)
        start: Extent = 0
        for node, part in zip(bundle, flat, strict=True):
            own = ops.narrow(total, axis=0, start=start, length=part.shape[0])
            value_map[node.result] = ops.reshape(own, shape=node.result.shape)
            start += part.shape[0]
