"""Expansion of fused multiply-adds, for targets without the instruction.

    y[i] = fma(a, b, c)    ->    y[i] = a * b + c

As a call of the C library a multiply-add takes twenty times as long. Math functions are rewritten
with the kernels that call them: their bounds hold for both forms. Where an algorithm rests on the
single rounding, the product's rest is computed (`math/multiply_add.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from rlx.codegen.loops.math.multiply_add import exact_multiply_add
from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Call,
    Expr,
    Fma,
    Function,
    Kernel,
    Let,
    Prim,
)
from rlx.codegen.loops.visit import rewrite_block, rewrite_expression


def separate_multiply_adds(lacking: frozenset[Prim]) -> Callable[[Kernel], Kernel]:
    """Return the pass for a target without multiply-adds of the types `lacking`."""

    def run(kernel: Kernel) -> Kernel:
        if not lacking:
            return kernel
        body = rewrite_block(kernel.body, lambda expr: _separated(expr, lacking))
        return replace(kernel, body=body)

    return run


@cache
def separate_function(function: Function, lacking: frozenset[Prim]) -> Function:
    """Return a math function, and those that it calls, without multiply-adds of `lacking`."""

    def at(expr: Expr) -> Expr:
        return rewrite_expression(expr, lambda inner: _separated(inner, lacking))

    lets = tuple(Let(let.var, at(let.value)) for let in function.lets)
    return replace(function, lets=lets, result=at(function.result))


def _separated(expr: Expr, lacking: frozenset[Prim]) -> Expr:
    match expr:
        case Fma(a, b, c, exact) if expr.type.prim in lacking:
            if exact:
                return Call(exact_multiply_add(expr.type.prim), (a, b, c))
            return Binary(BinaryOp.ADD, Binary(BinaryOp.MUL, a, b), c)
        case Call(function, args):
            return Call(separate_function(function, lacking), args)
        case _:
            return expr
