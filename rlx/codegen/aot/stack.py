"""How many bytes of stack a call of an artifact takes: a bound from the kernels themselves.

The bound needs no compiler, so that it is the same wherever an artifact is made. Along the
deepest chain of calls it adds, per function, the local buffers and a place for every value of the
kernel that may be alive at once. Compilers keep most of these in registers; what they need for
unrolling and vectorizing by themselves lies within the same bytes. Tests hold the bound against
what GCC and clang report with `-fstack-usage`. It does not hold for code without optimization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rlx.codegen.loops.nodes import (
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

_FRAME = 192
"""Of any function: return address, saved registers, spilled addresses and counters."""
_INTERFACE = 512
"""`call`, `run` and the checks before the first kernel; with threads, their frame."""
_SMALL_FRAME, _SMALL_INTERFACE = 64, 128
"""The same for microcontrollers, whose registers are few and narrow and whose code is small."""
_WORD = 8
_BLOCK = 512
"""The widest stretch of values that compilers make of a loop with `simd`, in bytes."""


def stack_bytes(phases: Iterable[Kernel], target: Target) -> int:
    """Return a bound of the stack of any call; what functions of other libraries take is theirs."""
    interface = _SMALL_INTERFACE if target.is_small else _INTERFACE
    return interface + max((_deepest(phase, target) for phase in phases), default=0)


def _deepest(kernel: Kernel, target: Target) -> int:
    callees = (s.kernel for s in walk(kernel.body) if isinstance(s, Invoke))
    return _frame(kernel, target) + max((_deepest(callee, target) for callee in callees), default=0)


def _frame(kernel: Kernel, target: Target) -> int:
    """Return the bytes of one kernel's own frame, math functions put into it included."""
    fixed = _SMALL_FRAME if target.is_small else _FRAME
    arguments = _WORD * (len(kernel.buffers) + len(kernel.scalars) + 3)
    widened = _BLOCK if target.has_vectors and _has_loop(kernel.body) else 0
    passed = _WORD * _longest_call(kernel)
    return fixed + arguments + passed + widened + _locals(kernel, target) + _alive(kernel.body)


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


def _alive(block: Block) -> int:
    """Return the bytes of the values that a block binds, and of the largest block within."""
    own = sum(_bound(statement) for statement in block)
    within = (_alive(inner) for statement in block for inner in blocks(statement))
    return own + max(within, default=0)


def _bound(statement: Stmt) -> int:
    """Return the bytes of what a statement binds and of what it computes on the way."""
    bound = _size(statement.var.type) if isinstance(statement, (Let, Declare)) else 0
    every = [each for expr in expressions(statement) for each in walk_expression(expr)]
    vectors = sum(_size(e.type) for e in every if e.type.lanes > 1 and not isinstance(e, Var))
    called = (each.function for each in every if isinstance(each, Call))
    return bound + vectors + max(map(_function_bytes, called), default=0)


def _functions(expr: Expr) -> Iterator[Function]:
    return (each.function for each in walk_expression(expr) if isinstance(each, Call))


def _function_bytes(function: Function) -> int:
    """Return the bytes of a math function's values, and of what it calls."""
    exprs = (*(let.value for let in function.lets), function.result)
    inner = (_function_bytes(callee) for expr in exprs for callee in _functions(expr))
    return sum(_size(let.var.type) for let in function.lets) + max(inner, default=0)


def _size(type: ValueType) -> int:
    return max(_WORD, type.prim.size * type.lanes)
