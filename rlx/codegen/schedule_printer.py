"""The schedule as text, for people: one line per kernel call, by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from rlx.codegen.entry import describe
from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.schedule import AnyThunk, BranchThunk, BufferRef, LoopThunk, Phase, Schedule, Thunk
from rlx.ir.lowering import Lowering
from rlx.ir.printer import format_lowering

INDENT = "  "


def format_schedule(
    schedule: Schedule, kernels: Mapping[tuple[Any, ...], Kernel] | None = None
) -> str:
    """Return the calls of both phases: kernel, operands -> results with offsets, node.

    `kernels` gives each call its kernel's name; without, its kind is printed.
    """
    kernels = kernels or {}
    lines = [f"schedule {schedule.name}, arena {schedule.arena_bytes} bytes"]
    for phase in Phase:
        thunks = schedule.phase(phase)
        lines.append(f"{phase.value}: {len(thunks)} {'call' if len(thunks) == 1 else 'calls'}")
        for thunk in thunks:
            lines.extend(_lines(thunk, kernels, INDENT))
    return "\n".join(lines)


def format_thunk(thunk: AnyThunk, kernels: Mapping[tuple[Any, ...], Kernel]) -> str:
    """Return one thunk; a loop or branch with what it runs."""
    return "\n".join(_lines(thunk, kernels, ""))


def _lines(
    thunk: AnyThunk, kernels: Mapping[tuple[Any, ...], Kernel], indent: str
) -> Iterator[str]:
    match thunk:
        case Thunk():
            yield f"{indent}{_call(thunk, kernels)}"
        case LoopThunk():
            yield f"{indent}{_trips(thunk)}    # {describe(thunk.node, thunk.number)}"
            for inner in (*thunk.condition, *thunk.body):
                yield from _lines(inner, kernels, indent + INDENT)
        case BranchThunk():
            about = describe(thunk.node, thunk.number)
            yield f"{indent}branch on {_ref(thunk.selector)}    # {about}"
            for number, branch in enumerate(thunk.branches):
                yield f"{indent}case {number}:"
                for inner in branch:
                    yield from _lines(inner, kernels, indent + INDENT)
        case _:
            assert_never(thunk)


def _trips(thunk: LoopThunk) -> str:
    if thunk.predicate is None:
        return f"repeat {thunk.steps}{' backwards' if thunk.reverse else ''}"
    most = "" if thunk.steps is None else f", at most {thunk.steps} times"
    return f"while {_ref(thunk.predicate)}{most}"


def _call(thunk: Thunk, kernels: Mapping[tuple[Any, ...], Kernel]) -> str:
    kernel = kernels.get(thunk.kernel_key)
    name = thunk.kind if kernel is None else kernel.name
    operands = ", ".join(map(_ref, thunk.operands))
    results = ", ".join(map(_ref, thunk.results))
    notes = [describe(thunk.node, thunk.number), *map(format_lowering, _lowerings(thunk))]
    if thunk.aliased:
        notes.append("in place")
    if thunk.scratch is not None:
        notes.append(f"scratch {_ref(thunk.scratch)}")
    return f"{name}({operands}) -> {results}    # {'; '.join(notes)}"


def _lowerings(thunk: Thunk) -> list[Lowering]:
    """Return the record of a thunk, or of the anchor of a fused one."""
    nodes = thunk.attrs["body"].nodes if thunk.kind == "fused" else ()
    found = [thunk.lowering, *(node.lowering for node in nodes)]
    return [lowering for lowering in found if lowering is not None]


def _ref(ref: BufferRef) -> str:
    return f"{ref.type} @{ref.offset}"


Schedule.__str__ = format_schedule  # type: ignore[method-assign, assignment]  # what `print` shows
