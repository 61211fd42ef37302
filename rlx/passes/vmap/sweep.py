"""The sweep of batching: every node once, forward, from values with a batch axis.

    carry(target, graph.nodes, value_map, axis)        # appends the batched nodes to `target`

`value_map` maps values of the graph to `MaybeBatched` ones of `target`, first those of the leaves.
A node that no batched value reaches is copied as it is. The others are batched by the op's own
rule, that of its trait, its formula, or by unrolling, whichever comes first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from rlx.errors import InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Attrs, OpDef, Trait
from rlx.ir.ops.bounded_scan import scan_to_extent
from rlx.ir.types import TensorType
from rlx.passes.rewrite import bodies_of, live_nodes
from rlx.passes.vmap.batching import (
    Batching,
    MappedAxis,
    MaybeBatched,
    expand_to,
    lifted,
    reshape_to,
)
from rlx.passes.vmap.errors import ImpureOpError
from rlx.passes.vmap.registry import Batched, Decline, batch, rule_of

Image = dict[Value, MaybeBatched]


def carry(target: Graph, nodes: Iterable[Node], value_map: Image, axis: MappedAxis) -> None:
    """Append what `nodes` do for each example of `axis`; `value_map` learns their results.

    Nodes whose results are in `value_map` are skipped.
    """
    for node in nodes:
        if not all(result in value_map for result in node.results):
            operands = [value_map[operand] for operand in node.operands]
            results = _carry_node(target, node, operands, axis)
            value_map.update(zip(node.results, results, strict=True))


def batch_body(
    body: Graph, batched: Sequence[bool], axis: MappedAxis, *, due: Sequence[bool] = ()
) -> tuple[Graph, tuple[bool, ...]]:
    """Return `body` with the batch axis on the marked inputs, and which outputs have it.

    The first outputs have it where `due` says so, even if they do not depend on the batch.
    """
    target, value_map = Graph(f"{body.name}_vmap"), Image()
    for leaf, has_axis in zip(body.inputs, batched, strict=True):
        shape = (axis.size, *leaf.shape) if has_axis else leaf.shape
        value_map[leaf] = MaybeBatched(
            target.input(str(leaf.node.name), shape, leaf.dtype), has_axis
        )
    carry(target, body.nodes, value_map, axis)
    wanted = (*due, *(False,) * (len(body.outputs) - len(due)))
    outputs = [
        lifted(value_map[output], axis.size) if must else value_map[output]
        for output, must in zip(body.outputs, wanted, strict=True)
    ]
    target.set_outputs(output.value for output in outputs)
    return target, tuple(output.batched for output in outputs)


def live(graph: Graph) -> list[Node]:
    """Return the nodes that matter, in order: all leaves and what the outputs need."""
    kept = live_nodes(graph)
    return [node for node in graph.nodes if node in kept]


def unroll(node: Node, at: Batching, operands: Sequence[Value]) -> list[Value]:
    """Apply `node`'s op to one example after the other: in a loop for a symbolic number of them."""
    if not isinstance(at.size, int):
        return _repeated(node, at, operands)
    if at.size == 0:
        return [_empty(at.graph, type) for type in at.results]
    examples = [_apply_to_example(node, at, operands, index) for index in range(at.size)]
    return [_stack(parts) for parts in zip(*examples, strict=True)]


def _repeated(node: Node, at: Batching, operands: Sequence[Value]) -> list[Value]:
    """Apply `node`'s op in a loop, to a row of the operands that have the batch axis."""
    body = Graph(f"{node.op.name}_example")
    consts = [i for i, batched in enumerate(at.batched) if not batched]
    rows = [i for i, batched in enumerate(at.batched) if batched]
    given = {
        i: body.input(f"x{i}", at.operands[i].shape, at.operands[i].dtype) for i in consts + rows
    }
    body.set_outputs(body.append(node.op, [given[i] for i in range(len(operands))], node.attrs))
    operands_of = [[operands[i] for i in part] for part in (consts, rows)]
    return list(scan_to_extent((), *operands_of, body=body, length=at.size))


