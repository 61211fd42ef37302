"""The verifier of schedules: every buffer is inside of the arena, aligned, and disjoint.

A fault is ours, not the user's: lowering or the plan is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from rlx.codegen.schedule import (
    AnyThunk,
    BranchThunk,
    BufferRef,
    LoopThunk,
    Phase,
    Schedule,
    Thunk,
    number_of,
)
from rlx.errors import InternalError


def verify_schedule(schedule: Schedule) -> None:
    """Raise InternalError with all faults of `schedule`, if it has any."""
    faults = schedule_faults(schedule)
    if faults:
        listed = "\n  ".join(faults)
        raise InternalError(f"schedule {schedule.name!r} is wrong:\n  {listed}")


def schedule_faults(schedule: Schedule) -> list[str]:
    """Return what is wrong with `schedule`, one line each."""
    phases = [thunk.phase for thunk in schedule.thunks]
    faults = []
    if phases != sorted(phases, key=list(Phase).index):
        faults.append("a thunk of `setup` comes after one of `run`")
    for thunk in schedule.thunks:
        faults.extend(_faults(thunk, schedule.arena_bytes, thunk.phase))
    return faults


def _faults(thunk: AnyThunk, arena_bytes: int, phase: Phase) -> Iterator[str]:
    name = f"%{number_of(thunk)} {thunk.node.op.name}"
    if thunk.phase is not phase:
        yield f"{name}: runs in {thunk.phase.value} inside {phase.value}"
    match thunk:
        case Thunk():
            yield from (f"{name}: {fault}" for fault in _call_faults(thunk, arena_bytes))
        case LoopThunk():
            for ref in (thunk.predicate, thunk.trips):
                yield from _place_faults(ref, arena_bytes) if ref else ()
            for inner in (*thunk.condition, *thunk.body):
                yield from _faults(inner, arena_bytes, phase)
        case BranchThunk():
            yield from _place_faults(thunk.selector, arena_bytes)
            for branch in thunk.branches:
                for inner in branch:
                    yield from _faults(inner, arena_bytes, phase)
        case _:
            assert_never(thunk)


def _call_faults(thunk: Thunk, arena_bytes: int) -> Iterator[str]:
    scratch = () if thunk.scratch is None else (thunk.scratch,)
    for ref in (*thunk.operands, *thunk.results, *scratch):
        yield from _place_faults(ref, arena_bytes)
    written = (*thunk.results, *scratch)
    for number, result in enumerate(written):
        for other in written[:number]:
            if _overlap(result, other):
                yield f"results at {result.offset} and {other.offset} overlap"
        for position, operand in enumerate(thunk.operands):
            if (position, number) not in thunk.aliased and _overlap(result, operand):
                yield (
                    f"result {number} at {result.offset} overlaps operand {position} "
                    f"at {operand.offset} and is not declared in place"
                )


def _place_faults(ref: BufferRef, arena_bytes: int) -> Iterator[str]:
    if ref.offset < 0 or ref.stop > arena_bytes:
        yield f"bytes [{ref.offset}, {ref.stop}) of {ref.type} leave the arena of {arena_bytes}"
    size = ref.type.dtype.part.size
    if ref.offset % size:
        yield f"offset {ref.offset} is no multiple of {size}, the element size of {ref.type}"


def _overlap(a: BufferRef, b: BufferRef) -> bool:
    empty = a.stop == a.offset or b.stop == b.offset
    return not empty and not a.advances and not b.advances and _may_overlap(a, b)


def _may_overlap(a: BufferRef, b: BufferRef) -> bool:
    return a.offset < b.stop and b.offset < a.stop
