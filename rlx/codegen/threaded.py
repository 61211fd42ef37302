"""Entries for runs on several threads, and the protocol between them.

A run is SPMD: every thread executes the same list of kernels, each over its static share of
their parallel loops, with a barrier wherever a kernel touches what another thread may have
written. Which thread computes what does not change any result. Kernels without a parallel loop,
and kernels that can fail, run on thread 0 alone; of those that come apart (`codegen.checks`,
`codegen.attempts`) only the checks do.

    <name>_launch(arena, [moves,] sync, extents..., threads, seat)   thread 0: start all, join in
    <name>_worker(arena, [moves,] sync, thread, threads, seat, patience)    the others, until idle
    <name>_join(arena, sync, threads)                               thread 0, after a fault

`moves` is there if regions may lie elsewhere than planned (`codegen.io_binding`).

`sync` is a block of i64 words shared by the threads of one pool, one cache line per word in use.
A seat is a number for one executable's arena: a worker serves one seat at a time and returns
when a job is for another seat, or when nothing happened for `patience` rounds of waiting.

A fault on thread 0 ends its run at once. The others learn of it from the arena's header: a
barrier lets them pass once a status is there, and they skip the segments that follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from rlx.codegen.attempts import take_part
from rlx.codegen.checks import split_checks, take_apart
from rlx.codegen.entry import (
    Kernels,
    ThunkCalls,
    can_fail,
    declare_arena,
    entry_name,
    full_range,
)
from rlx.codegen.io_binding import IoBindingCalls, declare_moved, declare_moves, read_moves
from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, const, minimum
from rlx.codegen.loops.nodes import AtomicOp, Buffer, Invoke, Kernel, Module, Prim, ValueType
from rlx.codegen.regions import Region
from rlx.codegen.schedule import (
    AnyThunk,
    Phase,
    Schedule,
    Thunk,
)
from rlx.codegen.segments import Barrier, Step, plan_segments
from rlx.codegen.sync import ARRIVED, DONE, EXTENTS, JOB, LINE, MAX_EXTENTS, PASSED, SEAT, WORKERS
from rlx.dataclass import dataclass
from rlx.errors import InternalError

_SPINS = 2000
"""Pauses before a waiting thread offers its core to others: some tens of microseconds."""


def has_shared_work(schedule: Schedule, kernels: Kernels) -> bool:
    """True if any kernel of the run phase is one for which threads are woken."""
    return any(
        isinstance(thunk, Thunk) and _is_worth_waking(thunk, kernels[thunk.kernel_key])
        for thunk in schedule.phase(Phase.RUN)
    )


def _is_worth_waking(thunk: Thunk, kernel: Kernel) -> bool:
    whole = is_shared(kernel) or split_checks(kernel) is not None
    return kernel.wakes_threads and (whole or take_part(thunk, kernel) is not None)


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
        raise InternalError(f"{len(symbols)} symbols of a graph; a job carries {MAX_EXTENTS}")
    barrier = _barrier(schedule)
    apart, known = take_apart(schedule, kernels)
    parts = [kernel for key, kernel in known.items() if key not in kernels]
    share = _share(apart, known, symbols, regions, barrier)
    wait = _wait_for_workers(schedule)
    entries = (
        _launch(schedule, share, wait, symbols, regions),
        _worker(schedule, share, symbols, regions),
        _join(schedule, wait),
    )
    return replace(
        module,
        kernels=(*module.kernels, *parts, barrier, share, wait),
        entries=(*module.entries, *entries),
    )


# Waiting


def _wait_round(k: KernelBuilder, rounds: Mutable) -> None:
    """Pause; after many rounds also let other threads have the core."""
    k.pause()
    rounds.set(rounds + 1)
    with k.if_(rounds > _SPINS):
        k.external("sched_yield", (), ValueType(Prim.I32))


def _wait_until(k: KernelBuilder, sync: Buffer, word: int, expected: E) -> None:
    rounds = k.mutable("rounds", const(0, Prim.I64))
    seen = k.mutable("current", _load(k, sync, word))
    with k.while_(seen.ne(expected)):
        _wait_round(k, rounds)
        seen.set(_load(k, sync, word))


def _declare_sync(k: KernelBuilder) -> Buffer:
    return k.argument("sync", Prim.I64, writable=True, may_alias=True)


def _load(k: KernelBuilder, buffer: Buffer, word: int | E) -> E:
    seen = k.atomic(AtomicOp.LOAD, buffer, word)
    assert seen is not None, "an atomic load binds what it saw"
    return seen


def _barrier(schedule: Schedule) -> Kernel:
    """Wait until all threads are here, or until a fault is recorded in the header."""
    k = KernelBuilder(entry_name(schedule, "barrier"))
    header = k.argument("header", Prim.I64, may_alias=True)
    sync = _declare_sync(k)
    threads = k.scalar("threads")
    passed = k.let("passed", _load(k, sync, PASSED))
    arrived = k.atomic(AtomicOp.ADD, sync, ARRIVED, 1)
    assert arrived is not None, "an atomic add binds what it saw"
    with k.if_(arrived.eq(threads - 1)):
        k.atomic(AtomicOp.STORE, sync, ARRIVED, 0)
        k.atomic(AtomicOp.STORE, sync, PASSED, passed + 1)
    with k.else_():
        rounds = k.mutable("rounds", const(0, Prim.I64))
        waiting = k.mutable("waiting", const(1, Prim.I64))
        with k.while_(waiting.ne(0)):
            _wait_round(k, rounds)
            now = _load(k, sync, PASSED)
            fault = _load(k, header, 0)
            with k.if_(now.ne(passed) | fault.ne(0)):
                waiting.set(0)
    return k.build(["All threads meet here."])


# The run of one thread


def _share(
    schedule: Schedule,
    kernels: Kernels,
    symbols: Sequence[str],
    regions: Sequence[Region],
    barrier: Kernel,
) -> Kernel:
    """Build one thread's share of the run phase."""
    k = KernelBuilder(entry_name(schedule, "share"))
    arena = declare_arena(k)
    sync = _declare_sync(k)
    extents = {symbol: k.scalar(symbol) for symbol in symbols}
    calls = IoBindingCalls(k, arena, extents, kernels, declare_moved(k, regions))
    builder = _ShareBuilder(k, calls, sync, k.scalar("thread"), k.scalar("threads"))
    builder.run(schedule.phase(Phase.RUN), barrier)
    return k.build([f"{schedule.name}: the share of one thread of several."])


