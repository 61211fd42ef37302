"""Static single assignment of variables, and copy propagation.

A variable that only its own block assigns becomes one value per assignment; copies and literals
are read where they are used:

var a = 0.0                             let a = x[0] * 2.0
a = x[0] * 2.0               ->         y[0] = a + 0.5
let half = 0.5
y[0] = a + half

Others are declared where they get their first value, so that no idle one is stored before.
Names are unique in a kernel, which its verifier demands: a name denotes one variable.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field, replace

from rlx.codegen.loops.nodes import (
    Assign,
    Block,
    Const,
    Declare,
    Expr,
    For,
    Kernel,
    Let,
    Stmt,
    Var,
)
from rlx.codegen.loops.passes.effects import effects
from rlx.codegen.loops.passes.names import Names
from rlx.codegen.loops.visit import blocks, evaluated, map_blocks, rewrite_own, walk
from rlx.dataclass import dataclass


def single_assignment(kernel: Kernel) -> Kernel:
    """Return `kernel` with values in place of variables, where blocks allow it."""
    body = _Versions(Names(kernel)).block(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


@dataclass(slots=True)
class _Versions:
    names: Names
    current: dict[str, Expr] = field(default_factory=dict)
    """Current value of a variable: a literal, or the value that was assigned last."""
    mutable: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def block(self, body: Block) -> Block:
        last = _last_assignments(body)
        declared = {s.var.name for s in body if isinstance(s, Declare)}
        straight = declared - _assigned_inside(body)
        self.mutable |= declared - straight
        result: list[Stmt] = []
        for position, statement in enumerate(body):
            plain = rewrite_own(statement, self._value)
            match plain:
                case Let(var, value) | Declare(var, value) | Assign(var, value) if (
                    isinstance(plain, Let) or var.name in straight
                ):
                    if self._is_settled(value, declared, last, position):
                        self.current[var.name] = value
                    else:
                        result.append(self._version(plain, var, value))
                case _:
                    result.append(map_blocks(plain, self.block))
        return _declared_late(tuple(result), declared - straight)

    def _value(self, expr: Expr) -> Expr:
        return self.current.get(expr.name, expr) if isinstance(expr, Var) else expr

    def _version(self, statement: Let | Declare | Assign, var: Var, value: Expr) -> Let:
        """Return what binds a variable from here on."""
        if isinstance(statement, Let):
            return statement
        if var.name in self.bound:
            var = Var(self.names.fresh(var.name), var.type)
        self.bound.add(var.name)
        self.current[statement.var.name] = var
        return Let(var, value)

    def _is_settled(
        self, value: Expr, declared: Collection[str], last: dict[str, int], position: int
    ) -> bool:
        """True for a literal, and for a variable that nothing assigns from here on."""
        if not isinstance(value, Var):
            return isinstance(value, Const)
        if value.name not in self.mutable:
            return True
        return value.name in declared and last.get(value.name, -1) < position


def _given(statement: Stmt) -> set[str]:
    """Return the variables that a statement itself assigns, as a loop does its accumulators."""
    if isinstance(statement, For):
        return {var.name for var, _ in statement.accumulators}
    return {statement.var.name} if isinstance(statement, Assign) else set()


def _assigned_inside(body: Block) -> set[str]:
    """Return the variables that loops and branches in `body` assign."""
    found: set[str] = set()
    for statement in body:
        if isinstance(statement, For):
            found |= _given(statement)
        for inner in blocks(statement):
            found.update(*map(_given, walk(inner)))
    return found


def _last_assignments(body: Block) -> dict[str, int]:
    """Return where in `body` each variable is assigned last."""
    last: dict[str, int] = {}
    for position, statement in enumerate(body):
        for inner in walk((statement,)):
            last.update(dict.fromkeys(_given(inner), position))
    return last


def _declared_late(body: Block, names: Collection[str]) -> Block:
    """Declare the variables of `names` where they are assigned first, if nothing reads before."""
    if not names:
        return body
    waiting: dict[str, int] = {}
    result: list[Stmt | None] = []
    for statement in body:
        if isinstance(statement, Assign) and statement.var.name in waiting:
            reads = {e.name for e in evaluated(statement) if isinstance(e, Var)}
            if statement.var.name not in reads:
                result[waiting.pop(statement.var.name)] = None
                statement = Declare(statement.var, statement.value)
        for name in effects((statement,)).uses if waiting else ():
            waiting.pop(name, None)
        if isinstance(statement, Declare) and statement.var.name in names:
            waiting[statement.var.name] = len(result)
        result.append(statement)
    return tuple(statement for statement in result if statement is not None)
