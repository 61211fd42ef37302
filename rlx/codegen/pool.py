"""The protocol between a caller and the workers of its pool, in the loop language.

A parallel loop is a region. Its iterations are divided among the threads of the run, each of which
claims parts of its share from a counter of its own, and then parts of the others' shares. The first
part is half of the share, the second half of the rest, and so on: few calls, and little to wait for
at the end. The caller claims as workers do, so that a region is computed however many workers join
it, and its end waits for those only that joined:

    caller                                      worker
    write the region; CLAIMED, LEFT = 0
    JOINED = 0; EPOCH += 1                      EPOCH changed: JOINED += 1
    claim and compute parts                     was it open? claim and compute parts; LEFT += 1
    JOINED += CLOSED: n workers had joined
    until LEFT = n

A worker that comes late finds `CLOSED` in `JOINED`, which the next region overwrites. It reads
the region only after it joined, and the caller writes the next one only after all who joined
left. All this holds with acquire and release order; what is lost in a race that needs more, such
as a worker falling asleep while a region opens, is help and never a part.

Without a region a worker spins for `_SPIN`, then sleeps on a condition variable of the system.
To wake it costs the caller microseconds, and it comes after a delay that it measures itself:
callers wake for work that takes longer than twice that, and once in a millisecond when they come in
quick succession.

Where processors do other work, too, a worker may be interrupted in a part, for milliseconds that
the caller waits. What workers gain is credit; once waiting has used it up, the caller opens no
regions for a multiple of the time that it waited, twice as long each time. Workers avoid being
interrupted in parts: see `rlx.codegen.turns`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, Operand, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, Kernel
from rlx.codegen.sync import (
    ACTIVE,
    ARENA,
    AVOID,
    CLAIMED,
    CLOSED,
    CREDIT,
    DONE,
    EPOCH,
    JOINED,
    LAST_LOOK,
    LATENCY,
    LEFT,
    LINE,
    MOVES,
    MUTEX,
    PARTS,
    PENALTY,
    REGION,
    SLEEPING,
    STARTED,
    STOP,
    TASK,
    THREADS,
    WAITING,
    WAKE,
    WAKE_TIME,
    WOKEN,
)
from rlx.codegen.sync_access import (
    STATUS,
    atomic_add,
    atomic_load,
    atomic_store,
    call_pthread,
    declare_sync,
    i64,
    invoke,
    locked,
    read_clock,
)
from rlx.codegen.turns import Turns, store_caller_cpu

LEAST_SHARED = 2_000
"""Nanoseconds of work that one thread keeps to itself: opening a region costs 0.3 us."""

_MOST_PARTS = 4
"""Parts of a thread's share, of which the last two are an eighth each."""
_SPIN = 50_000
"""Nanoseconds for which a worker spins after a region, and two calls are in quick succession."""
_PATIENCE = 20_000
"""Nanoseconds for which a caller spins until workers leave; then they may need its core."""
_TRIAL = 1_000_000
"""Nanoseconds between wake-ups that only the next calls may profit from."""
_LEAST_WOKEN = 20_000
"""Nanoseconds of work for which alone no thread is woken."""
_MOST_CREDIT = 10_000_000
_MOST_PENALTY = 1_000_000_000
_GLANCES = 64
"""Pauses between two looks at the clock."""


def pool_kernels(name: str) -> tuple[list[Kernel], Kernel, Kernel]:
    """Return kernels that the last two invoke, `share` and the start routine of a worker.

    share(sync, region, trips, work, rest) computes a region of `trips` iterations that
    takes `work` nanoseconds, of `rest` that the run may still share.
    """
    claim = _claim(f"{name}_claim")
    wake = _wake(f"{name}_wake")
    wait = _wait_for_workers(f"{name}_wait")
    sleep = _sleep(f"{name}_sleep")
    share = _share(f"{name}_share", claim, wake, wait)
    turns = Turns(name)
    worker = _worker(f"{name}_worker", claim, sleep, turns)
    return [claim, wake, wait, sleep, share, *turns.kernels], share, worker


def call_task(k: KernelBuilder, sync: Buffer, first: Operand, last: Operand, of: Operand) -> None:
    """Compute units `first` to `last` of the current region, which has `of`."""
    arena, moves, region = (k.load(sync, word) for word in (ARENA, MOVES, REGION))
    given = (i64(first), i64(last), i64(of))
    place = k.address(sync, writable=True)
    task = k.load(sync, TASK)
    k.external("task", (arena, moves, place, region, *given), STATUS, address=task)


