"""Vector axes: along which axis of each value of a loop's body the innermost loops run.

A reduction runs fastest along an axis that it keeps, since sums then need no folding of lanes; its
operands had better be computed along that axis, too. So demands go from results to operands.
"""

from __future__ import annotations

from rlx.ir.axis_maps import axis_of_operand
from rlx.ir.graph import Graph, Node, Value

SHORT = 4
"""Extents up to this are unrolled, and never vectors."""


def vector_axes(body: Graph) -> dict[Value, int]:
    """Return the vector axis of every value that has a long one."""
    axes: dict[Value, int] = {}
    for node in reversed(body.nodes):
        for result in node.results:
            last = _last_long_axis(result)
            if last is not None:
                axes.setdefault(result, last)
                _demand(node, axes[result], axes)
    return axes


def _demand(node: Node, axis: int, axes: dict[Value, int]) -> None:
    for number, operand in enumerate(node.operands):
        source = axis_of_operand(node, number, axis)
        if source is not None and is_long(operand.type.static_shape[source]):
            axes.setdefault(operand, source)


def is_long(extent: int) -> bool:
    return extent > SHORT


def _last_long_axis(value: Value) -> int | None:
    shape = value.type.static_shape
    return next((axis for axis in reversed(range(len(shape))) if is_long(shape[axis])), None)
