"""The profiler: where the time of a run goes, thunk by thunk.

    times = profile(graph, program, feeds, params=params)
    for timed in times.thunks: print(timed.kernel, timed.median, timed.cost.flops)

The run is the compiled one with the clock read around every thunk, on one thread: some 20 ns
per reading. `clock=time.CLOCK_THREAD_CPUTIME_ID` leaves out when other processes have the core;
a reading takes longer then, as it asks the system. Use `Executable` calls to time a run as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from rlx.codegen.cost import Cost, thunk_cost
from rlx.codegen.entry import entry_name
from rlx.codegen.lower import Program
from rlx.codegen.schedule import AnyThunk, Phase, Thunk
from rlx.codegen.stepping import WORDS_PER_STAMP, with_timing
from rlx.dataclass import dataclass
from rlx.errors import InternalError
from rlx.ir.graph import Graph
from rlx.runtime.backend import Backend
from rlx.runtime.executable import Executable
from rlx.runtime.native import function_at, pointer_to
from rlx.runtime.signature import Array, checked
from rlx.target import Target

_WARM_UP = 3


@dataclass(frozen=True, slots=True)
class TimedThunk:
    """Seconds of one thunk over all runs, and what one execution costs."""

    thunk: AnyThunk
    kernel: str
    median: float
    best: float
    cost: Cost

    @property
    def flop_rate(self) -> float:
        """FLOP per second, at the median."""
        return self.cost.flops / self.median if self.median else 0.0

    @property
    def byte_rate(self) -> float:
        """Bytes per second, at the median."""
        return self.cost.bytes / self.median if self.median else 0.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The thunks of the run phase in order. `median` and `best` are those of whole runs."""

    thunks: tuple[TimedThunk, ...]
    median: float
    best: float
    repeats: int
    readings: Array = field(repr=False, compare=False)
    """When each thunk begins and the last one ends, in seconds of the clock."""

    @property
    def cost(self) -> Cost:
        return sum((timed.cost for timed in self.thunks), Cost(0, 0))


def profile(
    graph: Graph,
    program: Program,
    feeds: Mapping[str, Any],
    *,
    backend: Backend,
    target: Target,
    params: Mapping[str, Any] | None = None,
    repeats: int = 20,
    clock: int | None = None,
) -> Profile:
    """Compile `program` with clock readings and run it `repeats` times after a warm-up.

    `clock` is a `time.CLOCK_*`, the monotonic one if it is None.
    """
    executable = _timed_executable(graph, program, backend, target, params, clock)
    binding, extents = _fed(executable, feeds)
    readings = _readings(executable, extents, repeats, before=_nothing)
    seconds = np.diff(readings)
    thunks = tuple(
        _timed(thunk, program, times, binding)
        for thunk, times in zip(program.schedule.phase(Phase.RUN), seconds.T, strict=True)
    )
    whole = seconds.sum(axis=1)
    return Profile(thunks, float(np.median(whole)), float(whole.min()), repeats, readings)


def clock_readings(
    graph: Graph,
    program: Program,
    feeds: Mapping[str, Any],
    *,
    backend: Backend,
    target: Target,
    repeats: int,
    before: Callable[[], Any],
    clock: int | None = None,
) -> Array:
    """Return when each thunk begins and the last one ends, `[repeats, thunks + 1]`.

    In seconds of `clock`, a `time.CLOCK_*`; else of the monotonic one, which the processes of a
    machine share. `before` is called before each run.
    """
    executable = _timed_executable(graph, program, backend, target, None, clock)
    _, extents = _fed(executable, feeds)
    return _readings(executable, extents, repeats, before)


def _nothing() -> None:
    pass


def _fed(executable: Executable, feeds: Mapping[str, Any]) -> tuple[Mapping[str, int], list[int]]:
    """Run once on `feeds`, which checks and copies them; return the extents by symbol."""
    executable.run(feeds)
    signature = executable.signature
    arrays = [checked(a, feeds[a.name]) for a in signature.inputs]
    binding = signature.bind(arrays)
    return binding, [binding[symbol.name] for symbol in signature.symbols]


def _timed_executable(
    graph: Graph,
    program: Program,
    backend: Backend,
    target: Target,
    params: Mapping[str, Any] | None,
    clock: int | None,
) -> Executable:
    symbols = [symbol.name for symbol in program.graph.symbols]
    module = with_timing(program.module, program.schedule, program.kernels, symbols, clock)
    native = backend.load(module, target)
    return Executable(graph, replace(program, module=module), native, params=params)


def _readings(
    executable: Executable, extents: list[int], repeats: int, before: Callable[[], Any]
) -> Array:
    """Return seconds, `[repeats, thunks + 1]`."""
    count = len(executable.schedule.phase(Phase.RUN))
    stamps = np.zeros((count + 1, WORDS_PER_STAMP), np.int64)
    address = executable.native.address(entry_name(executable.schedule, "timed"))
    timed = function_at(address, f"int (*)(uint8_t *, int64_t *{', int64_t' * len(extents)})")
    arena, stamps_pointer = (
        pointer_to(executable.arena.address),
        pointer_to(stamps.ctypes.data, "int64_t *"),
    )
    rows = []
    for _ in range(_WARM_UP + repeats):
        before()
        status = timed(arena, stamps_pointer, *extents)
        if status != 0:
            raise InternalError(f"{executable.schedule.name}: a timed run returned {status}")
        rows.append(stamps[:, 0] + stamps[:, 1] * 1e-9)
    return np.array(rows[_WARM_UP:])


def _timed(
    thunk: AnyThunk, program: Program, times: Array, binding: Mapping[str, int]
) -> TimedThunk:
    name = f"{thunk.node.op.name} {thunk.node.results[0].label}"
    if isinstance(thunk, Thunk):
        name = program.kernels[thunk.kernel_key].name
    return TimedThunk(
        thunk, name, float(np.median(times)), float(times.min()), thunk_cost(thunk, binding)
    )
