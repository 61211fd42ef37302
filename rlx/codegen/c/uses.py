"""Use analysis of a kernel's body: variables read, buffers used, variables that are indices."""

from __future__ import annotations

from collections.abc import Iterator

from rlx.codegen.loops.nodes import (
    Assign,
    Atomic,
    Binary,
    BinaryOp,
    Const,
    Declare,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Prefetch,
    Prim,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
)
from rlx.codegen.loops.visit import addresses, evaluated, walk

_INDEX_OPS = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.MIN, BinaryOp.MAX)


def used_names(kernel: Kernel) -> set[str]:
    """Return the variables read and buffers touched."""
    names: set[str] = set()
    parallel_loop = kernel.parallel_loop
    for statement in walk(kernel.body):
        if statement is parallel_loop:
            continue  # its bounds are arguments: the caller reads what they are made of
        match statement:
            case Store(buffer=buffer) | Atomic(buffer=buffer) | Prefetch(buffer=buffer):
                names.add(buffer.name)
        names.update(address.buffer.name for address in addresses(statement))
        for expression in evaluated(statement):
            match expression:
                case Var(name, _):
                    names.add(name)
                case Load(buffer, _, _):
                    names.add(buffer.name)
        if isinstance(statement, For):
            names.update(var.name for var, _ in statement.accumulators)
    return names


def index_variables(kernel: Kernel) -> set[str]:
    """Return the i64 variables whose arithmetic cannot overflow because it is an index.

    An index that overflowed would be outside of its buffer, so sums and products in an index or
    loop bound print plainly; so do those over loop variables and extents. Other i64 arithmetic
    is tensor data and wraps.
    """
    names = {scalar.name for scalar in kernel.scalars if scalar.type.prim is Prim.I64}
    everything = list(walk(kernel.body))
    for statement in everything:
        if isinstance(statement, For):
            names.add(statement.var.name)
            names |= _index_leaves(statement.start) | _index_leaves(statement.stop)
        for position in _index_positions(statement):
            names |= _index_leaves(position)
    for statement in reversed(everything):
        match statement:
            case Let(var, value) | Declare(var, value) | Assign(var, value) if var.name in names:
                names |= _index_leaves(value)
    return names | _derived(everything, names)


def is_index(expr: Expr, names: set[str]) -> bool:
    """True if `expr` is built from literals and index variables alone."""
    match expr:
        case Const():
            return True
        case Var(name, _):
            return name in names
        case Unary(_, x):
            return is_index(x, names)
        case Binary(_, a, b):
            return is_index(a, names) and is_index(b, names)
        case Select(_, a, b):
            return is_index(a, names) and is_index(b, names)
        case _:
            return False


def _derived(everything: list[Stmt], names: set[str]) -> set[str]:
    """Add variables whose every value is a sum of indices: offsets, counters."""
    known = set(names)
    for statement in everything:
        match statement:
            case Let(var, value) if var.type.prim is Prim.I64 and is_index(value, known):
                known.add(var.name)
            case Declare(var, _) if var.type.prim is Prim.I64:
                values = [
                    s.value for s in everything if isinstance(s, (Declare, Assign)) and s.var == var
                ]
                if all(_is_sum(value, known | {var.name}) for value in values):
                    known.add(var.name)
    return known


def _is_sum(expr: Expr, names: set[str]) -> bool:
    match expr:
        case Binary(BinaryOp.ADD | BinaryOp.SUB, a, b):
            return _is_sum(a, names) and _is_sum(b, names)
        case Const() | Var():
            return is_index(expr, names)
        case _:
            return False


def _index_positions(statement: Stmt) -> Iterator[Expr]:
    match statement:
        case Store(index=index) | Atomic(index=index) | Prefetch(index=index):
            yield index
    for address in addresses(statement):
        yield address.index
    for expression in evaluated(statement):
        if isinstance(expression, Load):
            yield expression.index


def _index_leaves(expr: Expr) -> set[str]:
    match expr:
        case Var(name, _):
            return {name}
        case Binary(op, a, b) if op in _INDEX_OPS:
            return _index_leaves(a) | _index_leaves(b)
        case Select(_, a, b):
            return _index_leaves(a) | _index_leaves(b)
        case _:
            return set()
