"""Layout assignment (NHWC): channels last where convolutions follow each other.

    %2 = conv %0, %1                        %2 = transpose %0
    %3 = relu %2                     ->     %3 = stored_conv %2, %w
    %5 = conv %3, %4 {single taps}          %4 = relu %3
                                            %5 = matmul %4, %v
                                            %6 = transpose %5

With channels last, a convolution is a product whose rows are positions: single taps need no
packing of pixels, tiles are not transposed before they are stored, and rows of a few positions
waste no lanes. Elementwise work, pooling, means of pixels, padding, slices and concatenations
between convolutions get channels last, too, so that images are transposed only where they enter and
leave. That is decided for every connected part of
the graph: its convolutions must save more bytes of packing and transposing than are transposed at
its edges. Weights are transposed in `setup`: only convolutions by params and constants take part.
Requires formulas to be spelled out; run it before tiles are chosen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import field

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.dtype import DType
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Attrs, Trait, make_attrs
from rlx.ir.ops.conv_geometry import attributes_of
from rlx.ir.ops.stored_conv import channels_to_back, channels_to_front, taps_to_front
from rlx.ir.shape import Shape, normalize_axis, product, upper
from rlx.passes.layout.convolution_tiles import LEAST_WORK, is_pointwise, sliding_of
from rlx.passes.layout.winograd_tiles import choose_winograd, images_of, sums_integers
from rlx.passes.phases import setup_nodes
from rlx.passes.rewrite import GraphPass, Rewritten, copy_node, finish, unchanged
from rlx.passes.rewrites.dead_code import dead_code
from rlx.target import Target

_LEAST_RANK = 3
_PER_AXIS = (ops.pad, ops.slice)
"""Ops whose attributes have an entry for every axis."""

_ALONG_AXIS = (ops.concat, ops.narrow)

_JOIN = 1.5
"""What a joined byte costs, in bytes packed: measured, DenseNet-121 loses and SqueezeNet gains."""


_TRANSPOSED = 2.0
"""Bytes that are transposed in a cycle."""


def channels_last(target: Target) -> GraphPass:
    """Return the pass for `target`: without vectors nothing is gained."""

    def run(graph: Graph) -> Rewritten:
        if target.lanes(DType.F32.size) < 2 or not any(n.op is ops.conv for n in graph.nodes):
            return unchanged(graph)
        moved = _moved(graph, target)
        return _Mover(moved).run(graph).then(dead_code) if moved else unchanged(graph)

    return GraphPass("channels-last", run, __doc__ or "")


# Which nodes


def _moved(graph: Graph, target: Target) -> set[Node]:
    """Return the nodes that are computed with channels last."""
    fixed = setup_nodes(graph)
    able = {n for n in graph.nodes if n not in fixed and _is_able(n, fixed, target)}
    parts = _parts(graph, able)
    readers: dict[Value, set[Node]] = defaultdict(set)
    for node in graph.nodes:
        for operand in node.operands:
            readers[operand].add(node)
    gains = (part for part in parts if _saved(part, target) > _transposed(part, readers, graph))
    return {node for part in gains for node in part}


def _is_able(node: Node, fixed: frozenset[Node], target: Target) -> bool:
    """True if `node` can be computed with channels last as well as it is."""
    if len(node.results) != 1 or node.lowering is not None or node.result.rank < _LEAST_RANK:
        return False
    if node.op is ops.conv:
        return node.operands[1].node in fixed and _has_tiles(node, target)
    if node.op.has(Trait.WINDOWED):
        given = len(node.attribute("kernel_size"))
        return node.attribute("inner") == 0 and given == node.result.rank - 2
    if node.op in _PER_AXIS or node.op in _ALONG_AXIS:
        return True
    if node.op.folds_values:  # of the pixels of each channel: still an image
        return bool(node.attribute("keepdims")) and min(_axes(node), default=0) > 1
    return node.op.has(Trait.ELEMENTWISE) and node.result.dtype.is_float


def _axes(node: Node) -> list[int]:
    return [normalize_axis(axis, node.operands[0].rank) for axis in node.attribute("axes")]


def _has_tiles(node: Node, target: Target) -> bool:
    """True for known channels and taps that fill a vector, with enough work.

    All channels are one group, or each is a group of its own.
    """
    x, w = node.operands
    known = all(isinstance(extent, int) for extent in w.shape)
    if x.dtype not in (DType.F32, DType.F64) or not known:
        return False
    if node.attribute("groups") != 1 and not _is_depthwise(node):
        return False
    if any(axis.input_dilation > 1 or min(axis.low, axis.high) < 0 for axis in sliding_of(node)):
        return False
    lanes = target.lanes(x.dtype.size)
    work = upper(product((*node.result.shape, *w.shape[1:])))
    return lanes > 1 and upper(w.shape[0]) >= lanes and work >= LEAST_WORK


def _is_depthwise(node: Node) -> bool:
    """True if each channel is a group, in images of known extents."""
    x, w = node.operands
    static = all(isinstance(extent, int) for extent in x.shape[1:])
    return static and x.shape[1] == w.shape[0] == node.attribute("groups")


def _parts(graph: Graph, able: set[Node]) -> list[set[Node]]:
    """Return the connected parts of `able`: what hands images on to each other."""
    above: dict[Node, Node] = {}

    def root(node: Node) -> Node:
        while above[node] is not node:
            above[node] = above[above[node]]
            node = above[node]
        return node

    for node in graph.nodes:
        if node in able:
            above[node] = node
            for operand in _images(node):
                if operand.node in able:
                    above[root(operand.node)] = node
    parts: dict[Node, set[Node]] = defaultdict(set)
    for node in above:
        parts[root(node)].add(node)
    return list(parts.values())


def _images(node: Node) -> Iterator[Value]:
    """Yield the operands that are images of the node's rank."""
    given = node.operands[:1] if node.op is ops.conv else node.operands
    yield from (operand for operand in given if operand.rank == node.result.rank)


