"""The protocol between a caller and the workers of its pool, in the loop language.

A parallel loop is a region. Its iterations are divided among the threads of the run, each of which
claims parts of its share from a counter of its own, and then parts of the others' shares. The first
part is half of the share, the second half of the rest, and so on: few calls, and little to wait for
at the end. The caller
claims as workers do, so that a region is computed however many workers join it, and its end waits
for those only that joined:

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
callers wake for work that takes longer than twice that, or, now and then, when they come in quick
succession. A long delay, as on a machine that does other work, is measured again after some time.

Where processors do other work, too, a worker may be interrupted in a part, for milliseconds that
the caller waits. What workers gain is credit; once waiting has used it up, the caller opens no
regions for a multiple of the time that it waited, twice as long each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rlx.codegen.loops.builder import KernelBuilder, Mutable
from rlx.codegen.loops.expr import E, Operand, index, maximum, minimum, select
from rlx.codegen.loops.nodes import AtomicOp, Buffer, Kernel, Prim, ValueType
from rlx.codegen.sync import (
    ACTIVE,
    ARENA,
    AVOID,
    CLAIMED,
    CLOCK,
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
_STATUS = ValueType(Prim.I32)


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
    return [claim, wake, wait, sleep, share], share, _worker(f"{name}_worker", claim, sleep)


def declare_sync(k: KernelBuilder) -> Buffer:
    """Declare the sync block of a pool."""
    return k.argument("sync", Prim.I64, writable=True, may_alias=True)


def call_task(k: KernelBuilder, sync: Buffer, first: Operand, last: Operand, of: Operand) -> None:
    """Compute units `first` to `last` of the current region, which has `of`."""
    arena, moves, region = (k.load(sync, word) for word in (ARENA, MOVES, REGION))
    given = (_i64(first), _i64(last), _i64(of))
    place = k.address(sync, writable=True)
    task = k.load(sync, TASK)
    k.external("task", (arena, moves, place, region, *given), _STATUS, address=task)


# Regions


def _claim(name: str) -> Kernel:
    """Compute parts of the region, those of thread `own` first, until all are claimed."""
    k = KernelBuilder(name)
    sync, own = declare_sync(k), k.scalar("own")
    active = k.let("active", k.load(sync, ACTIVE))
    count = k.let("count", k.load(sync, PARTS))
    units = k.let("units", _i64(1) << (count - 1))
    with k.loop("turn", active) as turn:
        after = k.let("after", own + turn)
        owner = k.let("owner", select(after < active, after, after - active))
        counter = k.let("counter", owner * LINE + CLAIMED)
        part = k.mutable("part", _add(k, sync, counter, 1))
        with k.while_(part < count):
            first = owner * units + (units - (units >> part))
            last = owner * units + (units - (units >> (part + 1)))
            call_task(k, sync, first, last, active * units)
            part.set(_add(k, sync, counter, 1))
    return k.build(["Compute parts of the region until all are claimed."])


def _share(name: str, claim: Kernel, wake: Kernel, wait: Kernel) -> Kernel:
    k = KernelBuilder(name)
    sync = declare_sync(k)
    region, trips, work, rest = (k.scalar(each) for each in ("region", "trips", "work", "rest"))
    k.store(sync, REGION, region)
    grains = k.let("grains", minimum(work / LEAST_SHARED, trips))
    active = k.mutable("active", minimum(k.load(sync, THREADS), grains))
    with k.if_(k.load(sync, AVOID).ne(0)):
        with k.if_(_now(k, sync) < k.load(sync, AVOID)):
            active.set(1)
        with k.else_():
            k.store(sync, AVOID, 0)
    with k.if_(active < 2):
        call_task(k, sync, 0, 1, 1)
    with k.else_():
        k.store(sync, ACTIVE, active)
        k.store(sync, PARTS, minimum(maximum(grains / active / 2, _i64(1)), _i64(_MOST_PARTS)))
        with k.loop("thread", active) as thread:
            _store(k, sync, thread * LINE + CLAIMED, 0)
        _store(k, sync, LEFT, 0)
        _store(k, sync, JOINED, 0)
        _add(k, sync, EPOCH, 1)
        with k.if_(_load(k, sync, SLEEPING) > 0):
            _invoke(k, wake, sync, rest)
        _invoke(k, claim, sync, _i64(0))
        joined = _add(k, sync, JOINED, CLOSED)
        with k.if_(joined > 0):
            credit = k.load(sync, CREDIT) + work
            k.store(sync, CREDIT, minimum(credit, _i64(_MOST_CREDIT)))
            _invoke(k, wait, sync, joined)
    return k.build(["Compute a region together with the workers that come."])


def _wait_for_workers(name: str) -> Kernel:
    """Wait until `joined` workers left; after a while asleep, for one of them may need the core."""
    k = KernelBuilder(name)
    sync, joined = declare_sync(k), k.scalar("joined")
    left = k.mutable("left", _load(k, sync, LEFT))
    with k.while_(left.ne(joined)):
        before = k.let("before", left)
        with _spin(k, sync, _PATIENCE, before, left, LEFT):
            start = _now(k, sync)
            with _locked(k, sync):
                left.set(_add(k, sync, LEFT, WAITING))
                with k.while_(left.ne(joined) & left.ne(joined + WAITING)):
                    _pthread(k, sync, "cond_wait", DONE, MUTEX)
                    left.set(_load(k, sync, LEFT))
            left.set(joined)
            _charge(k, sync, start)
    return k.build(["Wait until the workers that joined have left."])


def _charge(k: KernelBuilder, sync: Buffer, start: E) -> None:
    """Take the time since `start`, which the caller waited, from what workers have gained."""
    now = _now(k, sync)
    waited = k.let("waited", now - start)
    credit = k.let("credit", k.load(sync, CREDIT) - waited)
    k.store(sync, CREDIT, maximum(credit, _i64(0)))
    with k.if_(credit < 0):
        longer = maximum(waited * 8, k.load(sync, PENALTY) * 2)
        penalty = k.let("penalty", minimum(longer, _i64(_MOST_PENALTY)))
        k.store(sync, PENALTY, penalty)
        k.store(sync, AVOID, now + penalty)
    with k.else_():
        k.store(sync, PENALTY, 0)


# Sleep


def _wake(name: str) -> Kernel:
    """Wake the sleeping workers if that is worth it for work of `rest` nanoseconds."""
    k = KernelBuilder(name)
    sync, rest = declare_sync(k), k.scalar("rest")
    now = _now(k, sync)
    latency = k.let("latency", _load(k, sync, LATENCY))
    since = k.let("since", now - k.load(sync, LAST_LOOK))
    k.store(sync, LAST_LOOK, now)
    asleep = now - _load(k, sync, WAKE_TIME)
    is_useful = (since < _SPIN) | (rest > _LEAST_WOKEN)
    is_trial = is_useful & (asleep > maximum(latency * 8, _i64(_TRIAL)))
    is_worth_it = rest > maximum(latency * 2, _i64(_LEAST_WOKEN))
    with k.if_(is_worth_it | is_trial), _locked(k, sync):
        _store(k, sync, SLEEPING, 0)
        _store(k, sync, WAKE_TIME, now)
        _add(k, sync, WAKE, 1)
        _pthread(k, sync, "cond_broadcast", WOKEN)
    return k.build(["Wake the workers if that is worth it."])


def _sleep(name: str) -> Kernel:
    """Sleep until woken, unless a region was opened since `seen`; measure how long that took."""
    k = KernelBuilder(name)
    sync, seen = declare_sync(k), k.scalar("seen")
    with _locked(k, sync):
        before = k.let("before", _load(k, sync, WAKE))
        _add(k, sync, SLEEPING, 1)
        with k.if_(_load(k, sync, EPOCH).ne(seen)):
            _add(k, sync, SLEEPING, -1)
        with k.else_():
            wakes = k.mutable("wakes", before)
            with k.while_(wakes.eq(before)):
                _pthread(k, sync, "cond_wait", WOKEN, MUTEX)
                wakes.set(_load(k, sync, WAKE))
            now = _now(k, sync)
            _store(k, sync, LATENCY, now - _load(k, sync, WAKE_TIME))
    return k.build(["Sleep until a caller wakes the workers."])


def _worker(name: str, claim: Kernel, sleep: Kernel) -> Kernel:
    k = KernelBuilder(name)
    sync = declare_sync(k)
    own = k.let("own", _add(k, sync, STARTED, 1) + 1)
    seen, epoch = k.mutable("seen", _i64(0)), k.mutable("epoch", _load(k, sync, EPOCH))
    stop = k.mutable("stop", _load(k, sync, STOP))
    with k.while_(stop.eq(0)):
        with _spin(k, sync, _SPIN, seen, epoch, EPOCH):
            _invoke(k, sleep, sync, seen)
            epoch.set(_load(k, sync, EPOCH))
        seen.set(epoch)
        with k.if_(_add(k, sync, JOINED, 1) < CLOSED):
            with k.if_(own < k.load(sync, ACTIVE)):
                _invoke(k, claim, sync, own)
            with k.if_(_add(k, sync, LEFT, 1) >= WAITING), _locked(k, sync):
                _pthread(k, sync, "cond_signal", DONE)
        epoch.set(_load(k, sync, EPOCH))
        stop.set(_load(k, sync, STOP))
    return k.build(["What a worker does until it is stopped."])


# Parts


@contextmanager
def _spin(
    k: KernelBuilder, sync: Buffer, nanoseconds: int, old: E, seen: Mutable, word: int
) -> Iterator[None]:
    """Read `word` of `sync` into `seen` while that is `old`; open what happens if it stays so."""
    rounds, start = k.mutable("rounds", _i64(0)), k.mutable("start", _i64(0))
    is_early = k.mutable("is_early", _i64(1))
    with k.while_(seen.eq(old) & is_early.ne(0)):
        k.pause()
        seen.set(_load(k, sync, word))
        rounds.set(rounds + 1)
        with k.if_((rounds & (_GLANCES - 1)).eq(0)):
            now = _now(k, sync)
            with k.if_(start.eq(0)):
                start.set(now)
            is_early.set(select(now - start < nanoseconds, _i64(1), _i64(0)))
    with k.if_(seen.eq(old)):
        yield


@contextmanager
def _locked(k: KernelBuilder, sync: Buffer) -> Iterator[None]:
    _pthread(k, sync, "mutex_lock", MUTEX)
    yield
    _pthread(k, sync, "mutex_unlock", MUTEX)


def _pthread(k: KernelBuilder, sync: Buffer, function: str, *words: int) -> None:
    objects = [k.address(sync, word, writable=True) for word in words]
    k.external(f"pthread_{function}", objects, _STATUS)


def _now(k: KernelBuilder, sync: Buffer) -> E:
    """Return the time in nanoseconds."""
    time = k.local("time", Prim.I64, 2)
    clock = k.load(sync, CLOCK).cast(Prim.I32)
    k.external("clock_gettime", (clock, k.address(time, writable=True)), _STATUS)
    return k.let("now", k.load(time, 0) * 1_000_000_000 + k.load(time, 1))


def _invoke(k: KernelBuilder, kernel: Kernel, sync: Buffer, *scalars: E) -> None:
    k.invoke(kernel, [k.address(sync, writable=True)], scalars)


def _load(k: KernelBuilder, sync: Buffer, word: int) -> E:
    return _seen(k.atomic(AtomicOp.LOAD, sync, word))


def _add(k: KernelBuilder, sync: Buffer, word: Operand, value: Operand) -> E:
    return _seen(k.atomic(AtomicOp.ADD, sync, word, value))


def _store(k: KernelBuilder, sync: Buffer, word: Operand, value: Operand) -> None:
    k.atomic(AtomicOp.STORE, sync, word, value)


def _seen(value: E | None) -> E:
    assert value is not None, "an atomic load or add binds what it saw"
    return value


def _i64(value: Operand) -> E:
    return index(value)
