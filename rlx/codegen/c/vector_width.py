"""Vector width that a C compiler may use for loops over doubles.

GCC, in every version with AVX-512 that we know, moves elements of a vector of eight doubles with
`vpermilpd`, which cannot cross 128-bit lanes, where elements 2 or 3 come from the upper half and
all others stay in their lane: its check of the pattern (`avx_vpermilp_parallel`) forgets an upper
bound. Its vectorizers make such moves in straight-line code and in loops. Vectors of four doubles
are right, and so are loops that need no move at all: those may keep the whole width, and the
heavy ones among them are spelled out in whole vectors where other loops of a kernel move. A loop is
long by the most iterations that its limits allow: compilers that know of fewer write them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
    Fma,
    For,
    Function,
    Kernel,
    Let,
    Load,
    LoopKind,
    Prim,
    Stmt,
    Store,
    Unary,
    UnaryOp,
    ValueType,
    Var,
    While,
)
from rlx.codegen.loops.passes.affine import Forms
from rlx.codegen.loops.passes.loop_distribution import distributed
from rlx.codegen.loops.passes.names import Names, kept_apart
from rlx.codegen.loops.passes.pipeline import KernelPass
from rlx.codegen.loops.passes.ranges import Ranges
from rlx.codegen.loops.passes.strides import stride
from rlx.codegen.loops.passes.vectorize import widen_loop
from rlx.codegen.loops.visit import (
    all_expressions,
    blocks,
    expressions,
    functions_called,
    functions_of,
    map_blocks,
    walk,
    walk_expression,
)

_LONG = 32
"""Iterations of a loop that compilers never write out (GCC: at most 16), and that outweigh a call:
those of a block of a batch in a loop nest, too, which runs once a step."""


_HEAVY = 16
"""Operations from which a loop is bound by them, and not by its loads and stores."""

_OPERATORS: frozenset[BinaryOp | UnaryOp] = frozenset(
    {BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.DIV, UnaryOp.NEG}
)
"""What vectors have operators for in C; minima and roots outside of functions stay scalar."""


def touches_doubles(kernels: Iterable[Kernel]) -> bool:
    """True if a kernel or a function that it calls computes with doubles."""
    kernels = tuple(kernels)
    return any(map(_is_double, _computed(kernels, functions_of(kernels))))


def keeps_wide_vectors(kernel: Kernel) -> bool:
    """True if a compiler that vectorizes the loops of `kernel` moves no doubles between lanes.

    Every access is to successive elements, or to one, in the innermost of loops that are long.
    """
    lengths = _lengths(kernel.body)
    long = frozenset(loop for loop, length in lengths.items() if length >= _LONG)
    return bool(long) and (not touches_doubles((kernel,)) or _is_flat(kernel.body, long))


def _computed(kernels: tuple[Kernel, ...], functions: tuple[Function, ...]) -> Iterator[Expr]:
    for kernel in kernels:
        yield from all_expressions(kernel.body)
    for function in functions:
        for expr in (*(let.value for let in function.lets), function.result):
            yield from walk_expression(expr)


def _is_double(expr: Expr) -> bool:
    return expr.type.prim is Prim.F64


def _is_flat(block: Block, long: frozenset[int]) -> bool:
    return all(_is_flat_statement(statement, long) for statement in block)


def _is_flat_statement(statement: Stmt, long: frozenset[int]) -> bool:
    if isinstance(statement, For) and not _holds_loop(statement.body):
        return id(statement) in long and _moves_in_order(statement)
    return not _accesses(statement) and all(_is_flat(inner, long) for inner in blocks(statement))


def _holds_loop(block: Block) -> bool:
    return any(isinstance(inner, (For, While)) for inner in walk(block))


def _moves_in_order(loop: For) -> bool:
    """True if a loop reads and writes successive elements, or reads one again and again."""
    strides: dict[str, int | None] = {loop.var.name: 1}
    for statement in walk(loop.body):
        if isinstance(statement, Let):
            strides[statement.var.name] = stride(statement.value, strides)
        elif isinstance(statement, (Declare, Assign)):
            strides[statement.var.name] = None
    return all(
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


def _lengths(body: Block) -> dict[int, int]:
    """Return, by the identity of each loop that is not written out, its most iterations."""
    ranges, lets, found = Ranges(), dict[str, Expr](), dict[int, int]()
    changing = frozenset(s.var.name for s in walk(body) if isinstance(s, (Declare, Assign)))
    for statement in walk(body):
        if isinstance(statement, Let) and statement.var.type == ValueType(Prim.I64):
            lets[statement.var.name] = statement.value
            ranges.note(statement.var, ranges.of(statement.value))
        elif isinstance(statement, For):
            if statement.step == 1 and statement.kind is not LoopKind.UNROLL:
                found[id(statement)] = _most_iterations(statement, ranges, Forms(lets, changing))
            first, last = ranges.of(statement.start)[0], ranges.of(statement.stop)[1] - 1
            ranges.note(statement.var, (first, last))
    return found


def _most_iterations(loop: For, ranges: Ranges, forms: Forms) -> int:
    """Return how many iterations the limits of a loop allow: very many where a call says them."""
    start, stop = forms.of(loop.start), forms.of(loop.stop)
    if start is not None and stop is not None and not (length := stop.minus(start)).terms:
        return length.constant
    return ranges.of(loop.stop)[1] - ranges.of(loop.start)[0]


def explicit_vectors(vector_bytes: int) -> KernelPass:
    """Return the pass that spells out vectors where compilers may not have the whole width.

    Loops over doubles that move none, and only add, multiply, divide and call our functions,
    next to loops that do. Light loops are bound by memory: they stay as they are.
    """

    def run(kernel: Kernel) -> Kernel:
        if not touches_doubles((kernel,)) or keeps_wide_vectors(kernel):
            return kernel
        body = _spelled_out(kernel.body, vector_bytes, Names(kernel))
        return kernel if body == kernel.body else replace(kernel, body=body)

    return run


def _spelled_out(body: Block, vector_bytes: int, names: Names) -> Block:
    result: list[Stmt] = []
    for statement in body:
        pieces = None
        if isinstance(statement, For) and _is_plain_arithmetic(statement):
            pieces = _in_vectors(statement, vector_bytes, names)
        if pieces is None:
            inner = map_blocks(statement, lambda block: _spelled_out(block, vector_bytes, names))
            result.append(inner)
        else:
            names.release(statement)
            result += kept_apart(pieces, names)
    return tuple(result)


def _in_vectors(loop: For, vector_bytes: int, names: Names) -> Block | None:
    """Return a loop in whole vectors, its moves in separate loops."""
    if _moves_in_order(loop):
        return widen_loop(loop, vector_bytes, most=1)
    parts = distributed(loop, names)
    if parts is None or not _moves_in_order(parts[1]):
        return None
    before, inner, after = parts
    pieces = widen_loop(inner, vector_bytes, most=1)
    return None if pieces is None else (*before, *pieces, *after)


def _is_plain_arithmetic(loop: For) -> bool:
    """True for a heavy `simd` loop over doubles that C's operators and our functions compute."""
    if loop.kind is not LoopKind.SIMD or loop.accumulators:
        return False
    nodes = [e for s in walk(loop.body) for root in expressions(s) for e in walk_expression(root)]
    called = [functions_called([e]) for e in nodes if isinstance(e, Call) and _is_double(e)]
    inside = [e for functions in called for e in _computed((), functions)]
    work = [e for e in (*nodes, *inside) if isinstance(e, (Binary, Fma)) and _is_double(e)]
    return len(work) >= _HEAVY and all(map(_has_vector_form, nodes))


def _has_vector_form(expr: Expr) -> bool:
    if isinstance(expr, (Binary, Unary)):
        return expr.op in _OPERATORS
    return isinstance(expr, (Var, Load, Const)) or (isinstance(expr, Call) and _is_double(expr))
