"""Entries for runs on several threads: fork and join around every parallel loop.

The caller runs the thunks in order. A kernel with a parallel loop is a region, whose parts it and
the workers of a pool claim (`codegen.pool`); what else there is, it runs alone. Which thread
computes a part, and how many parts there are, does not change any result. Kernels that can fail
run on the caller alone, so that the first fault is the one reported; of those that come apart
(`codegen.checks`, `codegen.speculative_parallel`) only the checks do.

    <name>_launch(arena, [moves,] sync, extents..., threads, task, arena_at, moves_at)
    <name>_part(arena, moves, sync, region, first, last, units)     the task: a part of a region
    <name>_worker(sync)                                        what a thread of the pool runs

`moves` is there if regions of the arena may be elsewhere than planned (`codegen.io_binding`).
`task`, `arena_at` and `moves_at` are addresses that the workers pass on. The start routine of
workers is the same in all programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.checks import take_apart
from rlx.codegen.entry import Kernels, ThunkCalls, can_fail, declare_arena, entry_name, full_range
from rlx.codegen.estimate import nanoseconds
from rlx.codegen.io_binding import IoBindingCalls, declare_moves
from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, const, minimum
from rlx.codegen.loops.nodes import Buffer, Invoke, Kernel, Module, Prim
from rlx.codegen.pool import LEAST_SHARED, pool_kernels
from rlx.codegen.regions import Region
from rlx.codegen.schedule import Phase, Schedule, Thunk
from rlx.codegen.sync import ARENA, EXTENTS, MAX_EXTENTS, MOVES, TASK, THREADS
from rlx.codegen.sync_access import declare_sync
from rlx.dataclass import dataclass
from rlx.errors import InternalError

_ARGUMENTS = {THREADS: "threads", TASK: "task", ARENA: "arena_at", MOVES: "moves_at"}
"""What `launch` is given for the workers."""

_LEAST_PROGRAM = 2 * LEAST_SHARED
"""Nanoseconds of shared work without which a program has no entries for several threads."""


def has_shared_work(schedule: Schedule, kernels: Kernels) -> bool:
    """True if the kernels of the run phase that threads can share are worth that."""
    regions = _regions(schedule, *take_apart(schedule, kernels))
    return sum(work for _, work in regions) >= _LEAST_PROGRAM


def _regions(schedule: Schedule, apart: Schedule, kernels: Kernels) -> list[tuple[Thunk, int]]:
    """Return the thunks of `apart` that threads share, and how many nanoseconds they take.

    `apart` is made from `schedule`, whose thunks are named after their ops.
    """
    whole = {t.node: t for t in schedule.phase(Phase.RUN) if isinstance(t, Thunk)}
    thunks = [thunk for thunk in apart.phase(Phase.RUN) if isinstance(thunk, Thunk)]
    shared = [thunk for thunk in thunks if is_shared(kernels[thunk.kernel_key])]
    timed = [(thunk, nanoseconds(whole[thunk.node])) for thunk in shared]
    return [(thunk, work) for thunk, work in timed if work >= LEAST_SHARED]


def is_shared(kernel: Kernel) -> bool:
    return kernel.parallel_loop is not None and not can_fail(kernel)


def with_threads(
    module: Module,
    schedule: Schedule,
    kernels: Kernels,
    symbols: Sequence[str],
    regions: Sequence[Region] = (),
) -> Module:
    """Return `module` with the entries for running `schedule` on several threads."""
    if len(symbols) > MAX_EXTENTS:
        raise InternalError(f"{len(symbols)} symbols of a graph; a run carries {MAX_EXTENTS}")
    apart, known = take_apart(schedule, kernels)
    parts = [kernel for key, kernel in known.items() if key not in kernels]
    protocol, share, worker = pool_kernels(schedule.name)
    shared = _regions(schedule, apart, known)
    program = _Threaded(apart, known, shared, tuple(symbols), tuple(regions))
    return replace(
        module,
        kernels=(*module.kernels, *parts, *protocol),
        entries=(*module.entries, program.part(), program.launch(share), worker),
    )


@dataclass(frozen=True, slots=True)
class _Threaded:
    schedule: Schedule
    kernels: Kernels
    shared: Sequence[tuple[Thunk, int]]
    """The regions in order, and how many nanoseconds they take at the largest extents."""
    symbols: tuple[str, ...]
    regions: tuple[Region, ...]

    def launch(self, share: Kernel) -> Kernel:
        """Build the entry that runs all thunks, the shared ones with the pool's workers."""
        k = KernelBuilder(entry_name(self.schedule, "launch"))
        arena = declare_arena(k)
        moves = declare_moves(k) if self.regions else None
        sync = declare_sync(k)
        extents = {symbol: k.scalar(symbol) for symbol in self.symbols}
        for word, name in _ARGUMENTS.items():
            k.store(sync, word, k.scalar(name))
        for position, extent in enumerate(extents.values()):
            k.store(sync, EXTENTS + position, extent)
        calls = self._calls(k, arena, moves, extents)
        rests = self._rests(calls)
        for thunk in self.schedule.phase(Phase.RUN):
            if id(thunk) not in rests:
                calls.emit(thunk)
                continue
            assert isinstance(thunk, Thunk), "only plain thunks are shared"
            number, work, rest = rests[id(thunk)]
            given = [const(number, Prim.I64), _trips(calls, thunk)[2], work, rest]
            k.invoke(share, [k.address(sync, writable=True)], given)
        return k.build([f"{self.schedule.name}: the hot path on several threads."])

    def part(self) -> Kernel:
        """Build the entry that computes one part of a region."""
        k = KernelBuilder(entry_name(self.schedule, "part"))
        arena, moves, sync = declare_arena(k), declare_moves(k), declare_sync(k)
        region, *part = (k.scalar(name) for name in ("region", "first", "last", "units"))
        extents = {s: k.load(sync, EXTENTS + i) for i, s in enumerate(self.symbols)}
        calls = self._calls(k, arena, moves, extents)
        if self.shared:
            self._part(calls, [thunk for thunk, _ in self.shared], 0, region, part)
        return k.build([f"{self.schedule.name}: one part of a parallel loop."])

    def _part(
        self, calls: ThunkCalls, thunks: Sequence[Thunk], first: int, region: E, part: Sequence[E]
    ) -> None:
        """Emit a search for `region` among those of `thunks`, which are numbered from `first`."""
        if len(thunks) == 1:
            calls.call(thunks[0], share_of(calls, thunks[0], *part))
            return
        half = len(thunks) // 2
        with calls.k.if_(region < first + half):
            self._part(calls, thunks[:half], first, region, part)
        with calls.k.else_():
            self._part(calls, thunks[half:], first + half, region, part)

    def _rests(self, calls: ThunkCalls) -> dict[int, tuple[int, E, E]]:
        """Return per region its number, its work, and what of that is left in the run with it."""
        found: dict[int, tuple[int, E, E]] = {}
        rest = const(0, Prim.I64)
        for number, (thunk, most) in reversed([*enumerate(self.shared)]):
            work = _work(calls, thunk, most)
            rest = calls.k.let("rest", rest + work)
            found[id(thunk)] = number, work, rest
        return found

    def _calls(
        self, k: KernelBuilder, arena: Buffer, moves: Buffer | None, extents: dict[str, E]
    ) -> IoBindingCalls:
        moved = {}
        if moves is not None:
            moved = {region: k.load(moves, i) for i, region in enumerate(self.regions)}
        return IoBindingCalls(k, arena, extents, self.kernels, moved)


