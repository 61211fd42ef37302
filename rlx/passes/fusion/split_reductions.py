"""Split of large reductions to one element: over fixed parts, in parallel, then over the parts.

    %2: f32[] = fused %0 {body = exp, reduce_sum}
        ->  %1: f32[64, 4096] = reshape %0
            %2: f32[64] = fused %1 {body = exp, reduce_sum of rows}
            %3: f32[] = reduce_sum %2

The number of parts depends on the shape alone, so that the bits do not depend on the number of
threads. Run it after fusion, which decides what is computed before and after a reduction.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import Trait, make_attrs
from rlx.ir.types import TensorType
from rlx.passes.rewrite import LocalRewrite, Rewritten, apply_rewrites, graph_pass

PARTS = 64
"""Parts of a large reduction: enough for the threads of one machine."""

LARGE = 1 << 17
"""Elements from which splitting pays: 512 KiB of f32."""

LEAST_ROWS, MOST_ROWS = 16, 4096
"""Extents of a leading axis that are parts, where operands cannot be seen as `PARTS` rows."""


@graph_pass
def split_reductions(graph: Graph) -> Rewritten:
    """Reduce many elements to one in two steps, of which threads share the first."""
    folds = LocalRewrite(lambda op: op.folds_values or op is ops.fused, _split)
    return apply_rewrites(graph, [folds])


def _split(node: Node) -> Sequence[Value] | None:
    body = node.attribute("body") if node.op is ops.fused else _body_of(node)
    anchors = ops.anchors_of(body)
    if not anchors or not all(anchor.op.folds_values and _is_large(anchor) for anchor in anchors):
        return None
    operand = anchors[0].operands[0].type
    assert isinstance(operand.elements, int)
    flat = operand.elements % PARTS == 0 and _is_flat(body, anchors)
    if not flat and not _leading_rows(operand):
        return None
    return _total(node, body, anchors, _partial_results(node, body, anchors, flat=flat))


def _body_of(node: Node) -> Graph:
    """Return a body of one reduction."""
    body = Graph("body")
    operands = [body.input_of("x", operand.type) for operand in node.operands]
    body.set_outputs(body.append(node.op, operands, node.attrs))
    return body


def _is_large(anchor: Node) -> bool:
    """True for reductions of many elements to one."""
    operand = anchor.operands[0].type
    elements = operand.elements
    if not isinstance(elements, int) or operand.dtype.is_low_precision:
        return False
    return anchor.result.type.elements == 1 and elements >= LARGE


def _leading_rows(operand: TensorType) -> int:
    """Return the extent of the leading axis if its rows can be the parts, else 0."""
    rows = operand.shape[0] if operand.rank > 1 else 0
    return rows if isinstance(rows, int) and LEAST_ROWS <= rows <= MOST_ROWS else 0


def _is_flat(body: Graph, anchors: Sequence[Node]) -> bool:
    """True if everything before the anchors has their operands' shape, or is one element."""
    shape = anchors[0].operands[0].shape
    return all(
        node.result.type.elements == 1
        or (
            (node.op.has(Trait.LEAF) or node.op.has(Trait.ELEMENTWISE))
            and node.result.shape == shape
        )
        for node in _before(body, anchors)
    )


def _before(body: Graph, anchors: Sequence[Node]) -> list[Node]:
    """Return the nodes that the anchors depend on, in topological order."""
    return _needed(body, [anchor.operands[0] for anchor in anchors], beyond=anchors)


def _partial_results(
    node: Node, body: Graph, anchors: Sequence[Node], *, flat: bool
) -> tuple[Value, ...]:
    """Reduce each row: of operands seen as `PARTS` rows, or along their leading axis."""
    rows, value_map, operands = Graph("parts"), dict[Value, Value](), list[Value]()
    given = dict(zip(body.inputs, node.operands, strict=True))
    for each in _before(body, anchors):
        if each.op is ops.input:
            operand = _in_rows(given[each.result]) if flat else given[each.result]
            value_map[each.result] = rows.input_of(str(each.name), operand.type)
            operands.append(operand)
        else:
            rows.copy_node(each, value_map)
    rows.set_outputs([_reduced(anchor, value_map[anchor.operands[0]]) for anchor in anchors])
    return node.results[0].graph.append(ops.fused, operands, make_attrs(ops.fused, {"body": rows}))


def _in_rows(operand: Value) -> Value:
    elements = operand.type.elements
    assert isinstance(elements, int)
    shape = (PARTS, elements // PARTS) if elements > 1 else ()
    result: Value = ops.reshape(operand, shape=shape)
    return result


def _reduced(anchor: Node, source: Value) -> Value:
    """Reduce all axes of `source` but the first as `anchor` does."""
    (result,) = source.graph.append(
        anchor.op,
        (source,),
        make_attrs(anchor.op, {"axes": tuple(range(1, source.rank)), "keepdims": False}),
    )
    return result


def _total(
    node: Node, body: Graph, anchors: Sequence[Node], partials: Sequence[Value]
) -> tuple[Value, ...]:
    """Reduce the parts and compute what follows the anchors."""
    total, value_map, operands = Graph("total"), dict[Value, Value](), list[Value]()
    along = {"axes": (0,), "keepdims": False}
    for number, (anchor, partial) in enumerate(zip(anchors, partials, strict=True)):
        # The result holds one element, so that all of its extents are 1.
        parts = ops.reshape(partial, shape=(*partial.shape, *anchor.result.shape))
        name = "parts" if len(anchors) == 1 else f"parts_{number}"
        source = total.input_of(name, parts.type)
        operands.append(parts)
        (value_map[anchor.result],) = total.append(
            anchor.op, (source,), make_attrs(anchor.op, along)
        )
    given = dict(zip(body.inputs, node.operands, strict=True))
    for each in _needed(body, body.outputs, beyond=anchors):
        if each.op is ops.input:
            operands.append(given[each.result])
        total.copy_node(each, value_map)
    total.set_outputs([value_map[output] for output in body.outputs])
    return node.results[0].graph.append(ops.fused, operands, make_attrs(ops.fused, {"body": total}))


def _needed(body: Graph, values: Sequence[Value], *, beyond: Sequence[Node]) -> list[Node]:
    """Return the nodes that `values` depend on, as far as `beyond`, in topological order."""
    needed = {value.node for value in values}.difference(beyond)
    for node in reversed(body.nodes):
        if node in needed:
            needed.update(operand.node for operand in node.operands)
            needed.difference_update(beyond)
    return [node for node in body.nodes if node in needed]
