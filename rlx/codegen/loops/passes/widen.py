"""Widening: the body of a `simd` loop in steps of several lanes, scalars as vectors.

A `simd` loop's iterations are independent by declaration, so its body runs for several of them
at once without any analysis of aliasing; what a compiler's vectorizer would have to prove or to
recognize (reductions through `fma`, `min` on floats) is given here. Elements that are not side
by side are moved one by one, the arithmetic between them is still on vectors. Bodies that need
masks are not widened and are left to that vectorizer.

    for simd i in 0..100            for i in 0..96 step 16: y[i : i+16] = f.x16(x[i : i+16])
      y[i] = f(x[i])          ->    for i in 96..100 step 4: y[i : i+4] = f.x4(x[i : i+4])

Rows shorter than a vector are widened together, several to a vector. What each row reads in another
order, or once for all of its elements, is loaded once and moved between lanes.

    for q in 0..32                                   for q in 0..32 step 4
      for i in 0..2                              ->    r = x[2 q : 2 q + 8], b = s[q : q + 4]
        y[2 q + i] = x[2 q + 1 - i] * s[q]             y[2 q : 2 q + 8] = r.10325476 * b.00112233
"""

from __future__ import annotations

from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Assign,
    Binary,
    BinaryOp,
    Bitcast,
    Block,
    Buffer,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Declare,
    Expr,
    Fma,
    For,
    If,
    Lane,
    Let,
    Load,
    Local,
    LoopKind,
    Prefetch,
    Prim,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    Unary,
    ValueType,
    Var,
)
from rlx.codegen.loops.passes.strides import stride
from rlx.codegen.loops.visit import rewrite_expression

CACHE_LINE = 64
"""Bytes."""

_ROW = 1 << 40
"""The stride of a variable that counts rows within a vector; that of their elements is 1."""


class CannotWidenError(Exception):
    """The code needs more than lane-by-lane vectors; never leaves this package."""


