"""The worker pool: bits, sleep, limits, forks, and ends of processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import rlx
import rlx.numpy as rnp
from rlx.codegen.sync import AVOID, LATENCY, LEFT, SLEEPING, STARTED, WAITING, WAKE
from rlx.ir.graph import Graph
from rlx.ir.shape import Dim
from rlx.runtime import native
from rlx.runtime import threads as pool
from rlx.runtime.toolchain import has_toolchain
from rlx.tree_util import tree_leaves

BACKENDS = ("llvm", "c") if has_toolchain() else ("llvm",)
Array = NDArray[np.float32]


@pytest.fixture
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A pool of its own for a machine of eight cores, whatever this one has."""
    monkeypatch.setattr(pool, "usable_cores", lambda: 8)
    monkeypatch.setattr(pool, "_pool", None)
    yield
    if pool._pool is not None:
        pool._pool.stop()


def network(rows: Any = 200) -> Graph:
    """Products, softmaxes and reductions: regions with few and with many iterations."""
    graph = Graph("network")
    x = graph.input("x", (rows, 256))
    w = graph.input("w", (256, 256))
    y = graph.softmax(graph.matmul(graph.tanh(x), w), axis=-1)
    graph.set_outputs([graph.matmul(y, w), graph.reduce_sum(y, axes=(0,))])
    return graph


def feeds(rows: int = 200) -> dict[str, Array]:
    random = np.random.default_rng(0)
    return {
        "x": random.standard_normal((rows, 256)).astype(np.float32),
        "w": random.standard_normal((256, 256)).astype(np.float32),
    }


def bits(results: Sequence[Any]) -> list[bytes]:
    return [np.asarray(result).tobytes() for result in results]


def shared_pool() -> pool.WorkerPool:
    assert pool._pool is not None, "nothing ran on several threads"
    return pool._pool


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.slow
@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize("backend", BACKENDS)
def test_results_have_the_same_bits_on_any_number_of_threads(backend: str) -> None:
    given = feeds()
    expected = bits(rlx.compile(network(), backend=backend, threads=1).run(given))
    for threads in range(2, 9):
        f = rlx.compile(network(), backend=backend, threads=threads)
        for _ in range(20):
            assert bits(f.run(given)) == expected
    assert len(shared_pool()._workers) == 7


def loops(x: Any, up: Any, down: Any) -> Any:
    """Return a scan over layers, two inside one another, one that counts, and a branch."""

    def layer(x: Any, weights: Any) -> Any:
        up, down = weights
        return x + rnp.tanh(x @ up) @ down, rnp.sum(x, axis=1)

    def layers(x: Any, _: None) -> Any:
        return rlx.scan(layer, x, (up, down), reverse=True)

    def counted(state: Any) -> Any:
        count, x = state
        return count + 1, rlx.cond(
            count % 2 == 0, lambda x: layer(x, (up[0], down[0]))[0], rnp.sin, x
        )

    nested = rlx.scan(layers, x, None, length=2)
    return nested, rlx.while_loop(lambda state: state[0] < 5, counted, (0, x))


def loss_of_loops(*given: Any) -> Any:
    return rnp.sum(loops(*given)[0][0])


def loop_arguments() -> tuple[Array, Array, Array]:
    random = np.random.default_rng(0)
    shapes = (64, 128), (3, 128, 256), (3, 256, 128)
    x, up, down = (0.1 * random.standard_normal(shape) for shape in shapes)
    return x.astype(np.float32), up.astype(np.float32), down.astype(np.float32)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.usefixtures("eight_cores")
@pytest.mark.parametrize(
    ("backend", "function"),
    [*((backend, loops) for backend in BACKENDS), ("llvm", rlx.grad(loss_of_loops, 1))],
)
def test_bodies_of_loops_have_the_same_bits_on_any_number_of_threads(
    backend: str, function: Callable[..., Any]
) -> None:
    given = loop_arguments()
    expected = bits(tree_leaves(rlx.jit(function, backend=backend, threads=1)(*given)))
    together = rlx.jit(function, backend=backend, threads=3)
    program = together.executable(*given)
    assert program.threads == 3
    for _ in range(10):
        assert bits(tree_leaves(together(*given))) == expected


@pytest.mark.usefixtures("eight_cores")
def test_symbolic_extents_have_the_same_bits_on_any_number_of_threads() -> None:
    alone = rlx.compile(network(Dim("n", max=300)), threads=1)
    together = rlx.compile(network(Dim("n", max=300)), threads=4)
    for rows in (1, 7, 200, 300):
        assert bits(together.run(feeds(rows))) == bits(alone.run(feeds(rows)))


