"""Views: results that are their operand's memory, at an offset, and need no kernel."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.op import Trait
from rlx.ir.shape import Extent, Shape, product


def view_of(node: Node) -> int | None:
    """Return the byte offset of the only result within operand 0, or None if it is no view.

    Views are ops with the trait VIEW, casts to the same dtype, and `narrow`s and `slice`s that
    take consecutive elements. Tensors are dense in their actual extents, so the offset of a
    view must not depend on a symbol.
    """
    if node.op.has(Trait.VIEW):
        return 0
    if node.op is ops.cast:
        return 0 if node.operands[0].dtype is node.result.dtype else None
    start = _start(node)
    if start is None or not _is_consecutive(node.operands[0].shape, node.result.shape):
        return None
    return _offset(node.operands[0], start)


def root_of(value: Value) -> tuple[Value, int]:
    """Return the value that owns the memory of `value`, and the byte offset into it."""
    offset = 0
    while (step := view_of(value.node)) is not None:
        offset += step
        value = value.node.operands[0]
    return value, offset


def _start(node: Node) -> tuple[Extent, ...] | None:
    """Return where along each axis a `narrow` or dense `slice` starts."""
    if node.op is ops.narrow:
        axis = node.attribute("axis") % node.operands[0].rank
        start: list[Extent] = [0] * node.operands[0].rank
        start[axis] = node.attribute("start")
        return tuple(start)
    if node.op is ops.slice and all(step == 1 for step in node.attribute("step")):
        begin: tuple[Extent, ...] = node.attribute("start")
        return begin
    return None


def _is_consecutive(whole: Shape, part: Shape) -> bool:
    """True if only the outermost axis that is longer than 1 in the part is cut."""
    axis = next((i for i, extent in enumerate(part) if extent != 1), len(part))
    return whole[axis + 1 :] == part[axis + 1 :]


def _offset(operand: Value, start: tuple[Extent, ...]) -> int | None:
    elements: Extent = 0
    for axis, at in enumerate(start):
        elements = elements + at * product(operand.shape[axis + 1 :])
    return elements * operand.dtype.size if isinstance(elements, int) else None
