"""Large reductions to one element: in fixed parts, side by side, then over the parts.

The number of parts depends on the shape alone, so that the bits do not depend on the number
of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.kernels.build import find_anchor, single_node_body
from rlx.codegen.kernels.folds import FOLDS
from rlx.codegen.kernels.registry import scratch
from rlx.codegen.lower.registry import Placement, lowering
from rlx.codegen.schedule import BufferRef, Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OPS, Trait, make_attrs
from rlx.ir.types import TensorType

PARTS = 64
"""Parts of a large reduction: enough for the threads of one machine."""

LARGE = 1 << 17
"""Elements from which splitting pays: 512 KiB of f32."""


LEAST_ROWS, MOST_ROWS = 16, 4096
"""Extents of a leading axis that are parts, where operands cannot be seen as `PARTS` rows."""


def splits(operand: TensorType, result: TensorType) -> bool:
    """True for reductions of many elements to one."""
    elements = operand.elements
    if not isinstance(elements, int) or operand.dtype.is_low_precision:
        return False
    rows = elements % PARTS == 0 or _leading_rows(operand)
    return result.elements == 1 and elements >= LARGE and bool(rows)


def parts_scratch(operands: list[TensorType], results: list[TensorType], **_: object) -> int:
    """Bytes for the result of every part."""
    parts = max(PARTS, _leading_rows(operands[0]))
    return parts * results[0].dtype.size if splits(operands[0], results[0]) else 0


def _leading_rows(operand: TensorType) -> int:
    """Return the extent of the leading axis if its rows can be the parts, else 0."""
    rows = operand.shape[0] if operand.rank > 1 else 0
    return rows if isinstance(rows, int) and LEAST_ROWS <= rows <= MOST_ROWS else 0


def reduction_lowering(node: Node, place: Placement) -> list[Thunk]:
    """Return one thunk, or two for a reduction that is worth splitting."""
    whole = place.thunk(node)
    body = _body(node)
    anchor = find_anchor(body)
    if anchor is None or anchor.op.name not in FOLDS or whole.scratch is None:
        return [whole]
    operand = anchor.operands[0].type
    elements = operand.elements
    flat = isinstance(elements, int) and elements % PARTS == 0 and _is_flat(body, anchor)
    parts = PARTS if flat else _leading_rows(operand)
    if not parts:
        return [replace(whole, scratch=None)]
    partial = BufferRef(whole.scratch.offset, TensorType(anchor.result.dtype, (parts,)))
    first = _parts_thunk if flat else _rows_thunk
    return [first(whole, body, anchor, partial), _total_thunk(whole, body, anchor, partial)]


def _body(node: Node) -> Graph:
    if node.op is ops.fused:
        body: Graph = node.attribute("body")
        return body
    operands = [operand.type for operand in node.operands]
    return single_node_body(node.op, operands, node.attrs, node.lowering)


def _is_flat(body: Graph, anchor: Node) -> bool:
    """True if everything before the anchor has its operand's shape, or is one element."""
    shape = anchor.operands[0].shape
    return all(
        node.result.type.elements == 1
        or (
            (node.op.has(Trait.LEAF) or node.op.has(Trait.ELEMENTWISE))
            and node.result.shape == shape
        )
        for node in _before(body, anchor)
    )


def _before(body: Graph, anchor: Node) -> list[Node]:
    """Return the nodes that the anchor depends on, in topological order."""
    return _needed(body, [anchor.operands[0]], beyond=anchor)