@dataclass(frozen=True, slots=True)
class _ShareBuilder:
    k: KernelBuilder
    calls: ThunkCalls
    sync: Buffer
    thread: E
    threads: E

    def run(self, thunks: Sequence[AnyThunk], barrier: Kernel) -> None:
        segments = plan_segments(thunks, self._is_solo, self._fails)
        self._segment(segments[0], barrier)
        for segment in segments[1:]:
            status = self.k.let("status", self.k.load(self.calls.arena, 0))
            with self.k.if_(status.eq(0)):
                self._segment(segment, barrier)

    def _is_solo(self, thunk: AnyThunk) -> bool:
        return not isinstance(thunk, Thunk) or not is_shared(self.calls.kernel(thunk))

    def _fails(self, thunk: Thunk) -> bool:
        return can_fail(self.calls.kernel(thunk))

    def _segment(self, steps: Sequence[Step], barrier: Kernel) -> None:
        """Emit steps in order; neighbors that run alone share one `if`."""
        for alone, group in itertools.groupby(steps, key=self._runs_alone):
            if alone:
                with self.k.if_(self.thread.eq(0)):
                    for step in group:
                        self._step(step, barrier)
            else:
                for step in group:
                    self._step(step, barrier)

    def _runs_alone(self, step: Step) -> bool:
        return not isinstance(step, Barrier) and self._is_solo(step)

    def _step(self, step: Step, barrier: Kernel) -> None:
        if isinstance(step, Barrier):
            header = self.k.address(self.calls.arena, 0, prim=Prim.I64)
            sync = self.k.address(self.sync, writable=True)
            self.k.invoke(barrier, [header, sync], [self.threads])
        elif isinstance(step, Thunk) and not self._is_solo(step):
            self.calls.call(step, share_of(self.calls, step, self.thread, self.threads))
        else:
            self.calls.emit(step)


