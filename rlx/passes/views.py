"""Views: results that are their operand's memory, at an offset, and need no kernel."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Node, Value
from rlx.ir.index_maps import address, identity, index_map
from rlx.ir.op import Trait


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
    is_box = node.op.has(Trait.REINDEXES) and node.op.has(Trait.SUBSET)
    return _box_offset(node) if is_box else None


def root_of(value: Value) -> tuple[Value, int]:
    """Return the value that owns the memory of `value`, and the byte offset into it."""
    offset = 0
    while (step := view_of(value.node)) is not None:
        offset += step
        value = value.node.operands[0]
    return value, offset


def _box_offset(node: Node) -> int | None:
    """Return where a box of operand 0 starts, if its elements are consecutive there."""
    found = index_map(node)
    assert found is not None, "a box has an affine map"
    operand, result = node.operands[0], node.result
    read = address(found.pieces[0].position, operand.shape, result.rank)
    dense = address(identity(result.shape), result.shape, result.rank)
    if read.coefficients != dense.coefficients or not isinstance(read.constant, int):
        return None
    return read.constant * operand.dtype.size
