"""One element of an elementwise op, on values in compute type.

The formulas are the loop language's scalar tables, for real and for complex numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.kernels.values import Complex, Scalar, parts_of
from rlx.codegen.loops.complex_functions import complex_function
from rlx.codegen.loops.complex_scalar import as_pair
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.math.storage import from_storage, rounded, to_storage
from rlx.codegen.loops.nodes import (
    Binary,
    Bitcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Select,
    Unary,
    Var,
    storage,
)
from rlx.codegen.loops.scalar import is_library_function, scalar_function
from rlx.ir.graph import Node
from rlx.ir.op import Trait


def element(node: Node, operands: Sequence[Scalar]) -> Scalar:
    """Return the element that `node` computes from elements of its operands.

    It has the precision of its dtype, whatever the type it is computed in: a value is the same
    whether it is stored or read by the rest of its kernel.
    """
    name, attributes = node.op.name, node.attrs.as_dict()
    if name == "cast" and node.result.dtype is node.operands[0].dtype:
        return operands[0]
    if name == "cast" and node.result.dtype.is_complex:
        return Complex(*as_pair(parts_of(operands[0]), storage(node.result.dtype)))
    if name == "bitcast":
        return _bitcast(node, *parts_of(operands[0]))
    if node.result.dtype.is_complex or any(isinstance(x, Complex) for x in operands):
        pairs = [parts_of(x) if isinstance(x, Complex) else x for x in operands]
        result = complex_function(name)(*pairs, **attributes)
        return Complex(*result) if isinstance(result, tuple) else result
    result = scalar_function(name)(*operands, **attributes)
    if node.op.has(Trait.EXACT):
        return result
    dtype = node.result.dtype
    is_arithmetic = not is_library_function(name) and node.operands[0].dtype is dtype
    return rounded(result, dtype, is_arithmetic=is_arithmetic)


def _bitcast(node: Node, x: E) -> E:
    """Through the form that memory has, as 16-bit floats are computed in f32."""
    bits = to_storage(x, node.operands[0].dtype)
    return from_storage(bits.bitcast(storage(node.result.dtype)), node.result.dtype)


def uses_once(result: Scalar, operand: Scalar) -> bool:
    """True unless computing `result` repeats the work of `operand`."""
    return all(_used(result, part) for part in parts_of(operand))


def _used(result: Scalar, operand: E) -> bool:
    if isinstance(operand.node, (Var, Const)):
        return True
    return sum(_occurrences(part.node, operand) for part in parts_of(result)) <= 1


def _occurrences(expression: Expr, operand: E) -> int:
    if expression is operand.node:
        return 1
    return sum(_occurrences(part, operand) for part in _operands(expression))


def _operands(expression: Expr) -> tuple[Expr, ...]:
    match expression:
        case Unary(_, x) | Cast(x, _) | Bitcast(x, _):
            return (x,)
        case Binary(_, a, b) | Compare(_, a, b):
            return (a, b)
        case Select(condition, a, b):
            return (condition, a, b)
        case Call(_, args):
            return args
        case _:
            return ()