def _saved(part: set[Node], target: Target) -> float:
    """Return the bytes that need no packing or turning, less what joins cost more.

    Cycles that Winograd's transforms save count as the bytes that are transposed meanwhile.
    Products pack their pixels, tiles turn their results; channels that are joined last are
    written in short pieces.
    """
    convolutions = [node for node in part if node.op is ops.conv]
    whole = (n for n in convolutions if n.attribute("groups") == 1)
    sides = (n.operands[0] if is_pointwise(n) else n.result for n in whole)
    joined = sum(node.result.type.bytes for node in part if node.op is ops.concat)
    packed = sum(side.type.bytes for side in sides)
    cycles = sum(_transform_saves(node, target) for node in convolutions)
    return packed + _TRANSPOSED * cycles - _JOIN * joined


def _transform_saves(node: Node, target: Target) -> float:
    """Return the cycles that Winograd's transforms save a convolution."""
    x, w = node.operands
    if node.attribute("groups") != 1:
        return 0.0
    images = images_of(
        (x.shape[0], *x.shape[2:], x.shape[1]),
        w.shape[2:],
        w.shape[0],
        sliding_of(node),
        x.dtype.size,
    )
    found = choose_winograd(images, target) if images and not sums_integers(node) else None
    return found.saved if found else 0.0


def _transposed(part: set[Node], readers: dict[Value, set[Node]], graph: Graph) -> int:
    """Return the bytes that are transposed where images enter and leave `part`."""
    entering = {operand for node in part for operand in _images(node) if operand.node not in part}
    leaving = {
        node.result for node in part if node.result in graph.outputs or readers[node.result] - part
    }
    return sum(value.type.bytes for value in (*entering, *leaving) if _moves_elements(value))