@pytest.mark.usefixtures("eight_cores")
def test_callers_at_once_get_their_own_results() -> None:
    programs = [rlx.compile(network(), threads=threads) for threads in (2, 3, 8)]
    given = feeds()
    expected = bits(programs[0].run(given))
    wrong: list[int] = []

    def call(number: int) -> None:
        f = programs[number].clone()
        wrong.extend(number for _ in range(60) if bits(f.run(given)) != expected)

    callers = [threading.Thread(target=call, args=(i % 3,)) for i in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert not any(caller.is_alive() for caller in callers)
    assert wrong == []


@pytest.mark.usefixtures("eight_cores")
def test_workers_sleep_after_a_run_and_use_no_processor_time() -> None:
    f = rlx.compile(network(), threads=3)
    expected = bits(f.run(feeds()))
    words = shared_pool().words
    for _ in range(3):
        until(lambda: words[SLEEPING] == 2)
        before = time.process_time()
        time.sleep(0.05)
        assert time.process_time() - before < 0.02
        assert bits(f.run(feeds())) == expected


@pytest.mark.usefixtures("eight_cores")
def test_a_sleeping_worker_wakes_and_measures_how_long_that_took() -> None:
    f = rlx.compile(network(), threads=2)
    f.run(feeds())
    words = shared_pool().words
    until(lambda: words[SLEEPING] == 1)
    words[LATENCY], woken = 1, int(words[WAKE])
    f.run(feeds())
    assert words[WAKE] > woken
    until(lambda: words[LATENCY] > 1)


@pytest.mark.usefixtures("eight_cores")
def test_after_workers_kept_a_caller_waiting_none_are_woken_for_a_while() -> None:
    f = rlx.compile(network(), threads=2)
    expected = bits(f.run(feeds()))
    words = shared_pool().words
    until(lambda: words[SLEEPING] == 1)
    words[AVOID], woken = time.monotonic_ns() + 10**11, int(words[WAKE])
    for _ in range(5):
        assert bits(f.run(feeds())) == expected
    assert words[WAKE] == woken

    def some_are_woken() -> bool:
        words[AVOID] = 1
        f.run(feeds())  # where workers keep the caller waiting again, it avoids them again
        return bool(words[AVOID] == 0)

    until(some_are_woken)


@pytest.mark.slow
@pytest.mark.usefixtures("eight_cores")
def test_a_caller_that_sleeps_until_workers_leave_is_woken() -> None:
    """Eight threads on fewer cores are interrupted in parts often enough."""
    f = rlx.compile(network(), threads=8)
    given = feeds()
    expected = bits(f.run(given))
    words = shared_pool().words
    slept = 0
    deadline = time.monotonic() + 20
    while not slept and time.monotonic() < deadline:
        words[AVOID] = 0
        assert bits(f.run(given)) == expected
        slept += int(words[LEFT] >= WAITING)
    assert slept or os.cpu_count() != 2


def test_no_more_workers_start_than_the_process_has_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "usable_cores", lambda: 1)
    monkeypatch.setattr(pool, "_pool", None)
    f = rlx.compile(network(), threads=4)
    expected = bits(rlx.compile(network(), threads=1).run(feeds()))
    assert bits(f.run(feeds())) == expected
    assert shared_pool().words[STARTED] == 0


@pytest.mark.usefixtures("eight_cores")
def test_workers_that_cannot_be_started_are_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    real = native.system_function

    def refusing(name: str, declaration: str) -> Callable[..., Any]:
        if name == "pthread_create":
            return lambda *_: errno.EAGAIN
        return real(name, declaration)

    monkeypatch.setattr(pool, "system_function", refusing)
    expected = bits(rlx.compile(network(), threads=1).run(feeds()))
    f = rlx.compile(network(), threads=3)
    with pytest.warns(RuntimeWarning, match="1 of 3 threads"):
        assert bits(f.run(feeds())) == expected
    assert bits(f.run(feeds())) == expected


def run_script(text: str, *, seconds: float = 60) -> str:
    """Run Python in a process of its own, which must end by itself and well."""
    head = """
        import os, signal, sys, threading, time
        import numpy as np, rlx
        from rlx.runtime import threads as pool
        from tests.runtime.test_threads import bits, feeds, network
        pool.usable_cores = lambda: 4
        f, given = rlx.compile(network(), threads=4), feeds()
        expected = bits(rlx.compile(network(), threads=1).run(given))
        assert bits(f.run(given)) == expected
    """
    script = textwrap.dedent(head) + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
def test_a_forked_child_has_workers_of_its_own() -> None:
    text = """
        for _ in range(20):
            f.run(given)
            child = os.fork()
            if child == 0:
                right = bits(f.run(given)) == expected and len(pool._pool._workers) == 3
                pool._pool.stop()
                os._exit(0 if right else 1)
            assert os.waitpid(child, 0)[1] == 0
        assert bits(f.run(given)) == expected
    """
    run_script(text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "end",
    [
        "sys.exit(0)",
        "time.sleep(0.1)",  # the workers sleep
        "threading.Thread(target=run_on, daemon=True).start()",
        "os.kill(os.getpid(), signal.SIGINT)",
    ],
)
def test_a_process_ends_with_workers(end: str) -> None:
    text = f"""
        def run_on():
            while True: f.run(given)
        signal.signal(signal.SIGINT, lambda *_: sys.exit(0))
        f.run(given)
        {end}
    """
    run_script(text)


@pytest.mark.slow
def test_interrupts_reach_the_main_thread_during_runs() -> None:
    text = """
        class Stop(Exception): pass
        def stop(*_): raise Stop
        signal.signal(signal.SIGALRM, stop)
        for _ in range(100):
            try:  # the alarm may come before the first run
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                while True: f.run(given)
            except Stop:
                pass
        assert not pool._busy.locked() and bits(f.run(given)) == expected
    """
    run_script(text)
