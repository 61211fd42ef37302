"""How wide a compiler may vectorize loops over doubles.

GCC, in every version with AVX-512 that we know, moves elements of a vector of eight doubles with
`vpermilpd`, which cannot cross 128-bit lanes, where elements 2 or 3 come from the upper half and
all others stay in their lane: its check of the pattern (`avx_vpermilp_parallel`) forgets an upper
bound. Its vectorizers make such moves in straight-line code and in loops. Vectors of four doubles
are right, and so are loops that need no move at all: those may keep the whole width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlx.codegen.loops.affine import stride
from rlx.codegen.loops.nodes import (
    Assign,
    Block,
    Const,
    Declare,
    Expr,
    For,
    Function,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prim,
    Stmt,
    Store,
    While,
)
from rlx.codegen.loops.visit import (
    all_expressions,
    blocks,
    expressions,
    functions_of,
    walk,
    walk_expression,
)

_LONG = 64
"""Iterations of a loop that compilers never write out, and that outweigh a call."""


def touches_doubles(kernels: Iterable[Kernel]) -> bool:
    """True if a kernel or a function that it calls computes with doubles."""
    kernels = tuple(kernels)
    return any(map(_is_double, _computed(kernels, functions_of(kernels))))


def keeps_wide_vectors(kernel: Kernel) -> bool:
    """True if a compiler that vectorizes the loops of `kernel` moves no doubles between lanes.

    Every access is to successive elements, or to one, in the innermost of loops that are long.
    """
    if not any(_is_long(s) for s in walk(kernel.body) if isinstance(s, For)):
        return False
    return not touches_doubles((kernel,)) or _is_flat(kernel.body)


def _computed(kernels: tuple[Kernel, ...], functions: tuple[Function, ...]) -> Iterator[Expr]:
    for kernel in kernels:
        yield from all_expressions(kernel.body)
    for function in functions:
        for expr in (*(let.value for let in function.lets), function.result):
            yield from walk_expression(expr)


def _is_double(expr: Expr) -> bool:
    return expr.type.prim is Prim.F64


def _is_flat(block: Block) -> bool:
    return all(map(_is_flat_statement, block))


def _is_flat_statement(statement: Stmt) -> bool:
    if isinstance(statement, For) and not _holds_loop(statement.body):
        return _moves_in_order(statement)
    return not _accesses(statement) and all(map(_is_flat, blocks(statement)))


def _holds_loop(block: Block) -> bool:
    return any(isinstance(inner, (For, While)) for inner in walk(block))


def _moves_in_order(loop: For) -> bool:
    """True if a long loop reads and writes successive elements, or reads one again and again."""
    strides: dict[str, int | None] = {loop.var.name: 1}
    for statement in walk(loop.body):
        if isinstance(statement, Let):
            strides[statement.var.name] = stride(statement.value, strides)
        elif isinstance(statement, (Declare, Assign)):
            strides[statement.var.name] = None
    return _is_long(loop) and all(
        stride(index, strides) in ((1,) if is_store else (0, 1))
        for statement in walk(loop.body)
        for index, is_store in _accesses(statement)
    )


def _accesses(statement: Stmt) -> list[tuple[Expr, bool]]:
    """Return the indices that a statement itself reads and writes at, and whether it writes."""
    found = [
        (inner.index, False)
        for expr in expressions(statement)
        for inner in walk_expression(expr)
        if isinstance(inner, Load)
    ]
    return found + ([(statement.index, True)] if isinstance(statement, Store) else [])


def _is_long(loop: For) -> bool:
    """True if a loop has many iterations, or as many as the call says."""
    if loop.step != 1 or loop.kind is LoopKind.UNROLL:
        return False
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return int(loop.stop.value) - int(loop.start.value) > _LONG
    return True
