"""Axis maps: correspondence of operand axes to axes of the result, or to folded axes.

They follow from what an op reads where: from its index map or its fold map.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlx.ir.fold_maps import fold_map
from rlx.ir.graph import Node
from rlx.ir.index_maps import Position, index_map
from rlx.ir.ops import shape as ops
from rlx.ir.shape import Shape, product


def axis_of_operand(node: Node, operand: int, axis: int) -> int | None:
    """Return the axis of `operand` that is read along all of result `axis` as it is, or None."""
    return next((source for source, at in _kept_axes(node, operand) if at == axis), None)


def axis_of_result(node: Node, operand: int, axis: int) -> int | None:
    """Return the result axis along which all of `axis` of `operand` is read as it is, or None."""
    return dict(_kept_axes(node, operand)).get(axis)


def folded_axis(node: Node, operand: int, axis: int) -> int | None:
    """Return which of the axes that `node` folds `axis` of `operand` is, or None."""
    found = fold_map(node)
    axes = () if found is None else found.folded_axes(operand)
    return axes.index(axis) if axis in axes else None


def reads_along(node: Node, operand: int, axis: int) -> bool:
    """False if `operand` is broadcast along result `axis`, so that it is constant there."""
    positions = _positions(node, operand)
    if positions is None:
        return True
    return any(index.varies((axis,)) for position in positions for index in position)


def _positions(node: Node, operand: int) -> list[Position] | None:
    """Return where `operand` is read, over the axes of the result and those that are folded."""
    if len(node.results) != 1:
        return None
    folded = fold_map(node)
    if folded is not None:
        return [folded.positions[operand]]
    found = index_map(node)
    if found is None:
        return None
    return [piece.position for piece in found.pieces if piece.operand == operand]


def _kept_axes(node: Node, operand: int) -> list[tuple[int, int]]:
    """Return the (operand axis, result axis) pairs that are the same axis, element by element."""
    source, positions = node.operands[operand].shape, _positions(node, operand)
    if positions is None:
        return _reshaped_axes(source, node.result.shape) if node.op is ops.reshape else []
    result = node.result.shape
    return [pair for position in positions for pair in _same_axes(position, source, result)]


def _same_axes(position: Position, source: Shape, result: Shape) -> Iterator[tuple[int, int]]:
    for axis, index in enumerate(position):
        at = index.axis
        if at is not None and at < len(result) and source[axis] == result[at] != 1:
            yield axis, at


def _reshaped_axes(source: Shape, result: Shape) -> list[tuple[int, int]]:
    """Return the axes that a reshape keeps: as many elements precede them on both sides."""
    known = {
        (product(result[:axis]), extent): axis for axis, extent in enumerate(result) if extent != 1
    }
    places = [(product(source[:axis]), extent) for axis, extent in enumerate(source)]
    return [(axis, known[place]) for axis, place in enumerate(places) if place in known]
