"""Scalarization: vectors become their lanes, for targets without vectors.

    let x: f32x2 = a[i; 2] * splat2(s)    ->    let x.0: f32 = a[i] * s
                                                let x.1: f32 = a[i + 1] * s

Kernels that choose their lanes by the target have no vectors here; it is for those whose
blocks have a fixed number of lanes. Folds keep their order, so that the bits stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Assign,
    Binary,
    BinaryOp,
    Block,
    Const,
    Declare,
    Expr,
    Fold,
    Kernel,
    Lane,
    Let,
    Load,
    Prim,
    Ramp,
    Shuffle,
    Splat,
    Stmt,
    Store,
    ValueType,
    Var,
    While,
)
from rlx.codegen.loops.passes.names import Names, fold
from rlx.codegen.loops.visit import (
    all_expressions,
    map_blocks,
    operands,
    rewrite_own,
    walk_expression,
    with_operands,
)


def devectorize(kernel: Kernel) -> Kernel:
    """Return `kernel` without vectors."""
    if all(expr.type.lanes == 1 for expr in all_expressions(kernel.body)):
        return kernel
    return replace(kernel, body=_Scalarizer(Names(kernel)).block(kernel.body))


class _Scalarizer:
    """Rewrites statements; what several lanes share is bound before the statement."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._before: list[Stmt] = []

    def block(self, block: Block) -> Block:
        result: list[Stmt] = []
        for statement in block:
            new = self._statement(statement)
            result += self._taken()
            result += new
        return tuple(result)

    def _taken(self) -> list[Stmt]:
        bound, self._before = self._before, []
        return bound

    def _statement(self, statement: Stmt) -> Sequence[Stmt]:
        match statement:
            case Let() | Declare() if statement.var.type.lanes > 1:
                lanes = zip(_lanes_of(statement.var), self._parts(statement.value), strict=True)
                return [replace(statement, var=var, value=value) for var, value in lanes]
            case Assign(var, value) if var.type.lanes > 1:
                parts = self._named(self._parts(value))
                return [Assign(v, p) for v, p in zip(_lanes_of(var), parts, strict=True)]
            case Store(buffer, index, value) if value.type.lanes > 1:
                at, parts = self._shared(self._scalar(index)), self._named(self._parts(value))
                return [Store(buffer, _plus(at, i), part) for i, part in enumerate(parts)]
            case While(condition, body):
                return [While(self._again(condition), self.block(body))]
            case _:
                own = rewrite_own(statement, self._without_vectors)
                outer = self._taken()
                inner = map_blocks(own, self.block)
                self._before = outer
                return [inner]

    def _without_vectors(self, expr: Expr) -> Expr:
        """Rewrite a scalar that is computed from vectors; called bottom up, for each once."""
        below = (inner.type.lanes > 1 for inner in walk_expression(expr))
        return self._scalar(expr) if expr.type.lanes == 1 and any(below) else expr

    def _again(self, condition: Expr) -> Expr:
        """Return a condition that is evaluated at every trip: nothing is bound before it."""
        scalar = self._scalar(condition)
        bound = {s.var.name: s.value for s in self._taken() if isinstance(s, Let)}
        return _substituted(scalar, bound)

    def _named(self, parts: Sequence[Expr]) -> list[Expr]:
        """Bind the lanes before any of them is written."""
        return [self._shared(part) for part in parts]

    def _shared(self, expr: Expr) -> Expr:
        """Bind what several lanes read, unless it is a name already."""
        if isinstance(expr, Const | Var):
            return expr
        var = Var(self._names.fresh("lane"), expr.type)
        self._before.append(Let(var, expr))
        return var

    def _parts(self, expr: Expr) -> list[Expr]:
        """Return the lanes of a vector."""
        lanes, one = expr.type.lanes, ValueType(expr.type.prim)
        match expr:
            case Const(value):
                return [Const(value, one)] * lanes
            case Var():
                return [*_lanes_of(expr)]
            case Load(buffer, index):
                at = self._shared(self._scalar(index))
                return [Load(buffer, _plus(at, i)) for i in range(lanes)]
            case Splat(x):
                return [self._shared(self._scalar(x))] * lanes
            case Ramp(base):
                at = self._shared(self._scalar(base))
                return [_plus(at, i) for i in range(lanes)]
            case Shuffle(a, b, positions):
                both = [*self._lanes(a), *self._lanes(b)]
                return [both[position] for position in positions]
            case _:
                columns = zip(*map(self._parts, operands(expr)), strict=True)
                return [with_operands(expr, column) for column in columns]

    def _lanes(self, expr: Expr) -> list[Expr]:
        """Return the lanes of a vector, or the scalar that it is of one lane."""
        return self._parts(expr) if expr.type.lanes > 1 else [self._scalar(expr)]

    def _scalar(self, expr: Expr) -> Expr:
        """Return a scalar without the vectors below it."""
        match expr:
            case Lane(x, lane):
                return self._lanes(x)[lane]
            case Fold(op, x):
                return self._folded(op, self._lanes(x))
            case Shuffle(a, b, (position,)):
                return [*self._lanes(a), *self._lanes(b)][position]
            case Splat(x) | Ramp(x):
                return self._scalar(x)
            case _:
                return with_operands(expr, tuple(map(self._scalar, operands(expr))))

    def _folded(self, op: BinaryOp, lanes: list[Expr]) -> Expr:
        while len(lanes) > 1:
            half = len(lanes) // 2
            pairs = zip(lanes[:half], lanes[half:], strict=True)
            lanes = [self._shared(Binary(op, a, b)) for a, b in pairs]
        return lanes[0]


def _substituted(expr: Expr, bound: dict[str, Expr]) -> Expr:
    if isinstance(expr, Var) and expr.name in bound:
        return _substituted(bound[expr.name], bound)
    return with_operands(expr, tuple(_substituted(x, bound) for x in operands(expr)))


def _lanes_of(var: Var) -> list[Var]:
    one = ValueType(var.type.prim)
    return [Var(f"{var.name}.{lane}", one) for lane in range(var.type.lanes)]


def _plus(at: Expr, lane: int) -> Expr:
    if lane == 0:
        return at
    number = Const(lane, ValueType(at.type.prim))
    if at.type.prim is Prim.I64:
        return fold(Binary(BinaryOp.ADD, at, number))
    return Binary(BinaryOp.ADD, at, number)
