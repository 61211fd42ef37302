"""Function vectorization: a scalar function over vectors, every value in `lanes` lanes."""

from __future__ import annotations

from rlx.codegen.loops.nodes import (
    Binary,
    Bitcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fma,
    Function,
    Let,
    Select,
    Unary,
    ValueType,
    Var,
)
from rlx.errors import InternalError


def lift_function(function: Function, lanes: int) -> Function:
    """Return `function` with every parameter, let and result widened to `lanes`."""
    if lanes == 1:
        return function
    return Function(
        name=f"{function.name}.x{lanes}",
        params=tuple(_lift_var(param, lanes) for param in function.params),
        lets=tuple(
            Let(_lift_var(let.var, lanes), _lift(let.value, lanes)) for let in function.lets
        ),
        result=_lift(function.result, lanes),
        doc=function.doc,
    )


def _lift_var(var: Var, lanes: int) -> Var:
    return Var(var.name, ValueType(var.type.prim, lanes))


def _lift(expr: Expr, lanes: int) -> Expr:
    match expr:
        case Const():
            return Const(expr.value, ValueType(expr.type.prim, lanes))
        case Var():
            return _lift_var(expr, lanes)
        case Unary(op, x):
            return Unary(op, _lift(x, lanes))
        case Binary(op, a, b):
            return Binary(op, _lift(a, lanes), _lift(b, lanes))
        case Compare(relation, a, b):
            return Compare(relation, _lift(a, lanes), _lift(b, lanes))
        case Select(condition, a, b):
            return Select(_lift(condition, lanes), _lift(a, lanes), _lift(b, lanes))
        case Fma(a, b, c, exact):
            return Fma(_lift(a, lanes), _lift(b, lanes), _lift(c, lanes), exact)
        case Cast(x, prim):
            return Cast(_lift(x, lanes), prim)
        case Bitcast(x, prim):
            return Bitcast(_lift(x, lanes), prim)
        case Call(function, args):
            return Call(function, tuple(_lift(arg, lanes) for arg in args))
        case _:
            raise InternalError(f"a scalar function holds {type(expr).__name__}")