def _moves_elements(value: Value) -> bool:
    """True if its channels and pixels are several: otherwise the order in memory is the same."""
    pixels = product(value.shape[2:])
    return value.shape[1] != 1 and pixels != 1


# Moving them


@dataclass(slots=True)
class _Mover:
    """Builds the new graph; images of moved nodes exist with channels last, or in both orders."""

    moved: set[Node]
    first: dict[Value, Value] = field(default_factory=dict)
    last: dict[Value, Value] = field(default_factory=dict)

    def run(self, graph: Graph) -> Rewritten:
        target = Graph(graph.name)
        for node in graph.nodes:
            if node in self.moved:
                with target.attributed(node.source, node.scope):
                    self.last[node.result] = self._computed(node, target)
            else:
                for operand in node.operands:
                    self._front(operand)
                copy_node(target, node, self.first)
        for output in graph.outputs:
            self._front(output)
        finish(target, graph, self.first)
        return Rewritten(target, self.first)

    def _front(self, value: Value) -> Value:
        """Return `value` of the old graph with channels in front."""
        if value not in self.first:
            self.first[value] = channels_to_front(self.last[value])
        return self.first[value]

    def _back(self, value: Value, rank: int) -> Value:
        """Return `value` of the old graph with channels last, of `rank` axes."""
        if value not in self.last:
            given = self.first[value]
            if given.rank < rank:
                return _broadcast_last(given, rank)
            self.last[value] = channels_to_back(given)
        return self.last[value]

    def _computed(self, node: Node, target: Graph) -> Value:
        """Append `node`, over images with channels last."""
        rank = node.result.rank
        if node.op is ops.conv:
            return _convolved(
                self._back(node.operands[0], rank), self.first[node.operands[1]], node
            )
        operands = [self._back(operand, rank) for operand in node.operands]
        (result,) = target.append(node.op, operands, _attributes(node), name=node.name)
        return result


def _broadcast_last(given: Value, rank: int) -> Value:
    """Return an operand that broadcasts to images, seen so that it does with channels last."""
    if all(extent == 1 for extent in given.shape):
        return given if given.rank == 0 else _reshaped(given, ())
    whole = (1,) * (rank - given.rank) + given.shape
    if product(whole[2:]) == 1 and product(whole[:1]) == 1:
        return _reshaped(given, (whole[1],))
    return channels_to_back(_reshaped(given, whole))


def _reshaped(given: Value, shape: Shape) -> Value:
    result: Value = given if given.shape == shape else ops.reshape(given, shape=shape)
    return result


def _convolved(x: Value, w: Value, node: Node) -> Value:
    """Return the convolution, or the product that it is."""
    if is_pointwise(node) and {axis.stride for axis in sliding_of(node)} == {1}:
        weights = ops.transpose(_reshaped(w, w.shape[:2]), perm=(1, 0))
        product_of: Value = ops.matmul(x, weights)
        return product_of
    given = {**attributes_of(sliding_of(node)), "groups": node.attribute("groups")}
    result: Value = ops.stored_conv(x, taps_to_front(w), channels_last=True, **given)
    return result


def _attributes(node: Node) -> Attrs:
    """Return the attributes of `node` over images with channels last."""
    given = node.attrs.as_dict()
    if node.op.has(Trait.WINDOWED):
        return make_attrs(node.op, {**given, "inner": 1})
    if node.op in _PER_AXIS:
        moved = {name: (value[0], *value[2:], value[1])
                  for name, value in given.items() if isinstance(value, tuple)}  # fmt: skip
        return make_attrs(node.op, {**given, **moved})
    if node.op.folds_values:
        return make_attrs(node.op, {**given, "axes": tuple(axis - 1 for axis in _axes(node))})
    if node.op in _ALONG_AXIS:
        axis = normalize_axis(given["axis"], node.result.rank)
        order = (0, node.result.rank - 1, *range(1, node.result.rank - 1))
        return make_attrs(node.op, {**given, "axis": order[axis]})
    return node.attrs
