"""Time slices in which a worker spins before it yields its processor.

A worker that the system interrupts in a part keeps the caller waiting until its processor is free
again, which takes milliseconds. Between parts an interruption costs nothing. So a worker measures
for how long it runs before it is interrupted, and yields its processor between two regions shortly
before the next interruption.

A worker on the processor of the caller takes time from it. It moves to another one, where the
system has a call for that.
"""

from __future__ import annotations

import os

from rlx.codegen.loops.builder import KernelBuilder
from rlx.codegen.loops.expr import E, maximum, minimum, select
from rlx.codegen.loops.nodes import Buffer, Kernel, Prim
from rlx.codegen.sync import ALLOWED, CALLER_CPU, CPU_CLOCK, CPU_WORDS
from rlx.codegen.sync_access import (
    STATUS,
    atomic_load,
    atomic_store,
    bound,
    declare_sync,
    i64,
    invoke,
    read_clock,
)

_CHECKED, _LOST, _START, _LIMIT = range(4)
_WORDS = 4
"""A worker's turn: when it was last checked; how much later the clock is than the worker's
processor time; its processor time when the turn began, and for how long a turn goes on."""

_CHECK = 100_000
"""Nanoseconds between two checks, of which each costs about 0.3 us."""
_GAP = 100_000
"""Nanoseconds without the processor that count as an interruption."""
_MIN_TURN, _MAX_TURN = 1_500_000, 10_000_000
_NEVER = 1 << 62

_HAS_AFFINITY = hasattr(os, "sched_setaffinity")


class Turns:
    """Emits what workers do for their turns, by kernels `<name>_...`."""

    def __init__(self, name: str) -> None:
        self._leave = _leave_processor(f"{name}_leave_processor")
        self._check = _check_turn(f"{name}_check_turn", self._leave)
        self.kernels = [self._leave, self._check]

    def declare(self, k: KernelBuilder) -> Buffer:
        """Declare the turn of a worker that starts."""
        turn = k.local("turn", Prim.I64, _WORDS)
        for word, value in ((_CHECKED, 0), (_LOST, _NEVER), (_START, 0), (_LIMIT, _MAX_TURN)):
            k.store(turn, word, i64(value))
        return turn

    def begin(self, k: KernelBuilder, sync: Buffer, turn: Buffer) -> None:
        """Begin a turn after the worker slept."""
        invoke(k, self._leave, sync)
        k.store(turn, _LOST, i64(_NEVER))
        k.store(turn, _START, read_clock(k, sync, CPU_CLOCK))

    def check(self, k: KernelBuilder, sync: Buffer, turn: Buffer) -> None:
        """Yield between two regions if the turn has been long."""
        k.invoke(self._check, [k.address(sync, writable=True), k.address(turn, writable=True)])


def store_caller_cpu(k: KernelBuilder, sync: Buffer) -> None:
    """Store the caller's processor, for workers to leave it."""
    if _HAS_AFFINITY:
        atomic_store(k, sync, CALLER_CPU, _current_cpu(k))


def _leave_processor(name: str) -> Kernel:
    k = KernelBuilder(name)
    sync = declare_sync(k)
    if _HAS_AFFINITY:
        cpu = k.let("cpu", _current_cpu(k))
        with k.if_(cpu.eq(atomic_load(k, sync, CALLER_CPU))):
            mask = k.local("mask", Prim.I64, CPU_WORDS)
            with k.loop("word", CPU_WORDS) as word:
                own = select(word.eq(cpu >> 6), i64(1) << (cpu & 63), i64(0))
                k.store(mask, word, k.load(sync, ALLOWED + word) & ~own)
            given = (i64(0).cast(Prim.I32), i64(8 * CPU_WORDS), k.address(mask))
            k.external("sched_setaffinity", given, STATUS)  # fails where there is no other
    return k.build(["Move to another processor if the caller was on this one."])


def _check_turn(name: str, leave: Kernel) -> Kernel:
    k = KernelBuilder(name)
    sync = declare_sync(k)
    turn = k.argument("turn", Prim.I64, writable=True)
    now = read_clock(k, sync)
    with k.if_(now - k.load(turn, _CHECKED) > _CHECK):
        k.store(turn, _CHECKED, now)
        used = read_clock(k, sync, CPU_CLOCK)
        with k.if_(now - used - k.load(turn, _LOST) > _GAP):
            _set_limit(k, turn, (used - k.load(turn, _START)) / 4 * 3)
            k.store(turn, _START, used)
        invoke(k, leave, sync)
        lost = _lost(k, sync)
        k.store(turn, _LOST, lost)
        with k.if_(used - k.load(turn, _START) > k.load(turn, _LIMIT)):
            k.external("sched_yield", (), STATUS)
            later = _lost(k, sync)
            with k.if_(later - lost > _GAP):
                _set_limit(k, turn, k.load(turn, _LIMIT) / 4 * 5)
            k.store(turn, _LOST, later)
            k.store(turn, _START, used)
    return k.build(["Yield the processor if the worker is likely to be interrupted soon."])


def _set_limit(k: KernelBuilder, turn: Buffer, limit: E) -> None:
    k.store(turn, _LIMIT, minimum(maximum(limit, i64(_MIN_TURN)), i64(_MAX_TURN)))


def _lost(k: KernelBuilder, sync: Buffer) -> E:
    """Return how much later the clock is than the worker's processor time."""
    now = read_clock(k, sync)
    return k.let("lost", now - read_clock(k, sync, CPU_CLOCK))


def _current_cpu(k: KernelBuilder) -> E:
    return bound(k.external("sched_getcpu", (), STATUS)).cast(Prim.I64)
