"""Names: fresh ones for what a pass binds, and expressions put in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlx.codegen.loops.expr import E, binary
from rlx.codegen.loops.nodes import (
    Address,
    Assign,
    Atomic,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Const,
    Declare,
    Expr,
    External,
    For,
    Invoke,
    Kernel,
    Let,
    Load,
    Local,
    Prefetch,
    Prim,
    Stmt,
    Store,
    TileStep,
    Var,
)
from rlx.codegen.loops.passes.effects import bound_names
from rlx.codegen.loops.visit import (
    map_blocks,
    rewrite_statement,
    walk,
)


class Names:
    """The names that a kernel binds."""

    def __init__(self, kernel: Kernel) -> None:
        self._taken = {buffer.name for buffer in kernel.buffers}
        self._taken |= {scalar.name for scalar in kernel.scalars}
        self._last: dict[str, int] = {}
        for statement in walk(kernel.body):
            self._taken |= bound_names(statement)

    def fresh(self, name: str) -> str:
        """Return `name`, or `name_2`, `name_3`, ... if it is taken."""
        number, found = self._last.get(name, 1), name
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._last[name] = number
        self._taken.add(found)
        return found

    def release(self, statement: Stmt) -> None:
        """Let the names be used again that a statement binds, as it is going to be replaced."""
        for inner in walk((statement,)):
            for name in bound_names(inner) if not isinstance(inner, Assign) else ():
                self._taken.discard(name)


def fold(expr: Expr) -> Expr:
    """Return integer arithmetic on literals folded, constants of a sum gathered on its right."""
    if not isinstance(expr, Binary) or not expr.type.prim.is_int or expr.type.lanes != 1:
        return expr
    a, b = expr.a, expr.b
    if expr.op is BinaryOp.ADD and expr.type.prim is Prim.I64:
        if isinstance(a, Const):
            a, b = b, a
        if isinstance(b, Const) and isinstance(a, Binary) and a.op is BinaryOp.ADD:
            inner = a.b
            if isinstance(inner, Const):
                total = Const(int(inner.value) + int(b.value), inner.type)
                return binary(BinaryOp.ADD, E(a.a), E(total)).node
    folded = binary(expr.op, E(a), E(b)).node
    return expr if folded == expr else folded


class Renaming:
    """Rewrites a block over other expressions for its variables and other local buffers."""

    def __init__(self, known: Mapping[str, Expr], buffers: Mapping[str, Buffer]) -> None:
        self._known = dict(known)
        self._buffers = dict(buffers)

    def expression(self, expr: Expr) -> Expr:
        match expr:
            case Var(name, _):
                return self._known.get(name, expr)
            case Load(buffer, _, _) if buffer.name in self._buffers:
                return replace(expr, buffer=self._buffers[buffer.name])
            case Binary():
                return fold(expr)
            case _:
                return expr

    def block(self, body: Block) -> Block:
        return tuple(self._rebound(rewrite_statement(s, self.expression)) for s in body)

    def _var(self, var: Var) -> Var:
        known = self._known.get(var.name, var)
        return known if isinstance(known, Var) else var

    def _buffer(self, buffer: Buffer) -> Buffer:
        return self._buffers.get(buffer.name, buffer)

    def _moved(self, address: Address) -> Address:
        return replace(address, buffer=self._buffer(address.buffer))

    def _rebound(self, statement: Stmt) -> Stmt:
        """Rename what a statement, and what is nested in it, binds."""
        inner = map_blocks(statement, lambda body: tuple(self._rebound(s) for s in body))
        match inner:
            case Let() | Declare() | Assign():
                return replace(inner, var=self._var(inner.var))
            case Local() | Store() | Prefetch():
                return replace(inner, buffer=self._buffer(inner.buffer))
            case For():
                folded = tuple((self._var(var), op) for var, op in inner.accumulators)
                return replace(inner, var=self._var(inner.var), accumulators=folded)
            case External():
                args = tuple(self._moved(x) if isinstance(x, Address) else x for x in inner.args)
                return replace(inner, args=args, result=inner.result and self._var(inner.result))
            case TileStep():
                return replace(inner, address=inner.address and self._moved(inner.address))
            case Invoke():
                return replace(inner, buffers=tuple(self._moved(x) for x in inner.buffers))
            case Atomic():
                result = inner.result and self._var(inner.result)
                return replace(inner, buffer=self._buffer(inner.buffer), result=result)
            case _:
                return inner


def substituted(body: Block, known: Mapping[str, Expr]) -> Block:
    """Return `body` with expressions in the place of variables it reads."""
    return Renaming(known, {}).block(body)


def copied(body: Block, known: Mapping[str, Expr], names: Names) -> Block:
    """Return a copy of `body` that binds fresh names, with expressions for some variables."""
    fresh, buffers = dict(known), dict[str, Buffer]()
    for statement in walk(body):
        _bind(statement, fresh, buffers, names)
    return Renaming(fresh, buffers).block(body)


def kept_apart(body: Block, names: Names) -> Block:
    """Return `body` with fresh names where its statements bind a name again."""
    fresh, buffers, result = dict[str, Expr](), dict[str, Buffer](), list[Stmt]()
    for statement in body:
        for inner in walk((statement,)):
            _bind(inner, fresh, buffers, names)
        result += Renaming(fresh, buffers).block((statement,))
    return tuple(result)


def _bind(
    statement: Stmt, fresh: dict[str, Expr], buffers: dict[str, Buffer], names: Names
) -> None:
    """Enter fresh names for what a statement itself binds."""
    match statement:
        case Let(var, _) | Declare(var, _) | For(var=var):
            fresh[var.name] = Var(names.fresh(var.name), var.type)
        case External(result=result) | Atomic(result=result) if result is not None:
            fresh[result.name] = Var(names.fresh(result.name), result.type)
        case Local(buffer):
            buffers[buffer.name] = replace(buffer, name=names.fresh(buffer.name))
        case _:
            pass
