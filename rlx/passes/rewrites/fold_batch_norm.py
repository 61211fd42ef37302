"""Batch-norm folding: a norm with constant statistics becomes part of the convolution before it.

    %y = conv %x, %w                            %u = mul %w, %scale   (in setup)
    %z = batch_norm_inference %y, ...    ->     %v = conv %x, %u
                                                %z = add %v, %shift   (fused into the convolution)

With `scale = gamma / sqrt(variance + eps)` and `shift = beta - mean * scale`. Only where weights
and statistics are params or constants, so that this is computed once, and where nothing else reads
the convolution. A bias between the two, and transposes (channels last), are kept. Results
differ by the rounding of other products. Requires batch norm to be a node still: run it before
formulas are spelled out.
"""

from __future__ import annotations

from collections import Counter

from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.ops.precision import in_single_precision
from rlx.ir.shape import normalize_axis, product
from rlx.passes.algebra import reshape_to
from rlx.passes.phases import setup_nodes
from rlx.passes.rewrite import Rewritten, copy_node, finish, graph_pass, unchanged
from rlx.passes.rewrites.dead_code import dead_code

_CHANNELS = 1
"""The axis of a convolution's result that its weights make."""


@dataclass(frozen=True, slots=True)
class _Folded:
    """A batch norm and what it is folded into."""

    conv: Node
    bias: Value | None
    moves: tuple[Node, ...]
    """Transposes between the convolution and the batch norm, in order."""


@graph_pass
def fold_batch_norm(graph: Graph) -> Rewritten:
    """Scale the weights of a convolution instead of its result."""
    norms = [node for node in graph.nodes if node.op is ops.batch_norm_inference]
    fixed = setup_nodes(graph) if norms else frozenset()
    reads = Counter(operand for node in graph.nodes for operand in node.operands)
    reads.update(graph.outputs)
    found = {node: _folded(node, fixed, reads) for node in norms}
    if not any(found.values()):
        return unchanged(graph)
    target, value_map = Graph(graph.name), dict[Value, Value]()
    for node in graph.nodes:
        folded = found.get(node)
        if folded is None:
            copy_node(target, node, value_map)
        else:
            value_map[node.result] = _combined(node, folded, value_map)
    finish(target, graph, value_map)
    return Rewritten(target, value_map).then(dead_code)


def _folded(norm: Node, fixed: frozenset[Node], reads: Counter[Value]) -> _Folded | None:
    """Return what `norm` can be folded into, or None."""
    value, *vectors = norm.operands
    axis = normalize_axis(norm.attribute("axis"), value.rank)
    bias: Value | None = None
    moves: list[Node] = []
    while value.op is not ops.conv:
        if reads[value] != 1:
            return None
        node = value.node
        if node.op is ops.transpose:
            axis = normalize_axis(node.attribute("perm")[axis], value.rank)
            moves.insert(0, node)
            value = node.operands[0]
        elif node.op is ops.add and bias is None:
            value, bias = node.operands
            if not _is_per_channel(bias, value, axis):
                return None
        else:
            return None
    read_once = reads[value] == 1 and axis == _CHANNELS
    known = [value.node.operands[1], *vectors, *([] if bias is None else [bias])]
    if not read_once or not all(each.node in fixed for each in known):
        return None
    return _Folded(value.node, bias, tuple(moves))


def _is_per_channel(bias: Value, value: Value, axis: int) -> bool:
    """True if `bias` holds one number per channel, along `axis` of `value`."""
    trailing = value.rank - 1 - axis
    shape = (1,) * (value.rank - bias.rank) + bias.shape
    along = shape[axis] == value.shape[axis] == product(shape)
    return along and bias.rank > trailing


def _combined(norm: Node, folded: _Folded, value_map: dict[Value, Value]) -> Value:
    """Build the convolution with scaled weights and what is added to it."""
    x, w = (value_map[operand] for operand in folded.conv.operands)
    vectors = [value_map[operand] for operand in norm.operands[1:]]
    bias = [] if folded.bias is None else [reshape_to(value_map[folded.bias], vectors[0].shape)]
    with x.graph.attributed(norm.source, norm.scope):
        weights, shift = _scaled(w, *vectors, *bias, eps=norm.attribute("eps"))
        convolved = ops.conv(x, weights, **folded.conv.attrs.as_dict())
        result = convolved + reshape_to(shift, (*shift.shape, *(1,) * (convolved.rank - 2)))
        for move in folded.moves:
            result = ops.transpose(result, perm=move.attribute("perm"))
    return result


@in_single_precision
def _scaled(
    w: Value,
    gamma: Value,
    beta: Value,
    mean: Value,
    variance: Value,
    bias: Value | None = None,
    *,
    eps: float,
) -> tuple[Value, Value]:
    """Return the scaled weights, and what is added to each channel."""
    scale = gamma * ops.rsqrt(variance + eps)
    offset = mean if bias is None else mean - bias
    return w * reshape_to(scale, (*scale.shape, *(1,) * (w.rank - 1))), beta - offset * scale
