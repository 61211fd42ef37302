"""Entry points for debugging and profiling: one thunk at a time, or all with clock readings.

    <name>_step(arena, number, extents...)      thunk `number` of the schedule, setup's included
    <name>_timed(arena, stamps, extents...)     the run phase; reads the clock around every thunk

`stamps` takes a pair of i64 per reading, seconds and nanoseconds of a clock of the system: one
reading before the first thunk and one after each.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.entry import Kernels, ThunkCalls, declare_arena, entry_name
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import const
from rlx.codegen.loops.nodes import Buffer, Kernel, Module, Prim, ValueType
from rlx.codegen.schedule import Phase, Schedule

_CLOCK = "clock_gettime"
WORDS_PER_STAMP = 2


def with_step(
    module: Module, schedule: Schedule, kernels: Kernels, symbols: Sequence[str]
) -> Module:
    """Return `module` with the entry `step`."""
    return replace(module, entries=(*module.entries, _step(schedule, kernels, symbols)))


def with_timing(
    module: Module, schedule: Schedule, kernels: Kernels, symbols: Sequence[str],
    clock: int | None = None,
) -> Module:  # fmt: skip
    """Return `module` with the entry `timed`, by a `time.CLOCK_*` or the monotonic one."""
    clock = time.CLOCK_MONOTONIC if clock is None else clock
    return replace(module, entries=(*module.entries, _timed(schedule, kernels, symbols, clock)))


def _step(schedule: Schedule, kernels: Kernels, symbols: Sequence[str]) -> Kernel:
    k = KernelBuilder(entry_name(schedule, "step"))
    arena = declare_arena(k)
    number = k.scalar("number")
    extents = {symbol: k.scalar(symbol) for symbol in symbols}
    calls = ThunkCalls(k, arena, extents, kernels)
    for position, thunk in enumerate(schedule.thunks):
        with k.if_(number.eq(position)):
            calls.emit(thunk)
    return k.build([f"{schedule.name}: one thunk, for checks between thunks."])


def _timed(schedule: Schedule, kernels: Kernels, symbols: Sequence[str], clock: int) -> Kernel:
    k = KernelBuilder(entry_name(schedule, "timed"))
    arena = declare_arena(k)
    stamps = k.argument("stamps", Prim.I64, writable=True)
    extents = {symbol: k.scalar(symbol) for symbol in symbols}
    calls = ThunkCalls(k, arena, extents, kernels)
    _read_clock(k, clock, stamps, 0)
    for position, thunk in enumerate(schedule.phase(Phase.RUN), start=1):
        calls.emit(thunk)
        _read_clock(k, clock, stamps, position)
    return k.build([f"{schedule.name}: the hot path, with the clock read around every thunk."])


def _read_clock(k: KernelBuilder, clock: int, stamps: Buffer, position: int) -> None:
    place = k.address(stamps, position * WORDS_PER_STAMP, writable=True)
    k.external(_CLOCK, [const(clock, Prim.I32), place], ValueType(Prim.I32))
