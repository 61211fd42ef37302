"""One element of an elementwise op, on values in compute type.

Real arithmetic is the loop language's scalar table, c64 the formulas of `complexes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rlx.codegen.kernels.complexes import as_complex, complex_element
from rlx.codegen.kernels.values import Complex, Scalar, narrow, real, widen
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import (
    Binary,
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
from rlx.codegen.loops.scalar import cast_expression, scalar_expression
from rlx.ir.dtype import DType
from rlx.ir.graph import Node


def element(node: Node, operands: Sequence[Scalar]) -> Scalar:
    """Return the element that `node` computes from elements of its operands."""
    if node.op.name == "cast":
        source, rounding = node.operands[0].dtype, node.attribute("rounding")
        return cast(operands[0], source, node.result.dtype, rounding=rounding)
    if node.result.dtype.is_complex or any(isinstance(x, Complex) for x in operands):
        return complex_element(node.op.name, operands)
    return scalar_expression(node.op.name, [real(operand) for operand in operands])


def cast(value: Scalar, source: DType, to: DType, *, rounding: str = "trunc") -> Scalar:
    """Convert between dtypes; f16 and bf16 round here although they stay in f32."""
    if to is source:
        return value
    if to.is_complex:
        return as_complex(cast(value, source, DType.F32))
    if isinstance(value, Complex):
        if to is DType.BOOL:
            return value.re.ne(0.0) | value.im.ne(0.0)
        return cast(value.re, DType.F32, to)
    if to.is_low_precision:
        single = cast_expression(value, storage(DType.F32), rounding=rounding)
        return widen(narrow(single, to), to)
    return cast_expression(value, storage(to), rounding=rounding)


def uses_once(result: Scalar, operand: Scalar) -> bool:
    """True unless computing `result` repeats the work of `operand`."""
    if isinstance(operand, Complex):
        return uses_once(result, operand.re) and uses_once(result, operand.im)
    if isinstance(operand.node, (Var, Const)):
        return True
    parts = [result.re, result.im] if isinstance(result, Complex) else [result]
    return sum(_occurrences(part.node, operand) for part in parts) <= 1


def _occurrences(expression: Expr, operand: E) -> int:
    if expression is operand.node:
        return 1
    return sum(_occurrences(part, operand) for part in _parts(expression))


def _parts(expression: Expr) -> tuple[Expr, ...]:
    match expression:
        case Unary(_, x) | Cast(x, _):
            return (x,)
        case Binary(_, a, b) | Compare(_, a, b):
            return (a, b)
        case Select(condition, a, b):
            return (condition, a, b)
        case Call(_, args):
            return args
        case _:
            return ()