# Regions


def _claim(name: str) -> Kernel:
    """Compute parts of the region, those of thread `own` first, until all are claimed."""
    k = KernelBuilder(name)
    sync, own = declare_sync(k), k.scalar("own")
    active = k.let("active", k.load(sync, ACTIVE))
    count = k.let("count", k.load(sync, PARTS))
    units = k.let("units", i64(1) << (count - 1))
    with k.loop("turn", active) as turn:
        after = k.let("after", own + turn)
        owner = k.let("owner", select(after < active, after, after - active))
        counter = k.let("counter", owner * LINE + CLAIMED)
        part = k.mutable("part", atomic_add(k, sync, counter, 1))
        with k.while_(part < count):
            first = owner * units + (units - (units >> part))
            last = owner * units + (units - (units >> (part + 1)))
            call_task(k, sync, first, last, active * units)
            part.set(atomic_add(k, sync, counter, 1))
    return k.build(["Compute parts of the region until all are claimed."])


def _share(name: str, claim: Kernel, wake: Kernel, wait: Kernel) -> Kernel:
    k = KernelBuilder(name)
    sync = declare_sync(k)
    region, trips, work, rest = (k.scalar(each) for each in ("region", "trips", "work", "rest"))
    k.store(sync, REGION, region)
    grains = k.let("grains", minimum(work / LEAST_SHARED, trips))
    active = k.mutable("active", minimum(k.load(sync, THREADS), grains))
    with k.if_(k.load(sync, AVOID).ne(0)):
        with k.if_(read_clock(k, sync) < k.load(sync, AVOID)):
            active.set(1)
        with k.else_():
            k.store(sync, AVOID, 0)
    with k.if_(active < 2):
        call_task(k, sync, 0, 1, 1)
    with k.else_():
        k.store(sync, ACTIVE, active)
        k.store(sync, PARTS, minimum(maximum(grains / active / 2, i64(1)), i64(_MOST_PARTS)))
        with k.loop("thread", active) as thread:
            atomic_store(k, sync, thread * LINE + CLAIMED, 0)
        store_caller_cpu(k, sync)
        atomic_store(k, sync, LEFT, 0)
        atomic_store(k, sync, JOINED, 0)
        atomic_add(k, sync, EPOCH, 1)
        with k.if_(atomic_load(k, sync, SLEEPING) > 0):
            invoke(k, wake, sync, rest)
        invoke(k, claim, sync, i64(0))
        joined = atomic_add(k, sync, JOINED, CLOSED)
        with k.if_(joined > 0):
            credit = k.load(sync, CREDIT) + work
            k.store(sync, CREDIT, minimum(credit, i64(_MOST_CREDIT)))
            invoke(k, wait, sync, joined)
    return k.build(["Compute a region together with the workers that come."])


def _wait_for_workers(name: str) -> Kernel:
    """Wait until `joined` workers have left; sleep after a while, to free the core."""
    k = KernelBuilder(name)
    sync, joined = declare_sync(k), k.scalar("joined")
    left = k.mutable("left", atomic_load(k, sync, LEFT))
    with k.while_(left.ne(joined)):
        before = k.let("before", left)
        with _spin(k, sync, _PATIENCE, before, left, LEFT):
            start = read_clock(k, sync)
            with locked(k, sync):
                left.set(atomic_add(k, sync, LEFT, WAITING))
                with k.while_(left.ne(joined) & left.ne(joined + WAITING)):
                    call_pthread(k, sync, "cond_wait", DONE, MUTEX)
                    left.set(atomic_load(k, sync, LEFT))
            left.set(joined)
            _charge(k, sync, start)
    return k.build(["Wait until the workers that joined have left."])


def _charge(k: KernelBuilder, sync: Buffer, start: E) -> None:
    """Subtract the caller's waiting time since `start` from the time gained by workers."""
    now = read_clock(k, sync)
    waited = k.let("waited", now - start)
    credit = k.let("credit", k.load(sync, CREDIT) - waited)
    k.store(sync, CREDIT, maximum(credit, i64(0)))
    with k.if_(credit < 0):
        longer = maximum(waited * 8, k.load(sync, PENALTY) * 2)
        penalty = k.let("penalty", minimum(longer, i64(_MOST_PENALTY)))
        k.store(sync, PENALTY, penalty)
        k.store(sync, AVOID, now + penalty)
    with k.else_():
        k.store(sync, PENALTY, 0)


