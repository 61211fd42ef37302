"""What a person would not write, found in kernels and in exported C."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlx.codegen.loops.nodes import (
    Assign,
    Atomic,
    Binary,
    BinaryOp,
    Const,
    Declare,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Prefetch,
    Prim,
    Stmt,
    Store,
    ValueType,
    Var,
)
from rlx.codegen.loops.passes.ranges import Ranges
from rlx.codegen.loops.visit import addresses, evaluated, walk

_ARITHMETIC = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, BinaryOp.MOD)
_NEUTRAL = {BinaryOp.ADD: 0, BinaryOp.SUB: 0}


def weeds_of(kernel: Kernel) -> Iterator[str]:
    """Yield what is idle in a kernel: loops, branches, arithmetic, variables, arguments."""
    statements = list(walk(kernel.body))
    assigned = {s.var.name for s in statements if isinstance(s, Assign)}
    read = {name for s in statements for name in _names(s)}
    ranges = Ranges()
    for statement in statements:
        yield from _idle_control(statement)
        arithmetic = (e for e in evaluated(statement) if isinstance(e, Binary))
        yield from (f"idle {e.op.value}" for e in arithmetic if _is_idle(e, ranges))
        if isinstance(statement, (Let, Declare)) and statement.var.name not in read:
            yield f"{statement.var.name} is never read"
        if isinstance(statement, Declare) and statement.var.name not in assigned:
            yield f"{statement.var.name} always has one value"
        if isinstance(statement, Local) and statement.buffer.name not in read:
            yield f"local {statement.buffer.name} is never touched"
        _note(statement, ranges)
    yield from (f"argument {b.name} is never touched" for b in kernel.buffers if b.name not in read)
    yield from (f"argument {s.name} is never read" for s in kernel.scalars if s.name not in read)


def repeated_constants(text: str) -> list[str]:
    """Return the arrays that the constants of exported C hold twice, or that are one number."""
    found = re.search(r"constant_data = \{\n(.*?)\n\};", text, re.DOTALL)
    arrays = re.findall(r"\{\n(.*?)\n    \}", found[1], re.DOTALL) if found else []
    plain = [re.sub(r"\s+", " ", array).strip() for array in arrays]
    one = [array for array in plain if len(set(array.rstrip(",").split(", "))) == 1]
    return [*{array for array in plain if plain.count(array) > 1}, *one]


def _names(statement: Stmt) -> Iterator[str]:
    """Yield what a statement reads, and the buffers that it touches."""
    for expr in evaluated(statement):
        if isinstance(expr, Var):
            yield expr.name
        if isinstance(expr, Load):
            yield expr.buffer.name
    yield from (address.buffer.name for address in addresses(statement))
    if isinstance(statement, (Store, Atomic, Prefetch)):
        yield statement.buffer.name


def _idle_control(statement: Stmt) -> Iterator[str]:
    match statement:
        case For(var, Const(start), Const(stop), step, kind):
            trips = len(range(int(start), int(stop), step))
            if trips == 0 or (trips == 1 and kind is not LoopKind.PARALLEL):
                yield f"loop {var.name} of {trips} trips"
        case If(Const(value)):
            yield f"if {value}"
        case _:
            pass


def _note(statement: Stmt, ranges: Ranges) -> None:
    match statement:
        case For(var, start, stop, step):
            first, last = ranges.of(start)[0], ranges.of(stop)[1] - 1
            if isinstance(start, Const) and isinstance(stop, Const):
                last -= (last - first) % step
            ranges.note(var, (first, last))
        case Let(var, value) if var.type.prim is Prim.I64 and var.type.lanes == 1:
            ranges.note(var, ranges.of(value))
        case _:
            pass


def _is_idle(expr: Binary, ranges: Ranges) -> bool:
    """True for integer arithmetic that has a shorter form."""
    if expr.op in (BinaryOp.MIN, BinaryOp.MAX) and expr.type == ValueType(Prim.I64):
        one, other = ranges.of(expr.a), ranges.of(expr.b)
        return one[1] <= other[0] or other[1] <= one[0]
    if expr.op not in _ARITHMETIC or not isinstance(expr.b, Const):
        return False
    if expr.b.type != ValueType(Prim.I64):
        return False
    if isinstance(expr.a, Const) or expr.b.value == _NEUTRAL.get(expr.op, 1):
        return True
    low, high = ranges.of(expr.a) if expr.op is BinaryOp.MOD else (-1, 0)
    return low >= 0 and high < expr.b.value
