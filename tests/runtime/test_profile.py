"""Times per thunk, costs, and the machine's peaks."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from rlx.codegen.cost import Cost, thunk_cost
from rlx.codegen.schedule import Phase
from rlx.codegen.schedule_printer import format_schedule
from rlx.ir.graph import Graph, Value
from rlx.ir.shape import Dim
from rlx.runtime.compile import choose_backend
from rlx.runtime.lower import lower_for
from rlx.runtime.peaks import measure_peaks
from rlx.runtime.profile import clock_readings, profile
from rlx.target import detect_target

BACKENDS = ["c", "llvm"]


def two_kernels() -> Graph:
    """A product far more expensive than the softmax after it."""
    g = Graph("two")
    x = g.input("x", (Dim("n", max=64), 256))
    g.set_outputs([g.softmax(g.matmul(x, g.param("w", (256, 128))), axis=-1)])
    return g


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_thunk_of_the_run_phase_is_timed_in_order(backend: str) -> None:
    graph, target = two_kernels(), detect_target()
    program = lower_for(graph, target)
    times = profile(
        graph,
        program,
        {"x": np.ones((32, 256), np.float32)},
        backend=choose_backend(backend),
        target=target,
        params={"w": np.ones((256, 128), np.float32)},
        repeats=5,
    )
    assert [t.thunk for t in times.thunks] == list(program.schedule.phase(Phase.RUN))
    assert all(0 < t.best <= t.median for t in times.thunks)
    assert times.best <= times.median < 1.0
    assert "matmul" in max(times.thunks, key=lambda t: t.median).kernel


def test_runs_may_be_timed_by_the_processor_time_of_their_thread() -> None:
    g, target = Graph("exponential"), detect_target()
    g.set_outputs([g.exp(g.input("x", (100_000,)))])
    before = time.thread_time()
    readings = clock_readings(
        g, lower_for(g, target), {"x": np.zeros(100_000, np.float32)},
        backend=choose_backend("auto"), target=target, repeats=3, before=lambda: None,
        clock=time.CLOCK_THREAD_CPUTIME_ID,
    )  # fmt: skip
    assert before < readings.min()
    assert readings.max() < time.thread_time()
    assert np.all(np.diff(readings) > 0)


COSTS: dict[str, tuple[Callable[[Graph], Value], Cost]] = {
    "a product: what the op means": (
        lambda g: g.matmul(g.input("x", (8, 16)), g.input("w", (16, 4))),
        Cost(2 * 8 * 16 * 4, 4 * (8 * 16 + 16 * 4 + 8 * 4)),
    ),
    "a fused kernel: its ops and its ends": (
        lambda g: g.tanh((x := g.input("x", (10,))) * x + 1.0), Cost(3 * 10, 4 * 20),
    ),
    "a reduction: one per element that it folds": (
        lambda g: g.reduce_sum(g.input("x", (6, 7)), axes=(1,)), Cost(42, 4 * (42 + 6)),
    ),
    "a gather of rows: these rows alone": (
        lambda g: g.gather(g.input("table", (1000, 8)), g.input("rows", (3,), "i64"), axis=0),
        Cost(0, 3 * 8 * 4 + 3 * 8 + 3 * 8 * 4),
    ),
    "extents of the call": (
        lambda g: g.exp(g.input("x", (Dim("n", max=64),))), Cost(5, 40),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COSTS)
def test_costs(case: str) -> None:
    g, (formula, expected) = Graph("costs"), COSTS[case]
    g.set_outputs([formula(g)])
    thunks = lower_for(g, detect_target()).schedule.thunks
    assert sum((thunk_cost(thunk, {"n": 5}) for thunk in thunks), Cost(0, 0)) == expected


@pytest.mark.timed
@pytest.mark.parametrize("backend", BACKENDS)
def test_peaks_are_those_of_a_computer(backend: str) -> None:
    peaks = measure_peaks(choose_backend(backend), detect_target())
    assert 1e8 < peaks.flops < 1e13
    assert 1e8 < peaks.bytes < 1e12


def test_peaks_are_measured_by_the_clock_that_is_given() -> None:
    ticks = iter(range(1000))
    peaks = measure_peaks(choose_backend("auto"), detect_target(), lambda: next(ticks))
    assert peaks.bytes == 64 << 20


def test_the_schedule_prints_calls_by_phase() -> None:
    program = lower_for(two_kernels(), detect_target())
    lines = format_schedule(program.schedule, program.kernels).splitlines()
    assert lines[0] == f"schedule two, arena {program.plan.arena_bytes} bytes"
    assert any(line.startswith("  softmax_nx128_in_place(f32[n, 128] @") for line in lines)
    assert lines[-1].endswith("test_profile.py:29; in place")
