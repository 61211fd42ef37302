"""Loop versioning: a cheaper function where all arguments of a stretch of a loop allow it.

    for i in 0 .. 64, simd:               near = 1
      y[i] = mod_f32(x[i], 6.0)     ->    for i in 0 .. 64, simd: near &= is_near_f32(x[i], 6.0)
                                          if near:
                                            for i in 0 .. 64, simd: y[i] = near_mod_f32(x[i], 6.0)
                                          else:
                                            for i in 0 .. 64, simd: y[i] = mod_f32(x[i], 6.0)

Both functions return the same bits, so that it does not matter which elements share a stretch. A
branch at every element would keep compilers from vectorizing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from rlx.codegen.loops.expr import E, call, const, minimum
from rlx.codegen.loops.math.arithmetic import float_modulo, has_near_quotient, near_modulo
from rlx.codegen.loops.nodes import (
    Assign,
    BinaryOp,
    Block,
    Call,
    Comment,
    Const,
    Declare,
    Expr,
    For,
    Function,
    If,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prim,
    Stmt,
    Store,
    ValueType,
    Var,
)
from rlx.codegen.loops.passes.names import Names, copied
from rlx.codegen.loops.visit import (
    all_expressions,
    evaluated,
    map_blocks,
    rewrite_block,
    walk,
)
from rlx.dataclass import dataclass

_STRETCH = 128
"""Iterations that are computed in one way."""


@dataclass(frozen=True, slots=True)
class _FastPath:
    """A cheaper function of the same bits, and a function of the same arguments: 1 where it is."""

    function: Function
    domain: Function


_FAST = {
    float_modulo(prim).name: _FastPath(near_modulo(prim), has_near_quotient(prim))
    for prim in (Prim.F32, Prim.F64)
}


def fast_paths(kernel: Kernel) -> Kernel:
    """Return `kernel` with its `simd` loops in two versions where a function has a cheaper one."""
    if not any(map(_is_fast, all_expressions(kernel.body))):
        return kernel
    body = _versioned(kernel.body, Names(kernel))
    return kernel if body == kernel.body else replace(kernel, body=body)


def _is_fast(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function.name in _FAST and expr.type.lanes == 1


def _versioned(body: Block, names: Names) -> Block:
    result: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For) and statement.kind is LoopKind.SIMD:
            result += _stretches(statement, names)
        else:
            result.append(map_blocks(statement, lambda block: _versioned(block, names)))
    return tuple(result)


def _stretches(loop: For, names: Names) -> Block:
    """Return the loop in stretches of two versions, or as it is where it cannot be checked."""
    near = Var("near", ValueType(Prim.I32))
    checks = _checks(loop.body, near)
    if checks is None or loop.step != 1:
        return (loop,)
    names.release(loop)
    versions = _Versions(loop, checks, near, names)
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const):
        return versions.of_any_length()
    first, count = int(loop.start.value), int(loop.stop.value) - int(loop.start.value)
    length = _stretch(count)
    if count <= length:
        return versions.of(loop.start, _index(count))
    last = first + count // length * length
    result = versions.in_steps(loop.start, _index(last), length)
    rest = first + count - last
    return result + (versions.of(_index(last), _index(rest)) if rest else ())


def _stretch(count: int) -> int:
    """Return how many of `count` iterations a stretch has: all of few, else a divisor if any is."""
    if count <= 2 * _STRETCH:
        return max(count, 1)
    lengths = range(2 * _STRETCH, _STRETCH // 2 - 1, -16)
    return next((length for length in lengths if count % length == 0), _STRETCH)


@dataclass(frozen=True, slots=True)
class _Versions:
    """A loop, what checks the arguments of its calls, and the variable that holds the answer."""

    loop: For
    checks: Block
    near: Var
    names: Names

    def of(self, start: Expr, count: Expr) -> Block:
        """Return the checks of `count` iterations from `start` on, and their two versions."""
        loop, near = self.loop, Var(self.names.fresh(self.near.name), self.near.type)
        accumulators = ((near, BinaryOp.AND),)
        checks = replace(self._copy(self.checks, start, count, near), accumulators=accumulators)
        fast = rewrite_block(loop.body, _on_fast_path)
        return (
            Declare(near, const(1, Prim.I32).node),
            checks,
            If(
                E(near).ne(0).node,
                (self._copy(fast, start, count, near),),
                (self._copy(loop.body, start, count, near),),
            ),
        )

    def in_steps(self, start: Expr, stop: Expr, length: int) -> Block:
        """Return a loop over stretches of one length."""
        first = Var(self.names.fresh(f"{self.loop.var.name}_first"), self.loop.var.type)
        body = self.of(first, _index(length))
        return (For(first, start, stop, length, LoopKind.SERIAL, body),)

    def of_any_length(self) -> Block:
        """Return a loop over stretches, of which the last may be shorter."""
        loop, names = self.loop, self.names
        first = Var(names.fresh(f"{loop.var.name}_first"), loop.var.type)
        count = Var(names.fresh(f"{loop.var.name}_count"), loop.var.type)
        last = Var(names.fresh(f"{loop.var.name}_stop"), loop.var.type)
        length = minimum(E(last) - E(first), _STRETCH).node
        body = (Let(count, length), *self.of(first, count))
        return (Let(last, loop.stop), For(first, loop.start, last, _STRETCH, LoopKind.SERIAL, body))

    def _copy(self, body: Block, start: Expr, count: Expr, near: Var) -> For:
        own = Var(self.names.fresh(self.loop.var.name), self.loop.var.type)
        known = {self.loop.var.name: (E(own) + E(start)).node, self.near.name: near}
        return replace(
            self.loop, var=own, start=_index(0), stop=count, body=copied(body, known, self.names)
        )


def _index(value: int) -> Const:
    return Const(value, ValueType(Prim.I64))


def _on_fast_path(expr: Expr) -> Expr:
    if not isinstance(expr, Call) or not _is_fast(expr):
        return expr
    return replace(expr, function=_FAST[expr.function.name].function)


def _checks(body: Block, near: Var) -> Block | None:
    """Return the statements of a body that check the arguments of calls, and what these need.

    None where there are none, or where iterations do more than compute and store, or read what
    they have stored.
    """
    if not all(isinstance(s, (Assign, Comment, For, Let, Store)) for s in walk(body)):
        return None
    checks = _needed(_with_checks(body, near), set())
    calls = any(isinstance(s, Assign) for s in walk(checks))
    stored = {s.buffer for s in walk(body) if isinstance(s, Store)}
    read = {e.buffer for e in all_expressions(checks) if isinstance(e, Load)}
    aliased = any(b.may_alias for b in read) and any(b.may_alias for b in stored)
    is_entangled = not read.isdisjoint(stored) or (aliased and not _reads_first(body))
    return checks if calls and not is_entangled else None


def _reads_first(body: Block) -> bool:
    """True if no iteration loads after it has stored."""
    if any(isinstance(s, For) for s in body):
        return False
    stores = False
    for statement in body:
        loads = any(isinstance(e, Load) for e in evaluated(statement))
        if stores and loads:
            return False
        stores = stores or isinstance(statement, Store)
    return True


def _with_checks(body: Block, near: Var) -> Iterator[Stmt]:
    """Yield the values and loops of a body, and a check for each call, without its stores."""
    for statement in body:
        for expr in evaluated(statement):
            if isinstance(expr, Call) and _is_fast(expr):
                domain = call(_FAST[expr.function.name].domain, *map(E, expr.args))
                yield Assign(near, (E(near) & domain).node)
        if isinstance(statement, For):
            inner = tuple(_with_checks(statement.body, near))
            yield replace(statement, body=inner, accumulators=())
        elif isinstance(statement, Let):
            yield statement


def _needed(body: Iterable[Stmt], used: set[str]) -> Block:
    """Return the checks of a body and the values that these use."""
    result: list[Stmt] = []
    for statement in reversed(tuple(body)):
        if isinstance(statement, For):
            inner = _needed(statement.body, used)
            kept: Stmt | None = replace(statement, body=inner) if inner else None
        else:
            is_used = isinstance(statement, Assign) or (
                isinstance(statement, Let) and statement.var.name in used
            )
            kept = statement if is_used else None
        if kept is not None:
            used |= {e.name for e in evaluated(kept) if isinstance(e, Var)}
            result.append(kept)
    return tuple(reversed(result))