def share_of(calls: ThunkCalls, thunk: Thunk, first: E, last: E, units: E) -> tuple[E, E]:
    """Return the range of units `first` to `last` of the kernel's parallel loop, cut in `units`."""
    start, stop, trips = _trips(calls, thunk)
    loop = calls.kernel(thunk).parallel_loop
    assert loop is not None, "only kernels with a parallel loop are shared"
    begin = start + trips * first // units * loop.step
    end = start + trips * last // units * loop.step
    return begin, end if loop.step == 1 else minimum(end, stop)


def _trips(calls: ThunkCalls, thunk: Thunk) -> tuple[E, E, E]:
    """Return the bounds of the kernel's parallel loop and its trips, in the caller's terms."""
    kernel = calls.kernel(thunk)
    loop = kernel.parallel_loop
    assert loop is not None, "only kernels with a parallel loop are shared"
    whole = Invoke(kernel, (), tuple(s.node for s in calls.scalars(thunk)))
    start, stop = (E(bound) for bound in full_range(whole))
    return start, stop, (stop - start + (loop.step - 1)) // loop.step


def _work(calls: ThunkCalls, thunk: Thunk, most: int) -> E:
    """Return the nanoseconds that a thunk takes, in proportion to the extents of its symbols."""
    work = const(most, Prim.I64)
    if thunk.opened is None:
        for symbol in thunk.symbols:
            work = calls.k.let("work", work * calls.extents[symbol.name] / max(symbol.max or 0, 1))
    return work
