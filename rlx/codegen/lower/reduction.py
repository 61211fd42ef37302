"""Split reductions: large ones to one element in fixed parts, in parallel, then over the parts.

The number of parts depends on the shape alone, so that the bits do not depend on the number
of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rlx.codegen.kernels.build import find_anchors, single_node_body
from rlx.codegen.kernels.folds import FOLDS
from rlx.codegen.kernels.registry import scratch
from rlx.codegen.lower.registry import Placement, lowering
from rlx.codegen.schedule import BufferRef, Thunk
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.op import OPS, Trait, make_attrs
from rlx.ir.shape import Shape
from rlx.ir.types import TensorType

PARTS = 64
"""Parts of a large reduction: enough for the threads of one machine."""

LARGE = 1 << 17
"""Elements from which splitting pays: 512 KiB of f32."""


_ALIGNMENT = 64

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
    return _aligned(parts * results[0].dtype.size) if splits(operands[0], results[0]) else 0


def _aligned(size: int) -> int:
    """Round up so that the partial results of a sibling can follow."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _leading_rows(operand: TensorType) -> int:
    """Return the extent of the leading axis if its rows can be the parts, else 0."""
    rows = operand.shape[0] if operand.rank > 1 else 0
    return rows if isinstance(rows, int) and LEAST_ROWS <= rows <= MOST_ROWS else 0


def reduction_lowering(node: Node, place: Placement) -> list[Thunk]:
    """Return one thunk, or two for a reduction that is worth splitting."""
    whole = place.thunk(node)
    body = _body(node)
    anchors = find_anchors(body)
    if not anchors or anchors[0].op.name not in FOLDS or whole.scratch is None:
        return [whole]
    operand = anchors[0].operands[0].type
    elements = operand.elements
    flat = isinstance(elements, int) and elements % PARTS == 0 and _is_flat(body, anchors)
    parts = PARTS if flat else _leading_rows(operand)
    split = all(splits(anchor.operands[0].type, anchor.result.type) for anchor in anchors)
    if not parts or not split:
        return [replace(whole, scratch=None)]
    partials = _partial_results(whole.scratch, anchors, parts)
    first = _parts_thunk if flat else _rows_thunk
    return [first(whole, body, anchors, partials), _total_thunk(whole, body, anchors, partials)]


def _partial_results(
    scratch: BufferRef, anchors: Sequence[Node], parts: int
) -> tuple[BufferRef, ...]:
    """Return the offsets of each anchor's partial results, one after the other."""
    refs, offset = [], scratch.offset
    for anchor in anchors:
        refs.append(BufferRef(offset, TensorType(anchor.result.dtype, (parts,))))
        offset += _aligned(parts * anchor.result.dtype.size)
    return tuple(refs)


def _body(node: Node) -> Graph:
    if node.op is ops.fused:
        body: Graph = node.attribute("body")
        return body
    operands = [operand.type for operand in node.operands]
    return single_node_body(node.op, operands, node.attrs, node.lowering)


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


def _parts_thunk(
    whole: Thunk, body: Graph, anchors: Sequence[Node], partials: tuple[BufferRef, ...]
) -> Thunk:
    """Reduce each row of the operands seen as `PARTS` rows."""
    return _reducing_thunk(Graph("parts"), whole, body, anchors, partials, _rows)


def _rows_thunk(
    whole: Thunk, body: Graph, anchors: Sequence[Node], partials: tuple[BufferRef, ...]
) -> Thunk:
    """Reduce each row along the leading axis; operands may be read through movement."""
    return _reducing_thunk(Graph("rows"), whole, body, anchors, partials, _as_it_is)


def _reducing_thunk(
    rows: Graph,
    whole: Thunk,
    body: Graph,
    anchors: Sequence[Node],
    partials: tuple[BufferRef, ...],
    shape_of: Callable[[TensorType], Shape],
) -> Thunk:
    """Reduce each row of the operands, seen in the shapes that `shape_of` gives them."""
    value_map: dict[Value, Value] = {}
    operands: list[BufferRef] = []
    refs = dict(zip(body.inputs, whole.operands, strict=True))
    for node in _before(body, anchors):
        if node.op is ops.input:
            value = node.result
            shape = shape_of(value.type)
            value_map[value] = rows.input(str(node.name), shape, value.dtype)
            operands.append(replace(refs[value], type=value.type.with_shape(shape)))
        else:
            rows.copy_node(node, value_map)
    rows.set_outputs([_reduced(anchor, value_map[anchor.operands[0]]) for anchor in anchors])
    return _fused_thunk(whole, rows, tuple(operands), partials)


def _reduced(anchor: Node, source: Value) -> Value:
    """Reduce all axes of `source` but the first as `anchor` does."""
    axes = tuple(range(1, source.rank))
    result: Value = OPS[anchor.op.name](source, axes=axes, keepdims=False)
    return result


def _as_it_is(type: TensorType) -> Shape:
    return type.shape


def _rows(type: TensorType) -> Shape:
    elements = type.elements
    return (PARTS, elements // PARTS) if isinstance(elements, int) and elements > 1 else ()


def _total_thunk(
    whole: Thunk, body: Graph, anchors: Sequence[Node], partials: tuple[BufferRef, ...]
) -> Thunk:
    """Reduce the parts and compute what follows the anchors."""
    total = Graph("total")
    value_map: dict[Value, Value] = {}
    operands: list[BufferRef] = []
    for number, (anchor, partial) in enumerate(zip(anchors, partials, strict=True)):
        # The result holds one element, so that all of its extents are 1.
        shape = (*partial.type.shape, *anchor.result.shape)
        name = "parts" if len(anchors) == 1 else f"parts_{number}"
        parts = total.input(name, shape, partial.type.dtype)
        operands.append(replace(partial, type=parts.type))
        value_map[anchor.result] = OPS[anchor.op.name](parts, axes=(0,), keepdims=False)
    positions: list[int] = []
    for node in _after(body, anchors):
        if node.op.name == "input":
            positions.append(body.inputs.index(node.result))
        total.copy_node(node, value_map)
    total.set_outputs([value_map[output] for output in body.outputs])
    operands += [whole.operands[position] for position in positions]
    thunk = _fused_thunk(whole, total, tuple(operands), whole.results)
    return replace(thunk, aliased=_renumbered(whole.aliased, positions, len(anchors)))


def _renumbered(
    aliased: tuple[tuple[int, int], ...], positions: list[int], first: int
) -> tuple[tuple[int, int], ...]:
    """Return the pairs in place whose operand is kept; `positions` count from `first`."""
    return tuple((positions.index(p) + first, r) for p, r in aliased if p in positions)


def _after(body: Graph, anchors: Sequence[Node]) -> list[Node]:
    """Return the nodes that the outputs need besides the anchors, in topological order."""
    return _needed(body, body.outputs, beyond=anchors)


def _needed(body: Graph, values: Sequence[Value], *, beyond: Sequence[Node]) -> list[Node]:
    """Return the nodes that `values` depend on, as far as `beyond`, in topological order."""
    needed = {value.node for value in values}.difference(beyond)
    for node in reversed(body.nodes):
        if node in needed:
            needed.update(operand.node for operand in node.operands)
            needed.difference_update(beyond)
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