def share_of(calls: ThunkCalls, thunk: Thunk, part: E, parts: E) -> tuple[E, E]:
    """Return one of `parts` shares of the kernel's parallel loop, in the caller's terms."""
    kernel = calls.kernel(thunk)
    loop = kernel.parallel_loop
    assert loop is not None, "only kernels with a parallel loop are shared"
    whole = Invoke(kernel, (), tuple(s.node for s in calls.scalars(thunk)))
    start, stop = (E(bound) for bound in full_range(whole))
    trips = (stop - start + (loop.step - 1)) // loop.step
    first = start + trips * part // parts * loop.step
    last = start + trips * (part + 1) // parts * loop.step
    return first, last if loop.step == 1 else minimum(last, stop)


# Entries


def _launch(
    schedule: Schedule,
    share: Kernel,
    wait: Kernel,
    symbols: Sequence[str],
    regions: Sequence[Region],
) -> Kernel:
    k = KernelBuilder(entry_name(schedule, "launch"))
    arena = declare_arena(k)
    moved = read_moves(k, declare_moves(k), regions) if regions else []
    sync = _declare_sync(k)
    extents = [k.scalar(symbol) for symbol in symbols]
    threads, seat = k.scalar("threads"), k.scalar("seat")
    for word, value in ((ARRIVED, 0), (DONE, 0), (SEAT, seat)):
        k.atomic(AtomicOp.STORE, sync, word, value)
    for position, extent in enumerate(extents):
        k.store(sync, EXTENTS + position, extent)
    k.atomic(AtomicOp.ADD, sync, JOB, 1)
    buffers = [k.address(arena, writable=True), k.address(sync, writable=True)]
    k.invoke(share, buffers, [*extents, *moved, const(0, Prim.I64), threads])
    k.invoke(wait, [buffers[1]], [threads])
    return k.build(["Start the workers, take part as thread 0, wait for all."])


def _wait_for_workers(schedule: Schedule) -> Kernel:
    k = KernelBuilder(entry_name(schedule, "wait"))
    sync = _declare_sync(k)
    threads = k.scalar("threads")
    _wait_until(k, sync, DONE, threads - 1)
    return k.build(["Wait until all workers have finished the job."])


def _join(schedule: Schedule, wait: Kernel) -> Kernel:
    k = KernelBuilder(entry_name(schedule, "join"))
    declare_arena(k)
    sync = _declare_sync(k)
    k.invoke(wait, [k.address(sync, writable=True)], [k.scalar("threads")])
    return k.build(["After a launch that failed: wait for the workers."])


def _worker(
    schedule: Schedule, share: Kernel, symbols: Sequence[str], regions: Sequence[Region]
) -> Kernel:
    k = KernelBuilder(entry_name(schedule, "worker"))
    arena = declare_arena(k)
    moved = read_moves(k, declare_moves(k), regions) if regions else []
    sync = _declare_sync(k)
    thread, threads, seat = (k.scalar(name) for name in ("thread", "threads", "seat"))
    patience = k.scalar("patience")
    own = k.let("own", thread * LINE + WORKERS)
    rounds = k.mutable("rounds", const(0, Prim.I64))
    with k.while_(rounds < patience):
        job = _load(k, sync, JOB)
        with k.if_(job.eq(k.load(sync, own))):
            _wait_round(k, rounds)
        with k.else_():
            current = _load(k, sync, SEAT)
            with k.if_(current.ne(seat)):
                rounds.set(patience)
            with k.else_():
                k.store(sync, own, job)
                extents = [k.load(sync, EXTENTS + i) for i in range(len(symbols))]
                buffers = [k.address(arena, writable=True), k.address(sync, writable=True)]
                k.invoke(share, buffers, [*extents, *moved, thread, threads])
                k.atomic(AtomicOp.ADD, sync, DONE, 1)
                rounds.set(const(0, Prim.I64))
    return k.build(["Take part in jobs of one seat until idle for long, or another seat's turn."])
