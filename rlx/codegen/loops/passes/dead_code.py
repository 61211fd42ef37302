"""Dead code elimination: values without an observable effect are removed.

local t: f64[4]
let a = x[0] * 2.0          ->      y[0] = x[0]
t[0] = a
y[0] = x[0]
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Assign,
    Block,
    Comment,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    Var,
    While,
)
from rlx.codegen.loops.visit import addresses, evaluated, walk


def dead_code(kernel: Kernel) -> Kernel:
    """Drop values that nothing reads, stores to local buffers that nothing loads, empty blocks."""
    local = {s.buffer.name for s in walk(kernel.body) if isinstance(s, Local)}
    search = _Live(local)
    known = -1
    while known != len(search.names):
        known = len(search.names)
        search.enter(kernel.body)
    body = search.kept(kernel.body)
    return kernel if body == kernel.body else replace(kernel, body=body)


class _Live:
    """The variables and local buffers whose values reach something observable."""

    def __init__(self, local: set[str]) -> None:
        self._local = local
        self.names: set[str] = set()
        self._mentioned: dict[int, frozenset[str]] = {}

    def enter(self, block: Block) -> bool:
        """Note what the live statements of `block` read, last first; True if there is one."""
        found = [self._enter(statement) for statement in reversed(block)]
        return any(found)

    def _enter(self, statement: Stmt) -> bool:
        match statement:
            case For(body=body):
                live = self.enter(body)
            case If(_, then, orelse):
                live = bool(self.enter(then) | self.enter(orelse))
            case While(_, body):
                self.names |= self._reads(statement)
                self.enter(body)
                live = True
            case _:
                live = self.is_live(statement)
        if live:
            self.names |= self._reads(statement)
        return live

    def is_live(self, statement: Stmt) -> bool:
        """True if a statement without blocks does something observable."""
        match statement:
            case Let(var, _) | Declare(var, _) | Assign(var, _):
                return var.name in self.names
            case Local(buffer):
                return buffer.name in self.names
            case Store(buffer=buffer):
                return buffer.name not in self._local or buffer.name in self.names
            case Comment():
                return False
            case _:
                return True

    def kept(self, block: Block) -> Block:
        """Return the live statements of `block` and their comments."""
        result = [kept for statement in block for kept in self._kept(statement)]
        return tuple(result) if any(not isinstance(s, Comment) for s in result) else ()

    def _kept(self, statement: Stmt) -> list[Stmt]:
        match statement:
            case For():
                body = self.kept(statement.body)
                folded = tuple(
                    pair for pair in statement.accumulators if pair[0].name in self.names
                )
                kept: Stmt = replace(statement, body=body, accumulators=folded)
                return [kept] if body else []
            case If():
                then, orelse = self.kept(statement.then), self.kept(statement.orelse)
                return [If(statement.condition, then, orelse)] if then or orelse else []
            case While():
                return [While(statement.condition, self.kept(statement.body))]
            case Comment():
                return [statement]
            case _:
                return [statement] if self.is_live(statement) else []

    def _reads(self, statement: Stmt) -> frozenset[str]:
        if id(statement) not in self._mentioned:
            names = {address.buffer.name for address in addresses(statement)}
            for expr in evaluated(statement):
                if isinstance(expr, Var):
                    names.add(expr.name)
                elif isinstance(expr, Load):
                    names.add(expr.buffer.name)
            self._mentioned[id(statement)] = frozenset(names)
        return self._mentioned[id(statement)]
