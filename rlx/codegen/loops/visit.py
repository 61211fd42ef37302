"""Walking and rewriting expressions and statements, by one table of what each kind contains."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import is_not
from typing import assert_never

from rlx.codegen.loops.nodes import (
    Address,
    Assign,
    Atomic,
    Binary,
    Bitcast,
    Block,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Declare,
    DotBf16,
    DotBytes,
    Expr,
    External,
    Fail,
    Fma,
    Fold,
    For,
    Function,
    If,
    Invoke,
    Kernel,
    Lane,
    Let,
    Load,
    Local,
    LookupBytes,
    Pause,
    Prefetch,
    Ramp,
    Select,
    Shuffle,
    Splat,
    Stmt,
    Store,
    TileStep,
    Unary,
    Var,
    While,
)

Rewrite = Callable[[Expr], Expr]


def operands(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions, in evaluation order."""
    match expr:
        case Const() | Var():
            return ()
        case Binary() | Compare() | Shuffle():
            return (expr.a, expr.b)
        case Load():
            return (expr.index,)
        case Unary() | Cast() | Bitcast() | Splat() | Lane() | Fold() | LookupBytes():
            return (expr.x,)
        case Ramp():
            return (expr.base,)
        case Select():
            return (expr.condition, expr.a, expr.b)
        case Fma() | DotBytes() | DotBf16():
            return (expr.a, expr.b, expr.c)
        case Call():
            return expr.args
        case _:
            assert_never(expr)