# Sleep


def _wake(name: str) -> Kernel:
    """Wake the sleeping workers if that is worth it for work of `rest` nanoseconds."""
    k = KernelBuilder(name)
    sync, rest = declare_sync(k), k.scalar("rest")
    now = read_clock(k, sync)
    latency = k.let("latency", atomic_load(k, sync, LATENCY))
    since = k.let("since", now - k.load(sync, LAST_LOOK))
    k.store(sync, LAST_LOOK, now)
    asleep = now - atomic_load(k, sync, WAKE_TIME)
    is_useful = (since < _SPIN) | (rest > _LEAST_WOKEN)
    is_trial = is_useful & (asleep > _TRIAL)
    is_worth_it = rest > maximum(latency * 2, i64(_LEAST_WOKEN))
    with k.if_(is_worth_it | is_trial), locked(k, sync):
        atomic_store(k, sync, SLEEPING, 0)
        atomic_store(k, sync, WAKE_TIME, now)
        atomic_add(k, sync, WAKE, 1)
        call_pthread(k, sync, "cond_broadcast", WOKEN)
    return k.build(["Wake the workers if that is worth it."])


def _sleep(name: str) -> Kernel:
    """Sleep until woken, unless a region was opened since `seen` or workers must end."""
    k = KernelBuilder(name)
    sync, seen = declare_sync(k), k.scalar("seen")
    with locked(k, sync):
        before = k.let("before", atomic_load(k, sync, WAKE))
        atomic_add(k, sync, SLEEPING, 1)
        has_news = atomic_load(k, sync, EPOCH).ne(seen) | atomic_load(k, sync, STOP).ne(0)
        with k.if_(has_news):
            atomic_add(k, sync, SLEEPING, -1)
        with k.else_():
            wakes = k.mutable("wakes", before)
            with k.while_(wakes.eq(before)):
                call_pthread(k, sync, "cond_wait", WOKEN, MUTEX)
                wakes.set(atomic_load(k, sync, WAKE))
            now = read_clock(k, sync)
            atomic_store(k, sync, LATENCY, now - atomic_load(k, sync, WAKE_TIME))
    return k.build(["Sleep until a caller wakes the workers."])


def _worker(name: str, claim: Kernel, sleep: Kernel, turns: Turns) -> Kernel:
    k = KernelBuilder(name)
    sync = declare_sync(k)
    own = k.let("own", atomic_add(k, sync, STARTED, 1) + 1)
    turn = turns.declare(k)
    seen, epoch = k.mutable("seen", i64(0)), k.mutable("epoch", atomic_load(k, sync, EPOCH))
    stop = k.mutable("stop", atomic_load(k, sync, STOP))
    with k.while_(stop.eq(0)):
        with _spin(k, sync, _SPIN, seen, epoch, EPOCH):
            invoke(k, sleep, sync, seen)
            turns.begin(k, sync, turn)
            epoch.set(atomic_load(k, sync, EPOCH))
        seen.set(epoch)
        with k.if_(atomic_add(k, sync, JOINED, 1) < CLOSED):
            with k.if_(own < k.load(sync, ACTIVE)):
                invoke(k, claim, sync, own)
            with k.if_(atomic_add(k, sync, LEFT, 1) >= WAITING), locked(k, sync):
                call_pthread(k, sync, "cond_signal", DONE)
        turns.check(k, sync, turn)
        epoch.set(atomic_load(k, sync, EPOCH))
        stop.set(atomic_load(k, sync, STOP))
    return k.build(["What a worker does until it is stopped."])


# Parts


@contextmanager
def _spin(
    k: KernelBuilder, sync: Buffer, nanoseconds: int, old: E, seen: Mutable, word: int
) -> Iterator[None]:
    """Spin on `word` of `sync` while it is `old`; open the block for a timeout."""
    rounds, start = k.mutable("rounds", i64(0)), k.mutable("start", i64(0))
    is_early = k.mutable("is_early", i64(1))
    with k.while_(seen.eq(old) & is_early.ne(0)):
        k.pause()
        seen.set(atomic_load(k, sync, word))
        rounds.set(rounds + 1)
        with k.if_((rounds & (_GLANCES - 1)).eq(0)):
            now = read_clock(k, sync)
            with k.if_(start.eq(0)):
                start.set(now)
            is_early.set(select(now - start < nanoseconds, i64(1), i64(0)))
    with k.if_(seen.eq(old)):
        yield