def _carry_node(
    target: Graph, node: Node, operands: Sequence[MaybeBatched], axis: MappedAxis
) -> list[MaybeBatched]:
    values = [operand.value for operand in operands]
    if not any(operand.batched for operand in operands) and not _exchanges(node, axis.name):
        copies = target.append(
            node.op, values, node.attrs, name=node.name, source=node.source, scope=node.scope
        )
        return [MaybeBatched(copy, batched=False) for copy in copies]
    at = Batching(
        target,
        axis,
        tuple(operand.batched for operand in operands),
        tuple(operand.type for operand in node.operands),
        tuple(result.type for result in node.results),
    )
    with target.attributed(node.source, node.scope):
        results = _batched(node, at, values)
    _check(node, at, results)
    return results


def _exchanges(node: Node, axis_name: str | None) -> bool:
    """True if `node` is a collective over the mapped axis, or a body of it holds one."""
    if axis_name is None:
        return False
    attributes = node.attrs.as_dict()
    if attributes.get("axis_name") == axis_name:
        return len(node.operands) < len(node.op.operands)  # those with ranks say so
    bodies = bodies_of(node.attrs)
    return any(_exchanges(inner, axis_name) for body in bodies for inner in body.nodes)


def _batched(node: Node, at: Batching, operands: list[Value]) -> list[MaybeBatched]:
    rule = rule_of(node.op)
    if rule is not None:
        given = rule(at, *operands, **node.attrs.as_dict())
        if not isinstance(given, Decline):
            return _spread(given)
    if node.op.decompose is not None and batch.reason(node.op) is None:
        return _through_formula(node, at, operands)
    if node.op.has(Trait.IMPURE):
        raise ImpureOpError(
            f"{node.op.name} is not a function of its operands and has no batching rule",
            source=node.source,
            remedy="draw outside of vmap and pass the result in as an input",
        )
    return [MaybeBatched(value, batched=True) for value in unroll(node, at, operands)]


def _through_formula(node: Node, at: Batching, operands: list[Value]) -> list[MaybeBatched]:
    formula = _formula(node.op, node.attrs, at.operands)
    value_map = {
        leaf: MaybeBatched(value, batched)
        for leaf, value, batched in zip(formula.inputs, operands, at.batched, strict=True)
    }
    carry(at.graph, formula.nodes, value_map, at.axis)
    return [value_map[output] for output in formula.outputs]


@functools.lru_cache(maxsize=256)
def _formula(definition: OpDef, attrs: Attrs, operands: tuple[TensorType, ...]) -> Graph:
    """Return an op's formula as a graph, which must not grow."""
    graph = Graph(definition.name)
    inputs = [graph.input(f"x{i}", type.shape, type.dtype) for i, type in enumerate(operands)]
    assert definition.decompose is not None  # callers ask for ops that have one
    results = definition.decompose(*inputs, **attrs.as_dict())
    graph.set_outputs((results,) if isinstance(results, Value) else results)
    return graph


def _spread(given: Batched) -> list[MaybeBatched]:
    results = (given,) if isinstance(given, (Value, MaybeBatched)) else given
    assert not isinstance(results, Decline)  # callers looked
    return [r if isinstance(r, MaybeBatched) else MaybeBatched(r, batched=True) for r in results]


def _check(node: Node, at: Batching, results: Sequence[MaybeBatched]) -> None:
    expected = [
        type.with_shape((at.size, *type.shape)) if result.batched else type
        for type, result in zip(at.results, results, strict=True)
    ]
    given = [result.value.type for result in results]
    if expected != given:
        raise InternalError(
            f"vmap: the rule of {node.op.name} gave {', '.join(map(str, given))} "
            f"where {', '.join(map(str, expected))} was due"
        )


def _apply_to_example(
    node: Node, at: Batching, operands: Sequence[Value], index: int
) -> tuple[Value, ...]:
    example = [
        _example(operand, index) if batched else operand
        for operand, batched in zip(operands, at.batched, strict=True)
    ]
    return at.graph.append(node.op, example, node.attrs)


def _example(x: Value, index: int) -> Value:
    return reshape_to(ops.narrow(x, axis=0, start=index, length=1), x.shape[1:])


def _stack(parts: Sequence[Value]) -> Value:
    rows = [reshape_to(part, (1, *part.shape)) for part in parts]
    stacked: Value = rows[0] if len(rows) == 1 else ops.concat(*rows, axis=0)
    return stacked


def _empty(graph: Graph, type: TensorType) -> Value:
    return expand_to(graph.constant(0, type.dtype), (0, *type.shape))
