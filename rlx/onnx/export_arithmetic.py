"""Divisions, shifts and angles as operators of ONNX, with the results that ONNX leaves undefined.

The standard does not define integers divided by zero, nor of shifts of signed ones; a runtime may
trap there. What rlx defines is written out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from rlx.errors import NoRuleError
from rlx.ir.dtype import DType
from rlx.ir.graph import Node, Value
from rlx.onnx.export_rules import export_rule


def _constant(writer: Any, node: Node, value: Any) -> str:
    return str(writer.array(np.asarray(value, node.operands[0].dtype.numpy)))


def _divides(value: Value) -> bool:
    """True for constants with neither 0, by which nothing is divided, nor -1, which may wrap."""
    node = value.node
    while node.op.name in ("expand", "reshape", "transpose"):
        node = node.operands[0].node
    if node.op.name != "constant":
        return False
    return not np.isin(node.attribute("value").array, (0, -1)).any()


def _guarded(writer: Any, node: Node, b: str) -> tuple[str, str]:
    """Return where integers of `b` are 0, and `b` with 1 there."""
    is_zero = writer.emit("Equal", [b, _constant(writer, node, 0)])
    return is_zero, writer.emit("Where", [is_zero, _constant(writer, node, 1), b])


@export_rule("div")
def div(writer: Any, node: Node, a: str, b: str) -> str:
    """Integers divided by 0 are 0, and by -1 the negative, which wraps."""
    if not node.result.dtype.is_int or _divides(node.operands[1]):
        return str(writer.emit("Div", [a, b]))
    is_zero, divisor = _guarded(writer, node, b)
    signed = np.issubdtype(node.result.dtype.numpy, np.signedinteger)
    if signed:
        is_minus = writer.emit("Equal", [b, _constant(writer, node, -1)])
        divisor = writer.emit("Where", [is_minus, _constant(writer, node, 1), divisor])
    found = writer.emit("Div", [a, divisor])
    if signed:
        found = writer.emit("Where", [is_minus, writer.emit("Neg", [found]), found])
    return str(writer.emit("Where", [is_zero, _constant(writer, node, 0), found]))


@export_rule("mod")
def mod(writer: Any, node: Node, a: str, b: str) -> str:
    """The sign is that of `b`, which the standard's operator has for integers alone."""
    if node.result.dtype.is_int:
        if _divides(node.operands[1]):
            return str(writer.emit("Mod", [a, b]))
        is_zero, divisor = _guarded(writer, node, b)
        if np.issubdtype(node.result.dtype.numpy, np.signedinteger):
            is_minus = writer.emit("Equal", [b, _constant(writer, node, -1)])
            divisor = writer.emit("Where", [is_minus, _constant(writer, node, 1), divisor])
        return str(writer.emit("Mod", [a, divisor]))  # modulo 1 is 0
    zero = _constant(writer, node, 0)
    rest = writer.emit("Mod", [a, b], fmod=1)
    is_zero = writer.emit("Equal", [rest, zero])
    signs = [writer.emit("Less", [each, zero]) for each in (rest, b)]
    moved = writer.emit("Where", [writer.emit("Xor", signs), writer.emit("Add", [rest, b]), rest])
    signed_zero = writer.emit(
        "Where", [_is_negative(writer, node, b), _negated(writer, zero), zero]
    )
    return str(writer.emit("Where", [is_zero, signed_zero, moved]))


def _negated(writer: Any, x: str) -> str:
    return str(writer.emit("Neg", [x]))


def _is_negative(writer: Any, node: Node, x: str) -> str:
    """Return whether floats are below 0 or -0."""
    zero = _constant(writer, node, 0)
    below = writer.emit("Less", [x, zero])
    return str(
        writer.emit("Or", [below, writer.emit("Less", [writer.emit("Reciprocal", [x]), zero])])
    )


@export_rule("atan2")
def atan2(writer: Any, node: Node, a: str, b: str) -> str:
    """The angle of the quotient, moved by pi where `b` is negative; zeros and infinities combine as
    ones do."""
    if node.result.dtype is DType.BF16:
        raise NoRuleError(
            "atan2: Atan of ONNX takes no bf16", source=node.source, remedy="cast to f32 before it"
        )
    zero, one = _constant(writer, node, 0), _constant(writer, node, 1)
    minus = [_is_negative(writer, node, each) for each in (a, b)]
    units = [writer.emit("Where", [each, _negated(writer, one), one]) for each in minus]
    infinite = writer.emit("And", [writer.emit("IsInf", [each]) for each in (a, b)])
    both_zero = writer.emit("And", [writer.emit("Equal", [each, zero]) for each in (a, b)])
    over = writer.emit("Where", [infinite, units[0], a])
    under = writer.emit("Where", [writer.emit("Or", [infinite, both_zero]), units[1], b])
    angle = writer.emit("Atan", [writer.emit("Div", [over, under])])
    half_turn = writer.emit("Mul", [units[0], _constant(writer, node, np.pi)])
    return str(writer.emit("Where", [minus[1], writer.emit("Add", [angle, half_turn]), angle]))


def _bits(node: Node) -> int:
    return 8 * node.result.dtype.numpy.itemsize


def _powers(writer: Any, node: Node, amount: str, most: int) -> tuple[str, str]:
    """Return 2 to the power of `amount`, and whether that is outside of 0 to `most`."""
    wide = writer.emit("Cast", [amount], to=TensorProto.INT64)
    low, high = (writer.array(np.asarray(bound, np.int64)) for bound in (0, most))
    outside = writer.emit(
        "Or", [writer.emit("Less", [wide, low]), writer.emit("Greater", [wide, high])]
    )
    numbers = np.left_shift(np.uint64(1), np.arange(most + 1, dtype=np.uint64))
    table = writer.array(numbers.astype(node.result.dtype.numpy))
    place = writer.emit("Where", [outside, low, wide])
    return writer.emit("Gather", [table, place]), outside


@export_rule("shift_left")
def shift_left(writer: Any, node: Node, x: str, amount: str) -> str:
    """A product with a power of two, which wraps."""
    power, outside = _powers(writer, node, amount, _bits(node) - 1)
    found = writer.emit("Mul", [x, power])
    return str(writer.emit("Where", [outside, _constant(writer, node, 0), found]))


@export_rule("shift_right")
def shift_right(writer: Any, node: Node, x: str, amount: str) -> str:
    """A quotient by a power of two that is rounded down; all bits beyond are those of the sign."""
    signed = np.issubdtype(node.result.dtype.numpy, np.signedinteger)
    power, outside = _powers(writer, node, amount, _bits(node) - 1 - signed)
    whole = writer.emit("Sub", [x, writer.emit("Mod", [x, power])])
    rest = zero = _constant(writer, node, 0)
    if signed:
        is_below = writer.emit("Less", [x, zero])
        rest = writer.emit("Where", [is_below, _constant(writer, node, -1), zero])
    return str(writer.emit("Where", [outside, rest, writer.emit("Div", [whole, power])]))
