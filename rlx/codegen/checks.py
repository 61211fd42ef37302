"""Splitting of kernels that may fail: their loop runs on all threads, the checks on thread 0.

A kernel that can fail runs on thread 0 alone, so that the fault which is reported does not
depend on the number of threads. A kernel whose parallel loop cannot fail, and that checks its
operands after it, comes apart: the loop is safe whatever the checks say, since it comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rlx.codegen.entry import Kernels, can_fail
from rlx.codegen.loops.nodes import (
    Assign,
    Block,
    Comment,
    Declare,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    While,
)
from rlx.codegen.loops.visit import all_expressions, walk
from rlx.codegen.schedule import AnyThunk, Phase, Schedule, Thunk
from rlx.codegen.speculative_parallel import take_part
from rlx.dataclass import dataclass

_CHECKING = (Assign, Comment, Declare, Fail, For, If, Let, While)
"""Statements that write no memory."""


@dataclass(frozen=True, slots=True)
class SplitKernel:
    """The two kernels that a kernel is split into; `checks` takes the operands only."""

    checks: Kernel
    loop: Kernel


def split_checks(kernel: Kernel) -> SplitKernel | None:
    """Return the parts of a kernel that checks its operands after its parallel loop."""
    loop = kernel.parallel_loop
    if loop is None or not can_fail(kernel):
        return None
    place = next(i for i, statement in enumerate(kernel.body) if statement is loop)
    before, after = kernel.body[:place], kernel.body[place + 1 :]
    shared = replace(kernel, name=f"{kernel.name}_loop", body=(*before, loop))
    operands = tuple(buffer for buffer in kernel.buffers if not buffer.writable)
    if can_fail(shared) or not _reads_only((*before, *after)):
        return None
    checks = replace(kernel, name=f"{kernel.name}_checks", buffers=operands, body=(*before, *after))
    return SplitKernel(checks, shared)


def _reads_only(block: Block) -> bool:
    """True if nothing is written to memory, nor read where the kernel writes."""
    return all(isinstance(statement, _CHECKING) for statement in walk(block)) and not any(
        isinstance(expr, Load) and expr.buffer.writable for expr in all_expressions(block)
    )


def take_apart(schedule: Schedule, kernels: Kernels) -> tuple[Schedule, dict[Any, Kernel]]:
    """Return the schedule with each thunk of the run phase that can be split replaced by two.

    A kernel that fails on numbers alone runs speculatively (`codegen.speculative_parallel`).

    Also returns all kernels, those of the parts last.
    """
    known = dict(kernels)
    thunks: list[AnyThunk] = []
    for thunk in schedule.thunks:
        thunks += _apart(thunk, known) if thunk.phase is Phase.RUN else (thunk,)
    return replace(schedule, thunks=tuple(thunks)), known


def _apart(thunk: AnyThunk, kernels: dict[Any, Kernel]) -> Sequence[AnyThunk]:
    if not isinstance(thunk, Thunk):
        return (thunk,)
    kernel = kernels[thunk.kernel_key]
    if kernel.parallel_loop is None or not can_fail(kernel):
        return (thunk,)
    tried = take_part(thunk, kernel)
    if tried is not None:
        attempt, attempting, judging = tried
        kernels[attempting.kernel_key] = attempt.attempt
        kernels[judging.kernel_key] = attempt.verdict
        return attempting, judging
    parts = split_checks(kernel)
    checks = replace(thunk, kind=f"{thunk.kind}_checks", results=(), scratch=None, aliased=())
    if parts is None or checks.symbols != thunk.symbols:
        return (thunk,)
    loop = replace(thunk, kind=f"{thunk.kind}_loop")
    kernels[checks.kernel_key] = parts.checks
    kernels[loop.kernel_key] = parts.loop
    return checks, loop
