"""Cost of a thunk: FLOPs and memory traffic, counted by op.

One FLOP per element of an elementwise result (an `exp` counts as one), one per element that a
reduction folds, two per multiply-add of a product. A formula costs what it decomposes to.
Bytes are those of each operand and result once: what must move if nothing is in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from rlx.codegen.kernels.build import single_node_body, thunk_body
from rlx.codegen.schedule import AnyThunk, BranchThunk, LoopThunk, Thunk
from rlx.dataclass import dataclass
from rlx.ir import ops
from rlx.ir.fold_maps import contraction_map, fold_map
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import Winograd
from rlx.ir.op import Trait
from rlx.ir.registry import Registry
from rlx.ir.shape import evaluate, product
from rlx.ir.types import TensorType

Binding = Mapping[str, int]
CostRule = Callable[[Node, Binding], int]
flop_rules: Registry[CostRule] = Registry("cost")
"""FLOPs of a node, where its traits do not say."""
_MOVES = frozenset({Trait.LEAF, Trait.MOVEMENT, Trait.VIEW, Trait.SUBSET})
"""Traits of ops without arithmetic."""


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOPs and bytes of one execution."""

    flops: int
    bytes: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.bytes + other.bytes)

    def times(self, count: int) -> Cost:
        return Cost(self.flops * count, self.bytes * count)


def thunk_cost(thunk: AnyThunk, binding: Binding) -> Cost:
    """Return the cost of a thunk at a binding of its symbols.

    A `while` counts as one trip, and a branch as its most expensive side.
    """
    match thunk:
        case Thunk():
            body = thunk_body(thunk)
            if thunk.opened is not None:
                binding = dict(thunk.opened.numbers)
            return Cost(graph_flops(body, binding), _traffic(body, binding))
        case LoopThunk():
            once = _total((*thunk.condition, *thunk.body), binding)
            return once.times(thunk.steps or 1 if thunk.predicate is None else 1)
        case BranchThunk():
            costs = [_total(branch, binding) for branch in thunk.branches]
            return max(costs, key=lambda cost: (cost.flops, cost.bytes))
        case _:
            assert_never(thunk)


def graph_flops(graph: Graph, binding: Binding) -> int:
    """Return the FLOPs of all nodes of `graph`."""
    return sum(node_flops(node, binding) for node in graph.nodes)


def node_flops(node: Node, binding: Binding) -> int:
    """Return the FLOPs of one node: by its rule, its traits, its body, or its formula."""
    rule = flop_rules.get(node.op)
    if rule is not None:
        return rule(node, binding)
    if not _MOVES.isdisjoint(node.op.traits):
        return 0
    fold = fold_map(node) or contraction_map(node)
    if fold is not None:  # a term is taken from each operand, and added
        terms = evaluate(product(fold.folded), binding) * _elements(node.result.type, binding)
        if isinstance(node.lowering, Winograd):
            terms = terms * (node.lowering.step + 2) ** 2 // (3 * node.lowering.step) ** 2
        return len(node.operands) * terms * fold.combine.products
    body = node.attrs.get("body")
    if isinstance(body, Graph):
        return graph_flops(body, binding) * int(node.attrs.get("length", 1))
    if node.op.decompose is not None and not node.op.has(Trait.ELEMENTWISE):
        return graph_flops(_formula(node), binding)
    return sum(_elements(result.type, binding) for result in node.results)


@flop_rules(ops.cast, ops.pack_panels, ops.dynamic_update_slice)
def no_flops(_: Node, __: Binding) -> int:
    """Moving and converting is no arithmetic."""
    return 0


def _formula(node: Node) -> Graph:
    """Return the formula of a node as a graph, without the operands' own history."""
    operands = [operand.type for operand in node.operands]
    body = single_node_body(node.op, operands, node.attrs)
    formula = Graph(node.op.name)
    image: dict[Value, Value] = {}
    for inner in body.nodes:
        if inner.op.has(Trait.LEAF):
            formula.copy_node(inner, image)
    assert node.op.decompose is not None, "only ops with a formula come here"
    node.op.decompose(*(image[value] for value in body.inputs), **node.attrs.as_dict())
    return formula


def _total(thunks: tuple[AnyThunk, ...], binding: Binding) -> Cost:
    return sum((thunk_cost(thunk, binding) for thunk in thunks), Cost(0, 0))


def _traffic(body: Graph, binding: Binding) -> int:
    users = body.users()
    read = sum(_bytes_read(value, users[value], binding) for value in body.inputs)
    return read + sum(_bytes(output.type, binding) for output in body.outputs)


def _bytes_read(value: Value, users: list[Node], binding: Binding) -> int:
    """A table of which a few rows are gathered moves these rows alone."""
    whole = _bytes(value.type, binding)
    partial = [user for user in users if user.op.has(Trait.SUBSET)]
    if len(partial) < len(users) or any(user.operands[0] is not value for user in partial):
        return whole
    return min(whole, sum(_bytes(user.result.type, binding) for user in partial))


def _elements(type: TensorType, binding: Binding) -> int:
    return evaluate(product(type.shape), binding)


def _bytes(type: TensorType, binding: Binding) -> int:
    return _elements(type, binding) * type.dtype.size
