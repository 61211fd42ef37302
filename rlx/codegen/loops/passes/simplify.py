"""Simplification by what integers can be: no loop of one trip or none, no idle remainder.

for row in 0 .. 8:
  for i in 0 .. 4 step 4:                      for row in 0 .. 8:
    y[row % 8 + i] = x[row / 8]       ->         y[row] = x[0]
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from typing import Any

from rlx.codegen.loops.nodes import (
    Binary,
    BinaryOp,
    Block,
    Compare,
    CompareOp,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    LoopKind,
    Prim,
    Stmt,
    ValueType,
    Var,
)
from rlx.codegen.loops.passes.names import fold, substituted
from rlx.codegen.loops.passes.ranges import Range, Ranges
from rlx.codegen.loops.visit import (
    blocks,
    evaluated,
    map_blocks,
    rewrite_own,
)
from rlx.dataclass import dataclass

_INDEX = ValueType(Prim.I64)
_ZERO = Const(0, _INDEX)
_BOOL = ValueType(Prim.BOOL)
_TRUE = Const(True, _BOOL)
_COMPARED: dict[CompareOp, Callable[[Any, Any], bool]] = {
    CompareOp.LT: operator.lt,
    CompareOp.LE: operator.le,
    CompareOp.GT: operator.gt,
    CompareOp.GE: operator.ge,
    CompareOp.EQ: operator.eq,
    CompareOp.NE: operator.ne,
}


def simplify(kernel: Kernel) -> Kernel:
    """Return `kernel` without loops of one trip or none and without arithmetic that is idle."""
    if not _has_work(kernel.body):
        return kernel
    return replace(kernel, body=_Simplifier().block(kernel.body))


def _has_work(body: Block) -> bool:
    """True if there is something that might be simplified: most kernels have nothing."""
    for statement in body:
        if isinstance(statement, If) and isinstance(statement.condition, Const):
            return True
        if isinstance(statement, For) and _trips(statement) in (0, 1):
            return True
        if any(map(_is_idle, evaluated(statement))):
            return True
        if any(map(_has_work, blocks(statement))):
            return True
    return False


@dataclass(slots=True)
class _Simplifier:
    ranges: Ranges = field(default_factory=Ranges)
    known: dict[str, Expr] = field(default_factory=dict)
    """Variables whose values have become literals or other variables that nothing assigns."""
    mutable: set[str] = field(default_factory=set)

    def block(self, body: Block) -> Block:
        return tuple(plain for statement in body for plain in self._statement(statement))

    def _statement(self, statement: Stmt) -> Iterator[Stmt]:
        plain = rewrite_own(statement, self._expression)
        match plain:
            case For():
                yield from self._loop(plain)
            case If(Const(value), then, orelse):
                yield from self.block(then if value else orelse)
            case Let(var, Const() | Var() as value) if self._is_new(value, statement):
                self.known[var.name] = value
            case Let(var, value) if var.type == _INDEX:
                self.ranges.note(var, self.ranges.of(value))
                yield plain
            case Declare(var, _):
                self.mutable.add(var.name)
                yield plain
            case _:
                yield map_blocks(plain, self.block)

    def _is_new(self, value: Const | Var, statement: Stmt) -> bool:
        """True if `statement` binds `value` now, and did not before; it must stay that value."""
        fixed = isinstance(value, Const) or value.name not in self.mutable
        return fixed and value != _value(statement)

    def _loop(self, loop: For) -> Iterator[Stmt]:
        trips = _trips(loop)
        if trips == 0:
            return
        if trips == 1 and loop.kind is not LoopKind.PARALLEL:
            yield from self.block(substituted(loop.body, {loop.var.name: loop.start}))
            return
        first, last = self.ranges.of(loop.start)[0], self.ranges.of(loop.stop)[1] - 1
        if trips is not None:
            last = first + (trips - 1) * loop.step
        self.ranges.note(loop.var, (first, last))
        yield replace(loop, body=self.block(loop.body))

    def _expression(self, expr: Expr) -> Expr:
        match expr:
            case Var(name, _):
                return self.known.get(name, expr)
            case Binary(op, a, b) if _is_division(expr):
                if _is_below(self.ranges.of(a), b):
                    return a if op is BinaryOp.MOD else _ZERO
                return a if op is BinaryOp.MOD and _is_remainder(a, b) else fold(expr)
            case Binary(_, a, _) if _is_second_zero(expr):
                return a
            case Binary() if _is_clamp(expr):
                return self._unclamped(expr)
            case Binary(BinaryOp.AND, a, b) if expr.type == _BOOL:
                return a if b == _TRUE else b if a == _TRUE else expr
            case Binary():
                return fold(expr)
            case Compare(op, Const(a), Const(b)) if expr.type == _BOOL:
                return Const(_COMPARED[op](a, b), _BOOL)
            case _:
                return expr

    def _unclamped(self, expr: Binary) -> Expr:
        """Return the side of a minimum or maximum that always wins, if one does."""
        less, more = (expr.a, expr.b) if expr.op is BinaryOp.MIN else (expr.b, expr.a)
        if self.ranges.of(less)[1] <= self.ranges.of(more)[0]:
            return expr.a
        if self.ranges.of(more)[1] <= self.ranges.of(less)[0]:
            return expr.b
        return fold(expr)


def _value(statement: Stmt) -> Expr | None:
    return statement.value if isinstance(statement, Let) else None


def _trips(loop: For) -> int | None:
    """Return how often a loop runs, where that is known."""
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
        return None
    return len(range(int(loop.start.value), int(loop.stop.value), loop.step))


def _is_division(expr: Expr) -> bool:
    is_division = isinstance(expr, Binary) and expr.op in (BinaryOp.MOD, BinaryOp.DIV)
    return is_division and expr.type == _INDEX


def _is_clamp(expr: Expr) -> bool:
    """True for the lesser or greater of two indices."""
    is_extremum = isinstance(expr, Binary) and expr.op in (BinaryOp.MIN, BinaryOp.MAX)
    return is_extremum and expr.type == _INDEX


def _is_idle(expr: Expr) -> bool:
    """True for what `simplify` may make less of."""
    if isinstance(expr, Binary):
        return _is_division(expr) or _is_clamp(expr) or _is_second_zero(expr)
    return _is_decided(expr)


def _is_second_zero(expr: Expr) -> bool:
    """True if a float gets a zero added to it that it got before: -0.0 is 0.0 since then."""
    match expr:
        case Binary(BinaryOp.ADD, Binary(BinaryOp.ADD, _, Const() as first), Const() as second):
            return expr.type.prim.is_float and first == second == Const(0.0, expr.type)
        case _:
            return False


def _is_decided(expr: Expr) -> bool:
    """True if a comparison has literals on either side."""
    return isinstance(expr, Compare) and isinstance(expr.a, Const) and isinstance(expr.b, Const)


def _is_below(range: Range, limit: Expr) -> bool:
    """True if all of a range is in [0, limit)."""
    return isinstance(limit, Const) and range[0] >= 0 and range[1] < limit.value


def _is_remainder(expr: Expr, divisor: Expr) -> bool:
    """True if `expr` is a remainder of this divisor already."""
    return isinstance(expr, Binary) and expr.op is BinaryOp.MOD and expr.b == divisor
