"""Products with weights: those of an activation by a param that nothing else reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait
from rlx.ir.reference.interpreter import fold
from rlx.passes.phases import setup_nodes
from rlx.passes.rewrite import ancestors, copy_node, finish
from rlx.quantization.report import Layer

Array = NDArray[Any]
Scales = NDArray[np.float32]
_PRODUCTS = (ops.matmul, ops.conv)


@dataclass(frozen=True, slots=True)
class Site:
    """A product of an activation by a param."""

    node: Node
    weights: str

    @property
    def activation(self) -> Value:
        return self.node.operands[0]

    @property
    def outputs_axis(self) -> int:
        """Which axis of the weights has a scale for each index."""
        return 1 if self.node.op is ops.matmul else 0

    @property
    def inputs_axis(self) -> int | None:
        """The axis of the weights along channels; None where groups have their own."""
        if self.node.op is ops.matmul:
            return 0
        return 1 if self.node.attribute("groups") == 1 else None

    @property
    def channels(self) -> int:
        """The axis of the activation whose indices are channels."""
        return self.activation.rank - 1 if self.node.op is ops.matmul else 1

    def scaled(self, w: Array, scales: Scales) -> Array:
        """Return the weights times the scales of their channels."""
        if self.inputs_axis is None or len(scales) == 1:
            return np.asarray(w * scales[0])
        scaled: Array = w * along(scales, self.inputs_axis, w.ndim)
        return scaled


def along(vector: Scales, axis: int, rank: int) -> Scales:
    """Return a vector in the shape that broadcasts along `axis`."""
    shape = [1] * rank
    shape[axis] = -1
    return vector.reshape(shape)


def sites_of(graph: Graph) -> tuple[list[Site], list[Layer]]:
    """Return the products that have weights, and what the report says of all others."""
    readers = _readers(graph)
    found, others = [], []
    for node in graph.nodes:
        if node.op not in _PRODUCTS:
            continue
        reason = _obstacle(node, readers)
        if reason:
            title = str(node.operands[1].node.name or node.result.label)
            others.append(Layer(title, node.op.name, 0.0, 0.0, 0, False, reason))
        else:
            found.append(Site(node, str(node.operands[1].node.name)))
    return found, others


def _obstacle(node: Node, readers: Mapping[Value, int]) -> str:
    """Return why a product has no weights to round, or nothing."""
    x, w = node.operands
    if x.dtype is not DType.F32:
        return f"its dtype is {x.dtype}"
    if w.op not in (ops.param, ops.constant):
        return "both operands are activations"
    if readers[w] > 1:
        return "its weights are read elsewhere too"
    if w.type.elements == 0:
        return "its weights are empty"
    if node.op is ops.matmul and w.rank != 2:
        return "its weights are a stack of matrices"
    return ""


def _readers(graph: Graph) -> Counter[Value]:
    read = [operand for node in graph.nodes for operand in node.operands]
    return Counter([*read, *graph.outputs])


@dataclass(frozen=True, slots=True)
class _Source:
    """The leaf that weights are computed from, by a chain that nothing else reads."""

    leaf: Value
    chain: tuple[Value, ...]
    """From the weights to the leaf."""


def declared_weights(graph: Graph, values: Mapping[str, Array]) -> tuple[Graph, dict[str, Array]]:
    """Return `graph` with a param for the weights of each product, as it reads them.

    %1 = transpose (param "w": f32[N, K])    ->    param "w": f32[K, N]
    %1 = mul (param "w") %scale              ->    param "w", scaled
    %1 = constant                            ->    param "weights_0"
    """
    sources = _sources(graph)
    arrays = dict(values)
    if not sources:
        return graph, arrays
    made = _computed(graph, [node.operands[1] for node in sources], values)
    gone = {value.node for source in sources.values() for value in source.chain}
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        source = sources.get(node)
        if source is not None:
            weights = node.operands[1]
            name = str(source.leaf.node.name or f"weights_{len(arrays)}")
            arrays[name] = made[weights]
            value_map[weights] = target.param(name, arrays[name].shape, DType.F32)
        if node not in gone:
            copy_node(target, node, value_map)
    finish(target, graph, value_map)
    return target, arrays


def _computed(
    graph: Graph, wanted: Sequence[Value], values: Mapping[str, Array]
) -> dict[Value, Array]:
    """Return values that depend on params and constants alone."""
    needed, found = {value.node for value in ancestors(wanted)}, dict[Value, Array]()
    for node in graph.nodes:
        if node in needed:
            known = node.op is ops.param
            arrays = [found[operand] for operand in node.operands]
            results = (np.asarray(values[str(node.name)]),) if known else fold(node, arrays)
            found |= zip(node.results, results, strict=True)
    return found


def _sources(graph: Graph) -> dict[Node, _Source]:
    """Return, for products whose weights are not a param as they read it, where these are."""
    readers, fixed = _readers(graph), setup_nodes(graph)
    found = {}
    for node in graph.nodes:
        if node.op in _PRODUCTS and (source := _source(node.operands[1], readers, fixed)):
            found[node] = source
    return found


def _source(
    weights: Value, readers: Mapping[Value, int], fixed: Collection[Node]
) -> _Source | None:
    """Follow what has as many elements as the weights to a leaf; each is read once."""
    chain = [weights]
    while not chain[-1].op.has(Trait.LEAF):
        value = chain[-1]
        alike = [o for o in value.node.operands if o.type.elements == weights.type.elements]
        if not alike or len(value.node.results) != 1 or value.node not in fixed:
            return None
        chain.append(alike[0])
    leaf = chain[-1]
    moved = leaf.op is ops.constant or (leaf.op is ops.param and leaf is not weights)
    alone = all(readers[value] == 1 for value in chain)
    if not (alone and moved and leaf.dtype is weights.dtype is DType.F32):
        return None
    return _Source(leaf, tuple(chain))
