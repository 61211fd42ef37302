"""Known zeros: the number of terms of each element that have no structural zero as a factor."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.reference import fold as evaluate_node

Terms = NDArray[Any]


def has_known_zeros(graph: Graph) -> bool:
    """True if a constant or a pad of a graph has absent entries."""
    return any(getattr(node.attrs, "structural", False) for node in graph.nodes)


def count_live_terms(nodes: Iterable[Node]) -> dict[Value, Terms]:
    """Return how many terms each element of each node's result is computed from, 0 for known zeros.

    Elements of products and sums have as many as both factors are live in; others have one.
    `nodes` are in order; what is computed elsewhere has no known zeros, unless it is a constant.
    """
    found: dict[Value, Terms] = {}
    for node in nodes:
        for operand in node.operands:
            if operand not in found and operand.op is ops.constant:
                found[operand] = _terms(operand.node, found)
        found[node.result] = _terms(node, found)
    return found


def _terms(node: Node, found: Mapping[Value, Terms]) -> Terms:
    shape = node.result.type.static_shape
    if not node.result.dtype.is_float:
        return np.ones(shape)
    if node.op is ops.constant:
        array = node.attribute("value").array
        return (array != 0) + 0.0 if node.attribute("structural") else np.ones(shape)
    live = [_live(operand, found) for operand in node.operands]
    if node.op.has(Trait.ELEMENTWISE):
        return np.broadcast_to(_elementwise(node, live), shape)
    is_unknown_pad = node.op is ops.pad and not node.attribute("structural")
    is_linear = node.op.has(Trait.LINEAR) or node.op.has(Trait.BILINEAR)
    if not is_linear or is_unknown_pad or (all(map(np.all, live)) and node.op.has(Trait.MOVEMENT)):
        return np.ones(shape)
    arrays = [x.astype(each.dtype.numpy) for x, each in zip(live, node.operands, strict=True)]
    terms = evaluate_node(node, arrays)[0].astype(np.float64)
    return np.ceil(terms)  # a mean has a part of one


def _live(value: Value, found: Mapping[Value, Terms]) -> Terms:
    terms = found.get(value)
    return np.ones(value.type.static_shape) if terms is None else (terms != 0) + 0.0


def _elementwise(node: Node, live: list[Terms]) -> Terms:
    if node.op is ops.div:
        return live[0]
    if node.op.has(Trait.BILINEAR):
        return live[0] * live[1]
    if node.op.has(Trait.LINEAR) or node.op is ops.cast:
        return functools.reduce(np.maximum, live)
    return np.ones(())
