"""How many bytes of stack a call of an artifact takes: a bound from the kernels themselves.

The bound needs no compiler, so that it is the same wherever an artifact is made. Along the
deepest chain of calls it adds, per function, the local buffers and a place for every value of the
kernel that is alive where most are. Compilers keep most of these in registers; what they need for
unrolling and vectorizing by themselves is within the same bytes. Tests hold the bound against
what GCC and clang report with `-fstack-usage`. It does not hold for code without optimization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlx.codegen.loops.nodes import (
    Assign,
    Block,
    Call,
    Declare,
    Expr,
    External,
    For,
    Function,
    Invoke,
    Kernel,
    Let,
    Local,
    Stmt,
    ValueType,
    Var,
)
from rlx.codegen.loops.visit import blocks, expressions, walk, walk_expression
from rlx.target import Target

_FRAME, _SMALL_FRAME = 192, 64
"""Of any kernel: return address, saved registers, spilled addresses and counters; the second on
microcontrollers, whose registers are few and narrow and whose code is small."""
_CALLS, _SMALL_CALLS = 96, 40
"""Of a function that calls kernels and computes nothing."""
_INTERFACE, _SMALL_INTERFACE = 320, 64
"""`call`, `run` and the checks before the first kernel; with threads, their frame."""
_VECTORS_IN_FLIGHT = 8
"""How many vectors compilers make of one value of a loop, by unrolling and by widening."""
_SPILLED = 16
"""One in so many bytes of values is kept twice: what a value is spread from, or a part of it."""
_REGISTER, _UNROLLED = 16, 3
"""Vectors longer than any machine's register are in memory, once per unrolled copy."""


def stack_bytes(phases: Iterable[Kernel], target: Target) -> int:
    """Return a bound of the stack of any call; what functions of other libraries take is theirs."""
    interface = _SMALL_INTERFACE if target.is_small else _INTERFACE
    return interface + max((_deepest(phase, target) for phase in phases), default=0)


def _deepest(kernel: Kernel, target: Target) -> int:
    callees = (s.kernel for s in walk(kernel.body) if isinstance(s, Invoke))
    return _frame(kernel, target) + max((_deepest(callee, target) for callee in callees), default=0)


def _frame(kernel: Kernel, target: Target) -> int:
    """Return the bytes of one kernel's own frame, math functions put into it included."""
    word = target.common.word_bytes
    if all(isinstance(s, Invoke) for s in kernel.body):
        fixed = _SMALL_CALLS if target.is_small else _CALLS
        return fixed + word * (len(kernel.buffers) + _longest_call(kernel))
    fixed = _SMALL_FRAME if target.is_small else _FRAME
    arguments = word * (len(kernel.buffers) + len(kernel.scalars) + 3 + _longest_call(kernel))
    widened = _VECTORS_IN_FLIGHT * target.vector_bytes if _has_loop(kernel.body) else 0
    alive = _alive(kernel.body, word)
    spilled = 0 if target.is_small else alive // _SPILLED
    return fixed + arguments + widened + _locals(kernel, target) + alive + spilled


def _has_loop(block: Block) -> bool:
    return any(isinstance(s, For) for s in walk(block))


def _longest_call(kernel: Kernel) -> int:
    """Return how many arguments a call passes at most."""
    statements = list(walk(kernel.body))
    invokes = (s for s in statements if isinstance(s, Invoke))
    counts = [len(s.buffers) + len(s.scalars) + 3 for s in invokes]
    counts += [len(s.args) for s in statements if isinstance(s, External)]
    return max(counts, default=0)


def _locals(kernel: Kernel, target: Target) -> int:
    buffers = (s.buffer for s in walk(kernel.body) if isinstance(s, Local))
    return sum((b.extent or 0) * b.prim.size + target.alignment for b in buffers)


def _alive(block: Block, word: int, copies: int = 1) -> int:
    """Return the most bytes of values that a block holds at once, blocks within included.

    Compilers that lack registers for vectors give each a place of its own, which they keep; for
    those of `copies` iterations if they unroll the loop.
    """
    last = {name: at for at, statement in enumerate(block) for name in _read(statement)}
    scalars: dict[str, int] = {}
    vectors, most = 0, 0
    for at, statement in enumerate(block):
        if isinstance(statement, (Let, Declare)):
            size = _size(statement.var.type, word)
            if statement.var.type.lanes == 1:
                scalars[statement.var.name] = size
            else:
                vectors += size * (copies if size > _REGISTER else 1)
        vectors += _vectors_on_the_way(statement, word, copies)
        often = _UNROLLED if isinstance(statement, For) else copies
        within = max((_alive(inner, word, often) for inner in blocks(statement)), default=0)
        passing = _calls_on_the_way(statement, word) + within
        most = max(most, sum(scalars.values()) + vectors + passing)
        scalars = {name: size for name, size in scalars.items() if last.get(name, -1) > at}
    return most


def _read(statement: Stmt) -> Iterator[str]:
    """Yield the variables that a statement, or one within it, reads or assigns."""
    for each in walk((statement,)):
        if isinstance(each, Assign):
            yield each.var.name
        for expr in expressions(each):
            yield from (e.name for e in walk_expression(expr) if isinstance(e, Var))


def _vectors_on_the_way(statement: Stmt, word: int, copies: int) -> int:
    """Return the bytes of the vectors that a statement computes before its result."""
    every = (each for expr in expressions(statement) for each in walk_expression(expr))
    sizes = [_size(e.type, word) for e in every if e.type.lanes > 1 and not isinstance(e, Var)]
    return sum(size * (copies if size > _REGISTER else 1) for size in sizes)


def _calls_on_the_way(statement: Stmt, word: int) -> int:
    """Return the bytes of the largest math function that a statement calls."""
    called = (function for expr in expressions(statement) for function in _functions(expr))
    return max((_function_bytes(function, word) for function in called), default=0)


def _functions(expr: Expr) -> Iterator[Function]:
    return (each.function for each in walk_expression(expr) if isinstance(each, Call))


def _function_bytes(function: Function, word: int) -> int:
    """Return the bytes of a math function's values, and of what it calls."""
    exprs = (*(let.value for let in function.lets), function.result)
    inner = (_function_bytes(callee, word) for expr in exprs for callee in _functions(expr))
    return sum(_size(let.var.type, word) for let in function.lets) + max(inner, default=0)


def _size(type: ValueType, word: int) -> int:
    return max(word, type.prim.size * type.lanes)