class Widener:
    """Rewrites code for `lanes` iterations at once.

    A variable that is the same in all of them, or moves by one, stays a scalar (its value in
    the first iteration); any other becomes a vector. With `row`, a vector has that many lanes for
    each row.
    """

    def __init__(self, lanes: int, *, scattered: bool = False, row: int = 1) -> None:
        self.lanes = lanes
        self._row = row
        self._step = 1 if row == 1 else row * _ROW + 1
        """The stride of what moves by one from lane to lane."""
        self._scattered = scattered
        self._strides: dict[str, int | None] = {}
        self._vectors: dict[str, Var] = {}
        self._definitions: dict[str, Expr] = {}
        """What the immutable variables with a value per lane are computed from."""
        self._gathers = 0
        self._before: list[Stmt] = []
        """Statements that the one being widened needs before it."""
        self._known: dict[int, Expr] = {}
        """What expressions of that statement became: it may hold one in many places."""

    def bind_index(self, var: Var) -> None:
        """Let `var` be the loop variable: lane `k` sees `var + k`."""
        self._strides[var.name] = 1

    def bind_row(self, row: Var, position: Var) -> None:
        """Let a lane have a row, counted from `row`, and a position in it."""
        self._strides |= {row.name: _ROW, position.name: 1}

    def bind_vector(self, var: Var) -> Var:
        """Let `var` have a value per lane; returns the vector variable."""
        wide = Var(f"{var.name}.x{self.lanes}", self._wide(var.type))
        self._strides[var.name] = None
        self._vectors[var.name] = wide
        return wide

    # Expressions

    def vector(self, node: Expr) -> Expr:
        """Return `node` with a value per lane."""
        result = self.expression(node)
        if result.type.lanes == self.lanes:
            return result
        if isinstance(result, Const):
            return Const(result.value, self._wide(result.type))
        return Splat(result, self.lanes)

    def expression(self, node: Expr) -> Expr:
        """Return `node` as a scalar where all lanes agree, else as a vector."""
        if node.type.lanes != 1:
            raise CannotWidenError
        growth = stride(node, self._strides)
        if growth == 0:
            return node
        if growth == self._step:
            return Ramp(node, self.lanes)
        if growth is not None and self._row > 1:
            raise CannotWidenError
        if id(node) not in self._known:
            self._known[id(node)] = self._varying(node)
        return self._known[id(node)]

    def _varying(self, node: Expr) -> Expr:
        match node:
            case Var():
                return self._vectors[node.name]
            case Load():
                return self._load(node)
            case Unary():
                return Unary(node.op, self.vector(node.x))
            case Binary():
                return Binary(node.op, self.vector(node.a), self.vector(node.b))
            case Compare():
                return Compare(node.op, self.vector(node.a), self.vector(node.b))
            case Select():
                parts = (self.vector(part) for part in (node.condition, node.a, node.b))
                return Select(*parts)
            case Fma():
                return replace(
                    node, a=self.vector(node.a), b=self.vector(node.b), c=self.vector(node.c)
                )
            case Cast():
                return Cast(self.vector(node.x), node.prim)
            case Bitcast():
                return Bitcast(self.vector(node.x), node.prim)
            case Call():
                return Call(node.function, tuple(self.vector(arg) for arg in node.args))
            case _:
                raise CannotWidenError

    def _load(self, node: Load) -> Expr:
        growth = stride(node.index, self._strides)
        if growth == self._step:
            return Load(node.buffer, node.index, self.lanes)
        if self._row > 1:
            return self._load_of_rows(node, growth)
        self._require_scattered()
        # Compilers turn this scratch into a vector in a register.
        self._gathers += 1
        name = f"gathered.{self._gathers}.x{self.lanes}"
        gathered = Buffer(name, node.buffer.prim, writable=True, extent=self.lanes)
        self._before.append(Local(gathered))
        for lane in range(self.lanes):
            element = Load(node.buffer, self._in_lane(node.index, lane))
            self._before.append(Store(gathered, _literal(lane), element))
        return Load(gathered, _literal(0), self.lanes)

    def _load_of_rows(self, node: Load, growth: int | None) -> Expr:
        """Load what rows read reversed, one row for all, or one element each; all of it is read."""
        row, lanes = self._row, range(self.lanes)
        first, size = node.index, self.lanes
        if growth == row * _ROW - 1:
            first, places = _plus(first, 1 - row), [lane ^ (row - 1) for lane in lanes]
        elif growth == _ROW:
            size, places = self.lanes // row, [lane // row for lane in lanes]
        elif growth == 1:
            size, places = row, [lane % row for lane in lanes]
        elif growth == -1:
            first, size = _plus(first, 1 - row), row
            places = [row - 1 - lane % row for lane in lanes]
        else:
            raise CannotWidenError
        loaded = Load(node.buffer, first, size)
        return Shuffle(loaded, loaded, tuple(places))

    def _in_lane(self, node: Expr, lane: int) -> Expr:
        """Return the scalar value that `node` has in one lane."""

        def rewrite(part: Expr) -> Expr:
            if not isinstance(part, Var):
                return part
            growth = self._strides.get(part.name, 0)
            if growth is not None:
                return _plus(part, growth * lane)
            if part.name not in self._definitions:
                raise CannotWidenError
            return self._in_lane(self._definitions[part.name], lane)

        growth = stride(node, self._strides)
        if growth is not None:
            return _plus(node, growth * lane)
        return rewrite_expression(node, rewrite)

    # Statements

    def block(self, body: Block) -> Block:
        result: list[Stmt] = []
        for statement in body:
            outer, self._before, self._known = self._before, [], {}
            widened = self.statement(statement)
            result += [*self._before, widened]
            self._before = outer
        return tuple(result)

    def statement(self, node: Stmt) -> Stmt:
        match node:
            case Let():
                return self.let(node)
            case Declare():
                value = self.vector(node.value)
                return Declare(self.bind_vector(node.var), value)
            case Assign():
                return self._assign(node)
            case Store():
                return self._store(node)
            case For():
                return self._inner_loop(node)
            case If():
                self._require_uniform(node.condition)
                return If(node.condition, self.block(node.then), self.block(node.orelse))
            case Prefetch():
                return self._prefetch(node)
            case Comment():
                return node
            case _:
                raise CannotWidenError

    def let(self, node: Let) -> Let:
        growth = stride(node.value, self._strides)
        if growth in (0, 1) or (growth is not None and self._row > 1):
            self._strides[node.var.name] = growth
            return node
        value = self.vector(node.value)
        self._definitions[node.var.name] = node.value
        return Let(self.bind_vector(node.var), value)

    def _assign(self, node: Assign) -> Assign:
        if node.var.name not in self._vectors:
            raise CannotWidenError
        return Assign(self._vectors[node.var.name], self.vector(node.value))

    def _store(self, node: Store) -> Store:
        value = self.vector(node.value)
        if stride(node.index, self._strides) == self._step:
            return Store(node.buffer, node.index, value, node.streaming)
        self._require_scattered()
        self._gathers += 1
        vector = Var(f"stored.{self._gathers}.x{self.lanes}", value.type)
        self._before.append(Let(vector, value))
        stores = [
            Store(node.buffer, self._in_lane(node.index, lane), Lane(vector, lane))
            for lane in range(self.lanes)
        ]
        self._before += stores[:-1]
        return stores[-1]

    def _prefetch(self, node: Prefetch) -> Prefetch:
        """Hint at the lines of all lanes, the first last."""
        if stride(node.index, self._strides) != 1:
            raise CannotWidenError
        per_line = max(1, CACHE_LINE // node.buffer.prim.size)
        rest = (_plus(node.index, lane) for lane in range(per_line, self.lanes, per_line))
        self._before += [Prefetch(node.buffer, index) for index in rest]
        return node

    def _inner_loop(self, node: For) -> For:
        self._require_uniform(node.start)
        self._require_uniform(node.stop)
        kind = LoopKind.SERIAL if node.kind is LoopKind.SIMD else node.kind
        return replace(node, kind=kind, body=self.block(node.body), accumulators=())

    # Parts

    def _require_scattered(self) -> None:
        if not self._scattered:
            raise CannotWidenError

    def _require_uniform(self, node: Expr) -> None:
        if stride(node, self._strides) != 0:
            raise CannotWidenError

    def _wide(self, type: ValueType) -> ValueType:
        if type.lanes != 1:
            raise CannotWidenError
        return ValueType(type.prim, self.lanes)


def _literal(value: int) -> Const:
    return Const(value, ValueType(Prim.I64))


def _plus(node: Expr, offset: int) -> Expr:
    """Return `node + offset`; only integers have an offset other than 0."""
    return Binary(BinaryOp.ADD, node, Const(offset, node.type)) if offset else node
