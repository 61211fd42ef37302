"""How an integer expression moves with a loop variable: the stride analysis for widening."""

from __future__ import annotations

from collections.abc import Mapping

from rlx.codegen.loops.nodes import Binary, BinaryOp, Const, Expr, Var
from rlx.codegen.loops.visit import operands


def stride(node: Expr, strides: Mapping[str, int | None]) -> int | None:
    """Return what `node` grows by per iteration, or None if that is not one constant.

    `strides` gives the variables bound in the loop; all others are invariant.
    """
    return _stride(node, strides, {})


def _stride(
    node: Expr, strides: Mapping[str, int | None], known: dict[int, int | None]
) -> int | None:
    """Return the stride of a node, of which an expression may hold one in many places."""
    if id(node) not in known:
        known[id(node)] = _found(node, strides, known)
    return known[id(node)]


def _found(
    node: Expr, strides: Mapping[str, int | None], known: dict[int, int | None]
) -> int | None:
    if isinstance(node, Var):
        return strides.get(node.name, 0)
    parts = [_stride(operand, strides, known) for operand in operands(node)]
    if not any(part != 0 for part in parts):
        return 0
    if not isinstance(node, Binary) or not node.type.prim.is_int:
        return None
    left, right = parts
    if left is None or right is None:
        return None
    if node.op is BinaryOp.ADD:
        return left + right
    if node.op is BinaryOp.SUB:
        return left - right
    return _scaled(node, left, right) if node.op is BinaryOp.MUL else None


def _scaled(node: Binary, left: int, right: int) -> int | None:
    if isinstance(node.a, Const):
        return int(node.a.value) * right
    if isinstance(node.b, Const):
        return left * int(node.b.value)
    return None