def with_operands(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """Return `expr` over other sub-expressions."""
    match expr:
        case Const() | Var():
            return expr
        case Load():
            return replace(expr, index=new[0])
        case Unary() | Cast() | Bitcast() | Splat() | Lane() | Fold() | LookupBytes():
            return replace(expr, x=new[0])
        case Ramp():
            return replace(expr, base=new[0])
        case Binary() | Compare() | Shuffle():
            return replace(expr, a=new[0], b=new[1])
        case Select():
            return replace(expr, condition=new[0], a=new[1], b=new[2])
        case Fma() | DotBytes() | DotBf16():
            return replace(expr, a=new[0], b=new[1], c=new[2])
        case Call():
            return replace(expr, args=new)
        case _:
            assert_never(expr)


def expressions(statement: Stmt) -> tuple[Expr, ...]:
    """Return the expressions that a statement holds itself, not those of its blocks."""
    match statement:
        case Let() | Declare() | Assign():
            return (statement.value,)
        case Store():
            return (statement.index, statement.value)
        case For():
            return (statement.start, statement.stop)
        case While() | If():
            return (statement.condition,)
        case Fail():
            return (statement.position, *statement.details)
        case Prefetch():
            return (statement.index,)
        case TileStep():
            at = tuple(each.index for each in addresses(statement))
            return at if statement.stride is None else (*at, statement.stride)
        case External():
            args = tuple(arg.index if isinstance(arg, Address) else arg for arg in statement.args)
            return args if statement.address is None else (*args, statement.address)
        case Invoke():
            indices = tuple(address.index for address in statement.buffers)
            return (*indices, *statement.scalars, *(statement.bounds or ()))
        case Atomic():
            return (
                (statement.index,)
                if statement.value is None
                else (statement.index, statement.value)
            )
        case Local() | Pause() | Comment():
            return ()
        case _:
            assert_never(statement)


def addresses(statement: Stmt) -> tuple[Address, ...]:
    """Return the addresses that a call passes."""
    match statement:
        case External():
            return tuple(arg for arg in statement.args if isinstance(arg, Address))
        case TileStep():
            return () if statement.address is None else (statement.address,)
        case Invoke():
            return statement.buffers
        case _:
            return ()


def blocks(statement: Stmt) -> tuple[Block, ...]:
    """Return the blocks nested directly in a statement."""
    match statement:
        case For() | While():
            return (statement.body,)
        case If():
            return (statement.then, statement.orelse)
        case _:
            return ()


def walk_expression(expr: Expr) -> Iterator[Expr]:
    """Yield `expr` and everything below it, parents first; not the bodies of functions."""
    waiting = [expr]
    while waiting:
        expr = waiting.pop()
        yield expr
        if below := operands(expr):
            waiting.extend(reversed(below))


def walk(block: Block) -> Iterator[Stmt]:
    """Yield every statement, nested ones after the one that holds them."""
    for statement in block:
        yield statement
        for inner in blocks(statement):
            yield from walk(inner)


def all_expressions(block: Block) -> Iterator[Expr]:
    """Yield every expression of every statement, sub-expressions included."""
    for statement in walk(block):
        for expr in expressions(statement):
            yield from walk_expression(expr)


def rewrite_expression(expr: Expr, rewrite: Rewrite) -> Expr:
    """Apply `rewrite` bottom up; it returns its argument for "no change"."""
    old = operands(expr)
    if not old:
        return rewrite(expr)
    new = tuple([rewrite_expression(operand, rewrite) for operand in old])
    changed = any(map(is_not, new, old))
    return rewrite(with_operands(expr, new) if changed else expr)


def rewrite_block(block: Block, rewrite: Rewrite) -> Block:
    """Rewrite every expression of a block, nested blocks included."""
    return tuple(rewrite_statement(statement, rewrite) for statement in block)


def rewrite_statement(statement: Stmt, rewrite: Rewrite) -> Stmt:
    """Rewrite every expression of a statement, nested blocks included."""
    inner = tuple(rewrite_block(block, rewrite) for block in blocks(statement))
    return with_blocks(rewrite_own(statement, rewrite), inner)


def with_blocks(statement: Stmt, new: tuple[Block, ...]) -> Stmt:
    """Return a statement over other blocks."""
    match statement:
        case For() | While():
            return replace(statement, body=new[0])
        case If():
            return replace(statement, then=new[0], orelse=new[1])
        case _:
            return statement


def evaluated(statement: Stmt) -> Iterator[Expr]:
    """Yield every expression node that a statement itself evaluates."""
    for expr in expressions(statement):
        yield from walk_expression(expr)


def map_blocks(statement: Stmt, change: Callable[[Block], Block]) -> Stmt:
    """Return a statement with `change` applied to each block nested directly in it."""
    return with_blocks(statement, tuple(change(block) for block in blocks(statement)))


def rewrite_own(statement: Stmt, rewrite: Rewrite) -> Stmt:
    """Rewrite the expressions that a statement holds itself, not those of its blocks."""

    def at(expr: Expr) -> Expr:
        return rewrite_expression(expr, rewrite)

    def moved(address: Address) -> Address:
        return replace(address, index=at(address.index))

    match statement:
        case Let() | Declare() | Assign():
            return replace(statement, value=at(statement.value))
        case Store():
            return replace(statement, index=at(statement.index), value=at(statement.value))
        case For():
            return replace(statement, start=at(statement.start), stop=at(statement.stop))
        case While() | If():
            return replace(statement, condition=at(statement.condition))
        case Fail():
            details = tuple(at(each) for each in statement.details)
            return replace(statement, position=at(statement.position), details=details)
        case External():
            args = tuple(moved(x) if isinstance(x, Address) else at(x) for x in statement.args)
            address = statement.address and at(statement.address)
            return replace(statement, args=args, address=address)
        case Invoke():
            bounds = statement.bounds and (at(statement.bounds[0]), at(statement.bounds[1]))
            buffers = tuple(moved(address) for address in statement.buffers)
            scalars = tuple(at(scalar) for scalar in statement.scalars)
            return replace(statement, buffers=buffers, scalars=scalars, bounds=bounds)
        case Atomic():
            value = None if statement.value is None else at(statement.value)
            return replace(statement, index=at(statement.index), value=value)
        case Prefetch():
            return replace(statement, index=at(statement.index))
        case TileStep():
            stride = statement.stride and at(statement.stride)
            return replace(
                statement, address=statement.address and moved(statement.address), stride=stride
            )
        case Local() | Pause() | Comment():
            return statement
        case _:
            assert_never(statement)


def functions_of(kernels: Iterable[Kernel]) -> tuple[Function, ...]:
    """Return the functions that kernels call, directly or not, callees before callers."""
    return functions_called(expr for kernel in kernels for expr in all_expressions(kernel.body))


def functions_called(expressions: Iterable[Expr]) -> tuple[Function, ...]:
    """Return the functions that are called at expressions, and those that these call, before."""
    ordered: dict[str, Function] = {}
    for expr in expressions:
        if isinstance(expr, Call):
            _collect(expr.function, ordered)
    return tuple(ordered.values())


def count_lets(call: Call) -> int:
    """Return how many named values a function has, and those that it calls."""
    return sum(len(function.lets) for function in functions_called([call]))


def _collect(function: Function, ordered: dict[str, Function]) -> None:
    if function.name in ordered:
        return
    for expr in (*(let.value for let in function.lets), function.result):
        for inner in walk_expression(expr):
            if isinstance(inner, Call):
                _collect(inner.function, ordered)
    ordered[function.name] = function


def can_fail(kernel: Kernel) -> bool:
    """True if the kernel returns a status: it holds a `Fail` or invokes a kernel that can fail."""
    for statement in walk(kernel.body):
        if isinstance(statement, Fail):
            return True
        if isinstance(statement, Invoke) and can_fail(statement.kernel):
            return True
    return False
