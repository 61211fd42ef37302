"""Common subexpression elimination: one variable per value.

let a = x[i] * 2.0              let a = x[i] * 2.0
let b = x[i] * 2.0      ->      y[i] = a + a
y[i] = a + b
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Block,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    While,
)
from rlx.codegen.loops.passes.effects import effects, may_overlap, mutable_names
from rlx.codegen.loops.passes.names import substituted
from rlx.codegen.loops.visit import (
    map_blocks,
    rewrite_expression,
    walk_expression,
)


def common_subexpressions(kernel: Kernel) -> Kernel:
    """Return `kernel` with `let`s of equal values merged into the first that dominates."""
    merging = _Merging(mutable_names(kernel.body))
    body = merging.block(kernel.body, {})
    if not merging.equal:
        return kernel
    return replace(kernel, body=substituted(body, merging.equal))


class _Merging:
    def __init__(self, changing: set[str]) -> None:
        self._changing = changing
        self.equal: dict[str, Expr] = {}
        """Dropped variables, and the ones that have their values."""

    def block(self, body: Block, known: dict[Expr, Var]) -> Block:
        return tuple(s for statement in body for s in self._statement(statement, known))

    def _statement(self, statement: Stmt, known: dict[Expr, Var]) -> Iterable[Stmt]:
        match statement:
            case Let(var, value):
                return self._let(var, value, known)
            case For() | While():
                _forget(known, effects([statement]).writes)
                return [map_blocks(statement, lambda body: self.block(body, dict(known)))]
            case If():
                inner = map_blocks(statement, lambda body: self.block(body, dict(known)))
                _forget(known, effects([statement]).writes)
                return [inner]
            case Store(buffer=buffer):
                _forget(known, {buffer})
            case _:
                _forget(known, effects([statement]).writes)
        return [statement]

    def _let(self, var: Var, value: Expr, known: dict[Expr, Var]) -> list[Stmt]:
        plain = rewrite_expression(value, self._renamed)
        if any(isinstance(e, Var) and e.name in self._changing for e in walk_expression(plain)):
            return [Let(var, value)]
        if plain in known:
            self.equal[var.name] = known[plain]
            return []
        known[plain] = var
        return [Let(var, value)]

    def _renamed(self, expr: Expr) -> Expr:
        return self.equal.get(expr.name, expr) if isinstance(expr, Var) else expr


def _forget(known: dict[Expr, Var], written: Iterable[Buffer]) -> None:
    """Forget the values that were read from what is written."""
    buffers = list(written)
    for value in list(known) if buffers else ():
        loads = (e for e in walk_expression(value) if isinstance(e, Load))
        if any(may_overlap(load.buffer, buffer) for load in loads for buffer in buffers):
            del known[value]
