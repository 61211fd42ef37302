"""Sessions: runs that overlap, each in an arena of its own, and results in the caller's arrays."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest

import rlx
from rlx.errors import BusyError, InputError, UnsupportedError

Backend: TypeAlias = Literal["auto", "c", "llvm"]

SMALL, LARGE = (3, 5), (300, 300)
"""Below and above 64 KiB: results in the arena, and results that are written where they go."""


def scaled(shape: tuple[Any, ...], backend: Backend = "auto") -> rlx.Executable:
    g = rlx.Graph("scaled")
    x, w = g.input("x", shape, "f32"), g.param("w", (1,), "f32")
    g.set_outputs([x * w, g.reduce_sum(x * w, axes=(0, 1))])
    return rlx.compile(g, params={"w": np.full(1, 2, np.float32)}, threads=1, backend=backend)


def numbers(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_runs_from_many_threads_each_get_their_own_result(
    shape: tuple[int, int], backend: Backend
) -> None:
    session = rlx.Session(scaled(shape, backend), arenas=3)

    def client(seed: int) -> bool:
        x = numbers(shape, seed)
        return all(np.array_equal(session.run({"x": x})[0], x * 2) for _ in range(20))

    with ThreadPoolExecutor(8) as clients:
        assert all(clients.map(client, range(8)))


def test_no_more_arenas_are_made_than_run_at_once() -> None:
    executable = scaled(SMALL)
    session = rlx.Session(executable, arenas=5)
    for _ in range(10):
        session.run({"x": numbers(SMALL)})
    made = [place.executable for place in session._free.queue if place.executable is not None]
    assert made == [executable]


def test_runs_overlap() -> None:
    session = rlx.Session(scaled(SMALL), arenas=2)
    inside = threading.Barrier(2, timeout=60)

    def lease() -> int:
        with session._lease(None) as executable:
            inside.wait()  # passes only if two threads are here at the same time
            return id(executable.arena)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(lease), pool.submit(lease)
        assert first.result() != second.result()


def test_a_run_that_finds_no_arena_in_time_is_refused() -> None:
    session = rlx.Session(scaled(SMALL), arenas=1)
    with session._lease(None), pytest.raises(BusyError, match=r"1 arenas were busy.*\n.*arenas"):
        session.run({"x": numbers(SMALL)}, timeout=0.01)
    session.run({"x": numbers(SMALL)}, timeout=0.01)


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_results_go_to_the_buffers_that_are_given(shape: tuple[int, int], backend: Backend) -> None:
    f, x = scaled(shape, backend), numbers(shape)
    buffer = np.empty(shape, np.float32)
    result, total = f.run({"x": x}, out=[buffer, None])
    assert result is buffer
    np.testing.assert_array_equal(buffer, x * 2)
    np.testing.assert_array_equal(total, f(x)[1])


@pytest.mark.parametrize("shape", [SMALL, LARGE])
def test_buffers_may_be_strided_or_the_input_itself(shape: tuple[int, int]) -> None:
    f, x = scaled(shape), numbers(shape)
    strided = np.zeros((shape[0], 2 * shape[1]), np.float32)
    f.run({"x": x}, out=[strided[:, ::2], None])
    np.testing.assert_array_equal(strided[:, ::2], x * 2)
    assert not strided[:, 1::2].any()
    same = x.copy()
    f.run({"x": same}, out=[same, None])
    np.testing.assert_array_equal(same, x * 2)


def test_buffers_of_symbolic_results_have_the_extents_of_the_run() -> None:
    f = scaled((rlx.Dim("n", max=8), 4))
    buffer = np.empty((3, 4), np.float32)
    f.run({"x": np.ones((3, 4), np.float32)}, out=[buffer, None])
    assert (buffer == 2).all()
    with pytest.raises(InputError, match=r"out\[0\] has shape \(3, 4\); this run gives \(5, 4\)"):
        f.run({"x": np.ones((5, 4), np.float32)}, out=[buffer, None])


READ_ONLY = np.zeros(SMALL, np.float32)
READ_ONLY.setflags(write=False)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ([None], "out= has 1 entries; the graph has 2 outputs"),
        ([np.zeros(SMALL), None], "dtype float64; it must be f32"),
        ([np.zeros((5, 3), np.float32), None], r"shape \(5, 3\)"),
        ([READ_ONLY, None], "read-only"),
        ([[0.0], None], "is a list"),
    ],
)
def test_buffers_that_do_not_fit_are_refused(out: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        scaled(SMALL).run({"x": numbers(SMALL)}, out=out)


def test_submitted_runs_are_futures() -> None:
    with rlx.Session(scaled(SMALL), arenas=2) as session:
        futures = [session.submit({"x": numbers(SMALL, seed)}) for seed in range(20)]
        for seed, future in enumerate(futures):
            np.testing.assert_array_equal(future.result()[0], numbers(SMALL, seed) * 2)
    with pytest.raises(InputError, match="closed"):
        session.run({"x": numbers(SMALL)})


def test_what_was_submitted_is_done_before_the_session_is_closed() -> None:
    with rlx.Session(scaled(SMALL), arenas=1) as session:
        futures = [session.submit({"x": numbers(SMALL, seed)}) for seed in range(200)]
    assert all(future.done() for future in futures)
    for seed, future in enumerate(futures):
        np.testing.assert_array_equal(future.result()[0], numbers(SMALL, seed) * 2)


def test_another_arena_is_made_while_the_first_is_in_a_run() -> None:
    executable = scaled(SMALL)
    session = rlx.Session(executable, arenas=2)
    with session._lease(None) as first, executable._lock:  # as during a run
        assert first is executable
        with ThreadPoolExecutor(1) as other:
            run = other.submit(session.run, {"x": numbers(SMALL)}, timeout=0.01)
            np.testing.assert_array_equal(run.result(timeout=60)[0], numbers(SMALL) * 2)


def test_a_negative_timeout_is_refused() -> None:
    with pytest.raises(InputError, match="timeout is -1"):
        rlx.Session(scaled(SMALL), arenas=1).run({"x": numbers(SMALL)}, timeout=-1)


def test_params_that_are_set_hold_for_every_later_run() -> None:
    session = rlx.Session(scaled(SMALL), arenas=3)
    x = np.ones(SMALL, np.float32)
    with session._lease(None), session._lease(None):
        pass  # two arenas exist
    session.set_params({"w": np.full(1, 7, np.float32)})
    with session._lease(None) as a, session._lease(None) as b, session._lease(None) as c:
        assert all((f(x)[0] == 7).all() for f in (a, b, c))


def test_a_graph_that_replaces_its_params_has_no_session() -> None:
    g = rlx.Graph("counter")
    x, total = g.input("x", (2,), "f32"), g.param("total", (2,), "f32")
    replaced = total + x
    g.set_outputs([replaced], donated={total: replaced})
    f = rlx.compile(g, params={"total": np.zeros(2, np.float32)})
    with pytest.raises(UnsupportedError, match="'total'"):
        rlx.Session(f)


@pytest.mark.parametrize("arenas", [0, -1])
def test_a_session_needs_an_arena(arenas: int) -> None:
    with pytest.raises(InputError, match="cannot run"):
        rlx.Session(scaled(SMALL), arenas=arenas)
