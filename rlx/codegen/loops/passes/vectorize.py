"""Vectorization: `simd` loops as loops over vectors of several widths.

    for i in 0 .. 19, simd:         for i in 0 .. 16 step 8:
      y[i] = x[i] * s       ->        y[i; 8] = x[i; 8] * splat8(s)
                                    for i_2 in 16 .. 18 step 2: ...

A loop runs in several widths, each taking what the wider ones left: the main width, then the
register's width, then halves. Static trip counts leave no scalar iteration but an odd last one.
Loops over rows that are shorter than a vector run over several rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import replace

from rlx.codegen.loops.nodes import (
    Assign,
    Binary,
    BinaryOp,
    Block,
    Call,
    Const,
    Declare,
    Expr,
    Fold,
    For,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prim,
    Shuffle,
    Stmt,
    Store,
    ValueType,
    Var,
)
from rlx.codegen.loops.passes.names import Names, kept_apart
from rlx.codegen.loops.passes.widen import CannotWidenError, Widener
from rlx.codegen.loops.visit import all_expressions, map_blocks, operands, walk

_INT64 = ValueType(Prim.I64)
_MOST_SCATTERED = 8
"""Lanes moved one by one."""
_COST_OF_CALL = 20
_MOST_CHAINS = 4
_SHORT_ROWS = (2, 4)
"""Elements of rows of which several are widened together."""
_LIGHT = 6
"""Operations up to which a loop is bound by memory and by its own counting."""


def vectorize(kernel: Kernel, vector_bytes: int) -> Kernel:
    """Return `kernel` with every `simd` loop that needs no masks in vectors, if there are any."""
    if not vector_bytes or not any(
        isinstance(s, For) and (s.kind is LoopKind.SIMD or short_row(s)) for s in walk(kernel.body)
    ):
        return kernel
    return replace(kernel, body=_vectorized(kernel.body, vector_bytes, Names(kernel)))


def _vectorized(body: Block, vector_bytes: int, names: Names) -> Block:
    result: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For):
            pieces = widen_rows(statement, vector_bytes)
            if pieces is None and statement.kind is LoopKind.SIMD:
                pieces = widen_loop(statement, vector_bytes)
            if pieces is not None:
                names.release(statement)
                result += kept_apart(pieces, names)
                continue
        result.append(map_blocks(statement, lambda block: _vectorized(block, vector_bytes, names)))
    return tuple(result)


def widen_loop(loop: For, vector_bytes: int, *, most: int = _MOST_CHAINS) -> Block | None:
    """Return statements that do the work of a `simd` loop, or None if it must stay scalar.

    The widest vectors are as long as `most` registers.
    """
    for scattered in (False, True):
        try:
            return tuple(_pieces(loop, _widths(loop, vector_bytes, scattered, most), scattered))
        except CannotWidenError:
            continue
    return None


def widen_rows(loop: For, vector_bytes: int) -> Block | None:
    """Return statements that do the work of a loop over short rows, several at once, or None.

    Its iterations have to be independent: they read nothing that is stored, and store elements in
    order.
    """
    row = short_row(loop)
    if not row or not _reads_nothing_stored(loop.body):
        return None
    native = vector_bytes // _element_bytes(loop)
    widths = [native >> halving for halving in range(3) if native >> halving >= 2 * row]
    try:
        return tuple(_pieces_of_rows(loop, row, widths)) if widths else None
    except CannotWidenError:
        return None


def short_row(loop: For) -> int:
    """Return how many elements the rows have that `loop` runs over; 0 if it is no such loop."""
    inner = loop.body[-1] if loop.body else None
    if loop.kind not in (LoopKind.SERIAL, LoopKind.SIMD) or loop.accumulators or loop.step != 1:
        return 0
    if not isinstance(inner, For) or inner.kind is not LoopKind.UNROLL or inner.step != 1:
        return 0
    if not isinstance(inner.stop, Const) or inner.start != Const(0, _INT64):
        return 0
    is_plain = all(isinstance(each, Let | Store) for each in (*loop.body[:-1], *inner.body))
    return int(inner.stop.value) if is_plain and inner.stop.value in _SHORT_ROWS else 0


def _reads_nothing_stored(body: Block) -> bool:
    stored = [node.buffer for node in walk(body) if isinstance(node, Store)]
    read = {node.buffer.name for node in all_expressions(body) if isinstance(node, Load)}
    names = {buffer.name for buffer in stored}
    return len(names) == len(stored) and not names & read and not any(b.may_alias for b in stored)


def _pieces_of_rows(loop: For, row: int, widths: list[int]) -> Iterator[Stmt]:
    *outer, inner = loop.body
    assert isinstance(inner, For)
    position, end = yield from _bounds(loop)
    for lanes in widths:
        rows = lanes // row
        stop = yield from _named(f"{loop.var.name}.x{rows}", _whole_steps(position, end, rows))
        if stop == position:
            continue
        widener = Widener(lanes, row=row)
        widener.bind_row(loop.var, inner.var)
        first = Let(inner.var, inner.start)
        body = (first, *widener.block((*outer, *inner.body)))
        yield For(loop.var, position, stop, rows, LoopKind.SERIAL, body)
        position = stop
    if position != end:
        yield replace(loop, start=position, stop=end, kind=LoopKind.SERIAL)


def _pieces(loop: For, widths: list[int], scattered: bool) -> Iterator[Stmt]:
    position, end = yield from _bounds(loop)
    partial: list[Var] = []
    for lanes in widths:
        stop = yield from _named(f"{loop.var.name}.x{lanes}", _whole_steps(position, end, lanes))
        if stop == position:
            continue
        widener = Widener(lanes, scattered=scattered)
        widener.bind_index(loop.var)
        wide = [widener.bind_vector(var) for var, _ in loop.accumulators]
        yield from _start(loop, wide, partial)
        yield For(loop.var, position, stop, lanes, LoopKind.SERIAL, widener.block(loop.body))
        position, partial = stop, wide
    for (var, op), wide_var in zip(loop.accumulators, partial, strict=bool(partial)):
        # The variable comes second: `min` and `max` then keep a NaN that it holds.
        yield Assign(var, Binary(op, Fold(op, wide_var), var))
    if position != end:
        yield replace(loop, start=position, stop=end, kind=LoopKind.SERIAL, accumulators=())


def _bounds(loop: For) -> Generator[Stmt, None, tuple[Expr, Expr]]:
    start = yield from _named(f"{loop.var.name}.first", loop.start)
    end = yield from _named(f"{loop.var.name}.last", loop.stop)
    return start, end


def _named(name: str, value: Expr) -> Generator[Stmt, None, Expr]:
    """Bind `value` to a variable, to be evaluated once; literals need none."""
    if isinstance(value, Const):
        return value
    var = Var(name, value.type)
    yield Let(var, value)
    return var


def _start(loop: For, wide: list[Var], partial: list[Var]) -> Iterator[Stmt]:
    """Declare the accumulators of one width: neutral, or what the width before it has."""
    for position, (_, op) in enumerate(loop.accumulators):
        var = wide[position]
        if not partial:
            yield Declare(var, _neutral(op, var.type))
            continue
        lets, start = _narrow(op, partial[position], var.type.lanes)
        yield from lets
        yield Declare(var, start)


def _narrow(op: BinaryOp, vector: Var, lanes: int) -> tuple[list[Let], Var]:
    """Combine halves of a vector until `lanes` are left."""
    lets: list[Let] = []
    while vector.type.lanes > lanes:
        half = vector.type.lanes // 2
        low = Shuffle(vector, vector, tuple(range(half)))
        high = Shuffle(vector, vector, tuple(range(half, 2 * half)))
        narrow = Var(f"{vector.name}.{half}", ValueType(vector.type.prim, half))
        lets.append(Let(narrow, Binary(op, low, high)))
        vector = narrow
    return lets, vector


def _whole_steps(start: Expr, stop: Expr, lanes: int) -> Expr:
    """Return where a loop in steps of `lanes` ends."""
    if isinstance(start, Const) and isinstance(stop, Const):
        steps = max(0, int(stop.value) - int(start.value)) // lanes
        return Const(int(start.value) + steps * lanes, _INT64)
    span = Binary(BinaryOp.SUB, stop, start)
    tail = Binary(BinaryOp.MOD, span, Const(lanes, _INT64))
    return Binary(BinaryOp.SUB, stop, tail)


def _widths(loop: For, vector_bytes: int, scattered: bool, most: int) -> list[int]:
    native = max(2, vector_bytes // _element_bytes(loop))
    if scattered:
        native = min(native, _MOST_SCATTERED)
    chains = 1 if scattered else min(most, _chains(loop))
    widths = [native * chains] if chains > 1 else []
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return widths + [native >> halving for halving in range(int(math.log2(native)))]
    narrow = [max(2, native // 4)] if native > 2 else []
    return [*widths, native, *narrow]


def _chains(loop: For) -> int:
    """Return how many registers wide the main loop is: few where the body needs many."""
    size = sum(_COST_OF_CALL if isinstance(node, Call) else 1 for node in _data(loop.body))
    if loop.accumulators:
        return 4 if size < _COST_OF_CALL else 2
    return 4 if size <= _LIGHT else 2 if size < _COST_OF_CALL else 1


def _element_bytes(loop: For) -> int:
    """Return the size of the widest element that moves through memory or accumulates."""
    sizes = [var.type.prim.size for var, _ in loop.accumulators]
    sizes += [node.buffer.prim.size for node in walk(loop.body) if isinstance(node, Store)]
    sizes += [node.buffer.prim.size for node in _data(loop.body) if isinstance(node, Load)]
    return max(sizes, default=8)


def _data(body: Block) -> Iterator[Expr]:
    """Yield every expression that computes data, without the indices of loads."""
    for statement in walk(body):
        if isinstance(statement, Let | Declare | Assign | Store):
            yield from _below(statement.value)


def _below(root: Expr) -> Iterator[Expr]:
    """Yield `root` and what it is computed from, each once however many hold it."""
    pending, seen = [root], set[int]()
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            pending += () if isinstance(node, Load) else operands(node)


def _neutral(op: BinaryOp, type: ValueType) -> Const:
    """Return the vector that changes nothing under `op`."""
    return Const(_neutral_value(op, type.prim), type)


def _neutral_value(op: BinaryOp, prim: Prim) -> bool | int | float:
    match op:
        case BinaryOp.ADD:
            return -0.0 if prim.is_float else 0
        case BinaryOp.MUL:
            return 1
        case BinaryOp.MIN:
            return _extreme(prim, largest=True)
        case BinaryOp.MAX:
            return _extreme(prim, largest=False)
        case BinaryOp.AND:
            return _extreme(prim, largest=True) if prim.is_unsigned else _all_bits(prim)
        case BinaryOp.OR | BinaryOp.XOR:
            return 0
        case _:
            raise CannotWidenError


def _all_bits(prim: Prim) -> bool | int:
    return True if prim is Prim.BOOL else -1


def _extreme(prim: Prim, *, largest: bool) -> bool | int | float:
    if prim.is_float:
        return math.inf if largest else -math.inf
    if prim is Prim.BOOL:
        return largest
    bits = prim.size * 8 - prim.is_signed
    low = -(1 << bits) if prim.is_signed else 0
    return (1 << bits) - 1 if largest else low
