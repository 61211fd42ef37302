"""Parallel runs of kernels that may fail: all threads try, and thread 0 repeats a failed one.

After a singular matrix a kernel may go on: what it computes means nothing, but it touches no
other memory than it would have. Such a kernel comes apart. In the attempt all threads take their
shares and only note that there was a fault. In the verdict thread 0 runs the kernel again, alone
and from the start, if there was one: so the fault at the lowest position is the one reported, for
any number of threads, and only runs that fail cost more. It takes operands that the attempt left
as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.entry import can_fail
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E
from rlx.codegen.loops.nodes import (
    Address,
    Atomic,
    AtomicOp,
    Block,
    Buffer,
    Const,
    Fail,
    Kernel,
    Prim,
    Status,
    Stmt,
    ValueType,
)
from rlx.codegen.loops.visit import map_blocks, walk
from rlx.codegen.schedule import BufferRef, Thunk
from rlx.dataclass import dataclass
from rlx.ir.dtype import DType
from rlx.ir.types import TensorType

FLAG = BufferRef(4 * Prim.I64.size, TensorType(DType.I64, (1,)))
"""A word of the arena's header, not 0 between an attempt with a fault and its verdict."""

_OF_NUMBERS = (Status.SINGULAR_MATRIX, Status.INVALID_DISTRIBUTION)
"""Faults after which a kernel may go on."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The two kernels that a kernel is split into; both take the flag after the results."""

    attempt: Kernel
    verdict: Kernel


def attempt_of(kernel: Kernel, results_end: int) -> Attempt | None:
    """Return the parts of a kernel that can fail in its parallel loop, on numbers alone.

    `results_end` counts its operands and results, which scratch may follow.
    """
    fails = [statement for statement in walk(kernel.body) if isinstance(statement, Fail)]
    if kernel.parallel_loop is None or not fails:
        return None
    if any(fail.status not in _OF_NUMBERS for fail in fails):
        return None
    flag = Buffer("fault_seen", Prim.I64, writable=True, may_alias=True)
    buffers = (*kernel.buffers[:results_end], flag, *kernel.buffers[results_end:])
    body = _noting(kernel.body, flag)
    attempt = replace(kernel, name=f"{kernel.name}_attempt", buffers=buffers, body=body)
    if can_fail(attempt):
        return None
    return Attempt(attempt, _verdict(kernel, buffers, flag))


def take_part(thunk: Thunk, kernel: Kernel) -> tuple[Attempt, Thunk, Thunk] | None:
    """Return the parts of a thunk's kernel and their thunks; None if it stays whole."""
    if any(_overlap(result, operand) for result in thunk.results for operand in thunk.operands):
        return None
    parts = attempt_of(kernel, len(kernel.buffers) - (thunk.scratch is not None))
    if parts is None:
        return None
    results = (*thunk.results, FLAG)
    attempt = replace(thunk, kind=f"{thunk.kind}_attempt", results=results)
    return parts, attempt, replace(thunk, kind=f"{thunk.kind}_verdict", results=results)


def _overlap(a: BufferRef, b: BufferRef) -> bool:
    return a.offset < b.stop and b.offset < a.stop


def _noting(block: Block, flag: Buffer) -> Block:
    """Return a block that raises the flag where it would fail."""
    return tuple(_noted(statement, flag) for statement in block)


def _noted(statement: Stmt, flag: Buffer) -> Stmt:
    if isinstance(statement, Fail):
        return Atomic(AtomicOp.STORE, flag, _word(0), _word(1))
    return map_blocks(statement, lambda block: _noting(block, flag))


def _word(value: int) -> Const:
    return Const(value, ValueType(Prim.I64))


def _verdict(kernel: Kernel, buffers: Sequence[Buffer], flag: Buffer) -> Kernel:
    """Run the whole kernel if the flag is set, and clear the flag."""
    k = KernelBuilder(f"{kernel.name}_verdict")
    seen = k.atomic(AtomicOp.LOAD, flag, 0)
    assert seen is not None, "an atomic load binds what it saw"
    with k.if_(seen.ne(0)):
        k.atomic(AtomicOp.STORE, flag, 0, 0)
        addresses = [
            Address(buffer, _word(0), buffer.prim, buffer.writable) for buffer in kernel.buffers
        ]
        k.invoke(kernel, addresses, [E(scalar) for scalar in kernel.scalars])
    body = k.build().body
    doc = (f"{kernel.name} again, on one thread, to name the first fault.",)
    return Kernel(k.name, tuple(buffers), kernel.scalars, body, doc)