def _parts_thunk(whole: Thunk, body: Graph, anchor: Node, partial: BufferRef) -> Thunk:
    """Reduce each row of the operands seen as `PARTS` rows."""
    rows = Graph("parts")
    value_map: dict[Value, Value] = {}
    operands: list[BufferRef] = []
    refs = dict(zip(body.inputs, whole.operands, strict=True))
    for node in _before(body, anchor):
        if node.op.name == "input":
            value = node.result
            shape = _rows(value.type)
            value_map[value] = rows.input(str(node.name), shape, value.dtype)
            operands.append(replace(refs[value], type=value.type.with_shape(shape)))
        else:
            rows.copy_node(node, value_map)
    source = value_map[anchor.operands[0]]
    rows.set_outputs([OPS[anchor.op.name](source, axes=(1,), keepdims=False)])
    return _fused_thunk(whole, rows, tuple(operands), (partial,))


def _rows_thunk(whole: Thunk, body: Graph, anchor: Node, partial: BufferRef) -> Thunk:
    """Reduce each row along the leading axis; operands may be read through movement."""
    rows = Graph("rows")
    value_map: dict[Value, Value] = {}
    operands: list[BufferRef] = []
    refs = dict(zip(body.inputs, whole.operands, strict=True))
    for node in _before(body, anchor):
        if node.op.name == "input":
            operands.append(refs[node.result])
        rows.copy_node(node, value_map)
    source = value_map[anchor.operands[0]]
    axes = tuple(range(1, source.rank))
    rows.set_outputs([OPS[anchor.op.name](source, axes=axes, keepdims=False)])
    return _fused_thunk(whole, rows, tuple(operands), (partial,))


def _rows(type: TensorType) -> tuple[int, ...]:
    elements = type.elements
    return (PARTS, elements // PARTS) if isinstance(elements, int) and elements > 1 else ()


def _total_thunk(whole: Thunk, body: Graph, anchor: Node, partial: BufferRef) -> Thunk:
    """Reduce the parts and compute what follows the anchor."""
    total = Graph("total")
    # The result holds one element, so that all of its extents are 1.
    shape = (*partial.type.shape, *anchor.result.shape)
    parts = total.input("parts", shape, partial.type.dtype)
    reduced = OPS[anchor.op.name](parts, axes=(0,), keepdims=False)
    value_map: dict[Value, Value] = {anchor.result: reduced}
    positions: list[int] = []
    for node in _after(body, anchor):
        if node.op.name == "input":
            positions.append(body.inputs.index(node.result))
        total.copy_node(node, value_map)
    total.set_outputs([value_map[output] for output in body.outputs])
    operands = [replace(partial, type=parts.type), *(whole.operands[p] for p in positions)]
    thunk = _fused_thunk(whole, total, tuple(operands), whole.results)
    return replace(thunk, aliased=_renumbered(whole.aliased, positions))


def _renumbered(
    aliased: tuple[tuple[int, int], ...], positions: list[int]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs in place whose operand is kept; `positions` stand behind the parts."""
    return tuple((positions.index(p) + 1, r) for p, r in aliased if p in positions)


def _after(body: Graph, anchor: Node) -> list[Node]:
    """Return the nodes that the outputs need besides the anchor, in topological order."""
    return _needed(body, body.outputs, beyond=anchor)


def _needed(body: Graph, values: Sequence[Value], *, beyond: Node) -> list[Node]:
    """Return the nodes that `values` depend on, as far as `beyond`, in topological order."""
    needed = {value.node for value in values} - {beyond}
    for node in reversed(body.nodes):
        if node in needed:
            needed.update(operand.node for operand in node.operands)
            needed.discard(beyond)
    return [node for node in body.nodes if node in needed]


def _fused_thunk(
    whole: Thunk, body: Graph, operands: tuple[BufferRef, ...], results: tuple[BufferRef, ...]
) -> Thunk:
    return Thunk(
        kind="fused",
        attrs=make_attrs(ops.fused, {"body": body}),
        operands=operands,
        results=results,
        phase=whole.phase,
        node=whole.node,
        number=whole.number,
    )


for _name in FOLDS:
    scratch(_name)(parts_scratch)
    lowering.register(OPS[_name], reduction_lowering)
lowering.register(ops.fused, reduction_lowering)
