"""Kernels of the pool's protocol, interpreted with a system whose clocks and threads are ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.codegen import turns
from rlx.codegen.loops.interpreter import run_kernel
from rlx.codegen.loops.nodes import Kernel
from rlx.codegen.pool import pool_kernels
from rlx.codegen.sync import ALLOWED, CALLER_CPU, CPU_CLOCK, EPOCH, SLEEPING, STOP, sync_words

KERNELS = {kernel.name: kernel for kernel in pool_kernels("p")[0]}
MILLISECOND = 1_000_000


class System:
    """A machine on which a worker runs alone until `interrupt` takes its processor away."""

    def __init__(self) -> None:
        self.sync = np.zeros(sync_words(2), np.int64)
        self.sync[CPU_CLOCK] = 1
        self.turn = np.array([0, turns._NEVER, 0, turns._MAX_TURN], np.int64)
        self.now, self.used = 1_000 * MILLISECOND, 0
        self.yields = 0
        self.away = 0
        self.cpu = 3
        self.masks: list[int] = []

    def run(self, name: str, **scalars: int) -> None:
        kernel = KERNELS[name]
        run_kernel(kernel, self._buffers(kernel), scalars, externals=self._functions())

    def work(self, nanoseconds: int) -> None:
        self.now += nanoseconds
        self.used += nanoseconds

    def interrupt(self, nanoseconds: int) -> None:
        self.now += nanoseconds

    def check(self) -> None:
        self.run("p_check_turn")

    def _buffers(self, kernel: Kernel) -> dict[str, Any]:
        known = {"sync": self.sync, "turn": self.turn}
        return {buffer.name: known[buffer.name] for buffer in kernel.buffers}

    def _functions(self) -> dict[str, Callable[..., Any]]:
        return {
            "clock_gettime": self._clock,
            "sched_yield": self._yield,
            "sched_getcpu": lambda: self.cpu,
            "sched_setaffinity": self._move,
            "pthread_mutex_lock": lambda _: 0,
            "pthread_mutex_unlock": lambda _: 0,
            "pthread_cond_wait": self._wait,
        }

    def _clock(self, clock: int, time: Any) -> int:
        time[0], time[1] = divmod(self.used if clock else self.now, 10**9)
        return 0

    def _yield(self) -> int:
        self.yields += 1
        self.now += self.away
        return 0

    def _move(self, process: int, size: int, mask: Any) -> int:
        assert (process, size) == (0, 128)
        self.masks.append(int(mask[0]))
        return 0

    def _wait(self, *_: Any) -> int:
        raise InterruptedError("the worker sleeps")


@pytest.mark.parametrize("word", [STOP, EPOCH])
def test_a_worker_does_not_sleep_once_it_must_end_or_a_region_is_open(word: int) -> None:
    system = System()
    with pytest.raises(InterruptedError):
        system.run("p_sleep", seen=0)
    system.sync[SLEEPING] = 0
    system.sync[word] = 1
    system.run("p_sleep", seen=0)
    assert system.sync[SLEEPING] == 0


def test_a_worker_yields_before_the_time_after_which_it_was_interrupted() -> None:
    system = System()
    system.check()
    system.work(4 * MILLISECOND)
    system.check()
    assert system.yields == 0
    system.interrupt(3 * MILLISECOND)
    system.check()
    for _ in range(29):
        system.work(MILLISECOND // 10)
        system.check()
    assert system.yields == 0
    for _ in range(3):
        system.work(MILLISECOND // 10)
        system.check()
    assert system.yields == 1


def test_turns_become_longer_where_others_take_the_processor_at_a_yield() -> None:
    system = System()
    system.check()
    system.turn[turns._LIMIT] = 2 * MILLISECOND
    system.away = MILLISECOND
    system.work(3 * MILLISECOND)
    system.check()
    assert system.turn[turns._LIMIT] == 2.5 * MILLISECOND
    system.work(3 * MILLISECOND)
    system.check()
    assert system.yields == 2
    assert system.turn[turns._LIMIT] == pytest.approx(3.125 * MILLISECOND)


def test_a_worker_leaves_the_processor_of_the_caller_and_no_other() -> None:
    system = System()
    system.sync[ALLOWED] = 0b1111
    system.sync[CALLER_CPU] = 2
    system.run("p_leave_processor")
    assert system.masks == []
    system.sync[CALLER_CPU] = 3
    system.run("p_leave_processor")
    assert system.masks == [0b0111]
