"""Entries for runs on several threads: fork and join around every parallel loop.

The caller runs the thunks in order. A kernel with a parallel loop is a region, whose parts it and
the workers of a pool claim (`codegen.pool`), also inside loops and branches, whose control flow is
the caller's; what else there is, it runs alone. Which thread
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

from collections.abc import Iterator, Mapping, Sequence
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
from rlx.codegen.schedule import AnyThunk, BranchThunk, LoopThunk, Phase, Schedule, Thunk
from rlx.codegen.sync import (
    ARENA,
    EXTENTS,
    MAX_DEPTH,
    MAX_EXTENTS,
    MOVES,
    STEPS,
    TASK,
    THREADS,
)
from rlx.codegen.sync_access import declare_sync
from rlx.dataclass import dataclass
from rlx.errors import InternalError

_ARGUMENTS = {THREADS: "threads", TASK: "task", ARENA: "arena_at", MOVES: "moves_at"}
"""What `launch` is given for the workers."""

_LEAST_NESTED = 5 * LEAST_SHARED
"""Nanoseconds from which a kernel in the body of a loop or in a branch is shared: what is copied
between two of them, from one processor's cache to another's, takes microseconds."""

_UNKNOWN_TRIPS = 16
"""Trips of a loop that ends by a condition."""

_LEAST_PROGRAM = 2 * LEAST_SHARED
"""Nanoseconds of shared work without which a program has no entries for several threads."""


def has_shared_work(schedule: Schedule, kernels: Kernels) -> bool:
    """True if the kernels of the run phase that threads can share are worth that."""
    regions = _regions(schedule, *take_apart(schedule, kernels))
    return sum(shared.work * shared.trips for shared in regions) >= _LEAST_PROGRAM


@dataclass(frozen=True, slots=True)
class _Shared:
    """A thunk that threads share."""

    thunk: Thunk
    work: int
    """Nanoseconds of one execution, at the largest extents."""
    trips: int = 1
    """Executions in a run, by the loops around it."""


def _regions(schedule: Schedule, apart: Schedule, kernels: Kernels) -> list[_Shared]:
    """Return the thunks of `apart` that threads share.

    `apart` is made from `schedule`, whose thunks are named after their ops.
    """
    whole = {t.node: t for t in schedule.phase(Phase.RUN) if isinstance(t, Thunk)}
    found = [
        _Shared(thunk, nanoseconds(whole.get(thunk.node, thunk)), trips)
        for thunk, trips in _executed(apart.phase(Phase.RUN), 1)
        if is_shared(kernels[thunk.kernel_key])
    ]
    outer = {id(thunk) for thunk in apart.phase(Phase.RUN)}
    return [s for s in found if s.work >= (LEAST_SHARED if id(s.thunk) in outer else _LEAST_NESTED)]


def _executed(thunks: Sequence[AnyThunk], trips: int) -> Iterator[tuple[Thunk, int]]:
    """Yield thunks, those of bodies too, and how often each is executed; not those of conditions.

    Those inside of more loops than a region describes are left out.
    """
    for thunk in thunks:
        match thunk:
            case Thunk():
                yield thunk, trips
            case LoopThunk() if thunk.depth < MAX_DEPTH:
                known = thunk.steps if thunk.predicate is None else None
                yield from _executed(
                    thunk.body, trips * (_UNKNOWN_TRIPS if known is None else known)
                )
            case BranchThunk():
                for branch in thunk.branches:
                    yield from _executed(branch, trips)
            case _:
                pass


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
    shared: Sequence[_Shared]
    """The regions in order."""
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
        calls = _SharingCalls(k, arena, extents, self.kernels, self._moved(k, moves))
        calls.open_regions(share, sync, self._rests(calls))
        for thunk in self.schedule.phase(Phase.RUN):
            calls.emit(thunk)
        return k.build([f"{self.schedule.name}: the hot path on several threads."])

    def part(self) -> Kernel:
        """Build the entry that computes one part of a region."""
        k = KernelBuilder(entry_name(self.schedule, "part"))
        arena, moves, sync = declare_arena(k), declare_moves(k), declare_sync(k)
        region, *part = (k.scalar(name) for name in ("region", "first", "last", "units"))
        extents = {s: k.load(sync, EXTENTS + i) for i, s in enumerate(self.symbols)}
        calls = IoBindingCalls(k, arena, extents, self.kernels, self._moved(k, moves))
        thunks = [shared.thunk for shared in self.shared]
        for depth in sorted(set().union(*map(_depths, thunks))):
            calls.steps[depth] = k.load(sync, STEPS + depth)
        if thunks:
            self._part(calls, thunks, 0, region, part)
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
        for number, shared in reversed([*enumerate(self.shared)]):
            work = _work(calls, shared.thunk, shared.work)
            rest = calls.k.let("rest", rest + work * shared.trips)
            found[id(shared.thunk)] = number, work, rest
        return found

    def _moved(self, k: KernelBuilder, moves: Buffer | None) -> dict[Region, E]:
        if moves is None:
            return {}
        return {region: k.load(moves, i) for i, region in enumerate(self.regions)}


class _SharingCalls(IoBindingCalls):
    """Calls of the caller, who opens a region for each thunk that is shared."""

    def open_regions(
        self, share: Kernel, sync: Buffer, rests: Mapping[int, tuple[int, E, E]]
    ) -> None:
        """Set the kernel that shares a region, and the thunks that are: see `_Threaded._rests`."""
        self._share, self._sync, self._rests = share, sync, rests

    def call(self, thunk: Thunk, bounds: tuple[E, E] | None = None) -> None:
        if id(thunk) not in self._rests:
            super().call(thunk, bounds)
            return
        for depth in sorted(_depths(thunk)):
            self.k.store(self._sync, STEPS + depth, self.steps[depth])
        number, work, rest = self._rests[id(thunk)]
        given = [const(number, Prim.I64), _trips(self, thunk)[2], work, rest]
        self.k.invoke(self._share, [self.k.address(self._sync, writable=True)], given)


def _depths(thunk: Thunk) -> set[int]:
    """Return the depths of the loops whose steps the addresses of a thunk depend on."""
    scratch = () if thunk.scratch is None else (thunk.scratch,)
    refs = (*thunk.operands, *thunk.results, *scratch)
    return {advance.depth for ref in refs for advance in ref.advances}


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
