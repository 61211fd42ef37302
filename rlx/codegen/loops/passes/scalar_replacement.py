"""Scalar replacement: elements of local buffers become values.

`forward_stores` reads what was stored or loaded before from its variable, instead of memory:

    t[i] = x[i] * 2.0               let value = x[i] * 2.0
    y[i] = t[i] + 1.0       ->      t[i] = value
                                    y[i] = value + 1.0

and `promote_buffers` makes variables of local buffers whose every index is a literal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import TypeAlias

from rlx.codegen.loops.nodes import (
    Assign,
    Block,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Prim,
    Stmt,
    Store,
    ValueType,
    Var,
    While,
)
from rlx.codegen.loops.passes.affine import Affine, Forms
from rlx.codegen.loops.passes.effects import effects, may_overlap, mutable_names
from rlx.codegen.loops.passes.names import Names
from rlx.codegen.loops.visit import (
    addresses,
    evaluated,
    map_blocks,
    rewrite_own,
    walk,
)
from rlx.dataclass import dataclass

Place: TypeAlias = tuple[str, int, Affine]
"""A buffer, the lanes of an access, and the affine form of its index."""


def forward_stores(kernel: Kernel) -> Kernel:
    """Return `kernel` with loads of known elements replaced by the variables that hold them."""
    forwarding = _Forwarding(Names(kernel), Forms(changing=frozenset(mutable_names(kernel.body))))
    forwarding.note_definitions(kernel.body)
    body = forwarding.block(kernel.body, {})
    return kernel if body == kernel.body else replace(kernel, body=body)


@dataclass(slots=True)
class _Forwarding:
    names: Names
    forms: Forms
    buffers: dict[str, Buffer] = field(default_factory=dict)

    def note_definitions(self, body: Block) -> None:
        """Look through the lets of integers when comparing indices."""
        self.forms.definitions = {
            s.var.name: s.value
            for s in walk(body)
            if isinstance(s, Let) and s.var.type.prim.is_int and s.var.type.lanes == 1
        }

    def block(self, body: Block, known: dict[Place, Expr]) -> Block:
        return tuple(s for statement in body for s in self._statement(statement, known))

    def _statement(self, statement: Stmt, known: dict[Place, Expr]) -> Iterator[Stmt]:
        match statement:
            case For() | While():
                self._forget(known, effects([statement]).writes)
                plain = rewrite_own(statement, lambda expr: self._value(expr, known))
                yield map_blocks(plain, lambda body: self.block(body, dict(known)))
            case If():
                plain = rewrite_own(statement, lambda expr: self._value(expr, known))
                yield map_blocks(plain, lambda body: self.block(body, dict(known)))
                self._forget(known, effects([statement]).writes)
            case _:
                plain = rewrite_own(statement, lambda expr: self._value(expr, known))
                yield from self._simple(plain, known)

    def _value(self, expr: Expr, known: dict[Place, Expr]) -> Expr:
        """Return what is known of a load."""
        if not isinstance(expr, Load):
            return expr
        place = self._place(expr.buffer, expr.index, expr.lanes)
        return expr if place is None else known.get(place, expr)

    def _simple(self, statement: Stmt, known: dict[Place, Expr]) -> Iterator[Stmt]:
        """Yield a statement without blocks, and learn from it."""
        match statement:
            case Let(var, Load(buffer, index, lanes)):
                place = self._place(buffer, index, lanes)
                if place is not None:
                    known[place] = var
                yield statement
            case Store():
                yield from self._store(statement, known)
            case _:
                yield statement
                self._forget(known, effects([statement]).writes)

    def _store(self, statement: Store, known: dict[Place, Expr]) -> Iterator[Stmt]:
        buffer, value = statement.buffer, statement.value
        place = self._place(buffer, statement.index, value.type.lanes)
        if buffer.extent is not None and not self._is_settled(value):
            var = Var(self.names.fresh(f"{buffer.name}_value"), value.type)
            yield Let(var, value)
            value = var
        yield replace(statement, value=value)
        self._forget_element(known, buffer, place)
        if place is not None and self._is_settled(value):
            known[place] = value

    def _is_settled(self, value: Expr) -> bool:
        """True for a literal, or a variable that keeps its value."""
        return isinstance(value, Const) or (
            isinstance(value, Var) and value.name not in self.forms.changing
        )

    def _place(self, buffer: Buffer, index: Expr, lanes: int) -> Place | None:
        form = self.forms.of(index)
        if form is None:
            return None
        self.buffers[buffer.name] = buffer
        return buffer.name, lanes, form

    def _forget(self, known: dict[Place, Expr], written: Iterable[Buffer]) -> None:
        buffers = list(written)
        for place in list(known):
            if any(may_overlap(self.buffers[place[0]], buffer) for buffer in buffers):
                del known[place]

    def _forget_element(
        self, known: dict[Place, Expr], buffer: Buffer, place: Place | None
    ) -> None:
        """Forget what a store to `place` may replace."""
        for other in list(known):
            same = other[0] == buffer.name
            if same and place is not None and _are_apart(place, other):
                continue
            if may_overlap(self.buffers[other[0]], buffer):
                del known[other]


def _are_apart(a: Place, b: Place) -> bool:
    """True if two accesses to one buffer share no element."""
    distance = a[2].minus(b[2])
    if distance.terms:
        return False
    return distance.constant >= b[1] or distance.constant <= -a[1]


def promote_buffers(kernel: Kernel) -> Kernel:
    """Return `kernel` with a variable per element of each local buffer that allows it."""
    local = {s.buffer.name: s.buffer for s in walk(kernel.body) if isinstance(s, Local)}
    kept = set(_addressed(kernel.body))
    elements: dict[str, dict[int, None]] = {
        name: {} for name, buffer in local.items() if name not in kept
    }
    for buffer, index in _accesses(kernel.body):
        if buffer.name in elements and isinstance(index, Const):
            elements[buffer.name][int(index.value)] = None
    if not elements:
        return kernel
    names = Names(kernel)
    variables = {
        name: {
            at: Var(names.fresh(f"{name}{at}"), ValueType(local[name].prim)) for at in sorted(used)
        }
        for name, used in elements.items()
    }
    return replace(kernel, body=_promoted(kernel.body, variables))


def _accesses(body: Block) -> Iterator[tuple[Buffer, Expr]]:
    for statement in walk(body):
        if isinstance(statement, Store):
            yield statement.buffer, statement.index
        for expr in evaluated(statement):
            if isinstance(expr, Load):
                yield expr.buffer, expr.index


def _addressed(body: Block) -> Iterator[str]:
    """Yield the buffers that have to stay in memory."""
    for statement in walk(body):
        yield from (address.buffer.name for address in addresses(statement))
        if isinstance(statement, Store) and statement.value.type.lanes > 1:
            yield statement.buffer.name
        for expr in evaluated(statement):
            if isinstance(expr, Load) and expr.lanes > 1:
                yield expr.buffer.name
    for buffer, index in _accesses(body):
        if not isinstance(index, Const):
            yield buffer.name


def _promoted(body: Block, variables: dict[str, dict[int, Var]]) -> Block:
    def value(expr: Expr) -> Expr:
        if isinstance(expr, Load) and expr.buffer.name in variables:
            assert isinstance(expr.index, Const), "other buffers are kept"
            return variables[expr.buffer.name][int(expr.index.value)]
        return expr

    result: list[Stmt] = []
    for statement in body:
        plain = rewrite_own(statement, value)
        match plain:
            case Local(buffer) if buffer.name in variables:
                result += [Declare(var, _zero(var.type)) for var in variables[buffer.name].values()]
            case Store(buffer, Const(at, _), stored) if buffer.name in variables:
                result.append(Assign(variables[buffer.name][int(at)], stored))
            case _:
                result.append(map_blocks(plain, lambda inner: _promoted(inner, variables)))
    return tuple(result)


def _zero(type: ValueType) -> Const:
    number: bool | int | float = 0.0 if type.prim.is_float else 0
    return Const(False if type.prim is Prim.BOOL else number, type)
