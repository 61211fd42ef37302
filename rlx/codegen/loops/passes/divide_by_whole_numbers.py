"""Strength reduction of vector divisions by whole numbers: the same bits in less time.

    y[i; 16] = x[i; 16] / splat16(6.0)    ->    y[i; 16] = divide_by_6_f32(x[i; 16])

Scalars stay: there the division's latency is that of the products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rlx.codegen.loops.math.division import divide_by, has_exact_quotient
from rlx.codegen.loops.nodes import Binary, BinaryOp, Call, Const, Expr, Kernel, Prim, Splat
from rlx.codegen.loops.visit import all_expressions, rewrite_block


def divide_by_whole_numbers(fused: frozenset[Prim]) -> Callable[[Kernel], Kernel]:
    """Return the pass for a target with multiply-adds of the types `fused`."""

    def divisor(expr: Expr) -> float | None:
        """Return the whole number by which a vector is divided, if it is one."""
        match expr:
            case Binary(BinaryOp.DIV, _, Const(value) | Splat(Const(value))):
                number, type = float(value), expr.type
                exact = type.prim in fused and has_exact_quotient(number, type.prim)
                return number if type.lanes > 1 and exact else None
            case _:
                return None

    def at(expr: Expr) -> Expr:
        by = divisor(expr)
        if by is None or not isinstance(expr, Binary):
            return expr
        return Call(divide_by(by, expr.type.prim), (expr.a,))

    def run(kernel: Kernel) -> Kernel:
        if all(divisor(expr) is None for expr in all_expressions(kernel.body)):
            return kernel
        return replace(kernel, body=rewrite_block(kernel.body, at))

    return run
