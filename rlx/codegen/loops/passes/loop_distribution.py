"""Loop distribution: strided accesses of a loop in loops of their own, apart from the arithmetic.

    for i in 0 .. 32, simd:            local x_row: f64[32]
      let a = x[i * 3]           ->    for i_2 in 0 .. 32, simd: x_row[i_2] = x[i_2 * 3]
      y[i] = a * a + a                 for i in 0 .. 32, simd: y[i] = x_row[i] * x_row[i] + x_row[i]

What computes then moves no elements between the lanes of a vector, and what moves is short.
"""

from __future__ import annotations

from dataclasses import field

from rlx.codegen.loops.nodes import (
    Block,
    Buffer,
    Const,
    Declare,
    Expr,
    For,
    Let,
    Load,
    Local,
    LoopKind,
    Stmt,
    Store,
    Var,
)
from rlx.codegen.loops.passes.names import Names
from rlx.codegen.loops.passes.strides import stride
from rlx.codegen.loops.visit import (
    all_expressions,
    rewrite_own,
    walk_expression,
)
from rlx.dataclass import dataclass

_MOST = 64
"""Iterations whose strided elements are buffered: a block of instances."""


def distributed(loop: For, names: Names) -> tuple[Block, For, Block] | None:
    """Return what reads before a `simd` loop, the loop, and what writes after it.

    Iterations are independent, so that all may read before one writes. None where they are many or
    unknown in number, or where a buffer is both read and written here, or may be another's memory.
    """
    if not isinstance(loop.start, Const) or not isinstance(loop.stop, Const) or loop.start.value:
        return None
    plain = all(isinstance(statement, (Let, Store)) for statement in loop.body)
    if not plain or loop.accumulators or int(loop.stop.value) > _MOST:
        return None
    try:
        parts = _Distribution(loop, names)
        body = tuple(map(parts.statement, loop.body))
    except _EntangledError:
        return None
    before = (*parts.locals, *parts.loop(parts.reads))
    inner = For(loop.var, loop.start, loop.stop, loop.step, loop.kind, body)
    return before, inner, parts.loop(parts.writes)


class _EntangledError(Exception):
    """Reads and writes that must stay in their order, or an index that the loop computes."""


@dataclass(slots=True)
class _Distribution:
    """The accesses that leave a loop, and the local buffers in their place."""

    source: For
    names: Names
    locals: list[Stmt] = field(default_factory=list)
    reads: list[Store] = field(default_factory=list)
    writes: list[Store] = field(default_factory=list)
    strides: dict[str, int | None] = field(default_factory=dict)
    _local_copies: dict[tuple[str, Expr], Buffer] = field(default_factory=dict)

    def statement(self, statement: Stmt) -> Stmt:
        """Return a statement of the body over the buffered elements."""
        self.strides.setdefault(self.source.var.name, 1)
        if isinstance(statement, Let):
            self.strides[statement.var.name] = stride(statement.value, self.strides)
        inner = rewrite_own(statement, self._read)
        if not isinstance(inner, Store) or stride(inner.index, self.strides) == 1:
            return inner
        buffer = self._new(inner.buffer, inner.index)
        self.writes.append(Store(inner.buffer, inner.index, Load(buffer, self.source.var)))
        return Store(buffer, self.source.var, inner.value)

    def loop(self, moves: list[Store]) -> Block:
        """Return a loop of moves over an index of its own."""
        if not moves:
            return ()
        own = Var(self.names.fresh(self.source.var.name), self.source.var.type)

        def renamed(expr: Expr) -> Expr:
            return own if expr == self.source.var else expr

        body = tuple(rewrite_own(move, renamed) for move in moves)
        source = self.source
        return (For(own, source.start, source.stop, source.step, LoopKind.SIMD, body),)

    def _read(self, expr: Expr) -> Expr:
        if not isinstance(expr, Load) or stride(expr.index, self.strides) in (0, 1):
            return expr
        buffer = self._local_copies.get((expr.buffer.name, expr.index))
        if buffer is None:
            buffer = self._new(expr.buffer, expr.index)
            self._local_copies[expr.buffer.name, expr.index] = buffer
            self.reads.append(Store(buffer, self.source.var, expr))
        return Load(buffer, self.source.var)

    def _new(self, of: Buffer, index: Expr) -> Buffer:
        """Return a local buffer for the elements of another at an index."""
        bound = {s.var.name for s in self.source.body if isinstance(s, (Let, Declare))}
        computed = any(isinstance(e, Var) and e.name in bound for e in walk_expression(index))
        places = [e.buffer for e in walk_expression(index) if isinstance(e, Load)]
        changing = any(b.may_alias or self._is_written(b) for b in places)
        if computed or changing or of.may_alias or (self._is_read(of) and self._is_written(of)):
            raise _EntangledError
        extent = int(self.source.stop.value) if isinstance(self.source.stop, Const) else 0
        buffer = Buffer(self.names.fresh(f"{of.name}_row"), of.prim, writable=True, extent=extent)
        self.locals.append(Local(buffer))
        return buffer

    def _is_read(self, buffer: Buffer) -> bool:
        found = all_expressions(self.source.body)
        return any(isinstance(e, Load) and e.buffer.name == buffer.name for e in found)

    def _is_written(self, buffer: Buffer) -> bool:
        body = self.source.body
        return any(isinstance(s, Store) and s.buffer.name == buffer.name for s in body)
