"""Two tiers of machine code: equal bits, a swap that no call notices, and nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.codegen.estimate import run_nanoseconds
from rlx.errors import InternalError, RlxError
from rlx.runtime import tiers
from rlx.runtime.c_backend import CModule
from rlx.runtime.compile import compile
from rlx.runtime.executable import Executable
from rlx.runtime.tiers import TieredModule, last_tier
from rlx.target import detect_target
from tests.fuzz.check import feeds, trace
from tests.fuzz.generate import program

pytestmark = [
    pytest.mark.skipif(detect_target().architecture != "x86_64", reason="there is one tier here"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
WAYS = ("llvm", "c", "c without llvmlite")
"""What makes the first tier: LLVM, LLVM for C, or the C compiler."""
PROGRAMS, AT_ONCE = 24, 4


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RLX_WAIT", raising=False)
    return tmp_path


@pytest.fixture
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the backend of one of the `WAYS`."""
    if request.param == WAYS[2]:
        monkeypatch.setattr(tiers, "has_llvm", lambda: False)
    return str(request.param).partition(" ")[0]


every_way = pytest.mark.parametrize("way", WAYS, indirect=True)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Return the event for which second tiers wait before they begin."""
    opened = threading.Event()
    may_go_on = tiers._State.may_go_on
    monkeypatch.setattr(tiers._State, "may_go_on", lambda self: opened.wait(60) and may_go_on(self))
    yield opened
    opened.set()
    for tiered in list(tiers._state.pending):
        tiered.last()


def model(width: int = 24, name: str = "model") -> rlx.Graph:
    g = rlx.Graph(name)
    x, w = g.input("x", (40, width)), g.param("w", (width, width))
    g.set_outputs([g.tanh(g.matmul(x, w)), g.softmax(x, axis=-1)])
    return g


def arrays(width: int = 24) -> dict[str, Any]:
    draw = np.random.default_rng(0).standard_normal
    return {"x": draw((40, width), np.float32), "w": draw((width, width), np.float32)}


def compiled(backend: str = "llvm", **options: Any) -> Executable:
    given = arrays()
    made = compile(model(), backend=backend, params={"w": given["w"]}, **options)
    assert isinstance(made, Executable)
    return made


def bits(results: Any) -> list[bytes]:
    """Return the bits of arrays; a NaN that was computed may have either sign."""
    return [_without_nan_signs(np.asarray(each)).tobytes() for each in results]


def _without_nan_signs(array: Any) -> Any:
    if array.dtype.kind in "iub":
        return array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.where(np.isnan(wide), np.nan, wide)


@every_way
def test_both_tiers_give_the_same_bits(way: str, gate: threading.Event) -> None:
    x = arrays()["x"]
    run = compiled(way, wait=False, threads=2)
    assert isinstance(run._native, TieredModule)
    first = bits(run(x))
    gate.set()
    last = last_tier(run._native)
    assert isinstance(last, CModule) is (way == "c")
    assert run._native.address("model_run") == run.address != last.address("model_run")
    assert first == bits(run(x)) == bits(compiled(way, wait=True)(x))


@pytest.mark.guarantee("Results", "The first and the second tier of a program have the same bits.")
@pytest.mark.slow
@every_way
@pytest.mark.parametrize("first", range(0, PROGRAMS, AT_ONCE))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_programs_have_the_same_bits_in_both_tiers(
    way: str, first: int, gate: threading.Event
) -> None:
    for seed in range(first, first + AT_ONCE):
        made = program(seed)
        graph = trace(made)
        given = feeds(graph, made.arrays())
        run = compile(graph, backend=way, wait=False)
        assert isinstance(run, Executable)
        try:
            soon = bits(run.run(given))
        except RlxError:  # a fault of its own, such as a singular matrix
            continue
        assert settled_after(gate, run)
        assert soon == bits(run.run(given)), made.script()


def settled_after(gate: threading.Event, run: Executable) -> bool:
    gate.set()
    last_tier(run._native)
    gate.clear()
    return not tiers._state.pending


@every_way
def test_calls_on_many_threads_go_on_while_the_second_tier_comes(
    way: str, gate: threading.Event
) -> None:
    x = arrays()["x"]
    run = compiled(way, wait=False, threads=2)
    expected, wrong, stop = bits(run(x)), list[int](), threading.Event()

    def call(mine: Executable) -> None:
        while not stop.is_set():
            wrong.extend([1] if bits(mine(x)) != expected else [])

    threads = [threading.Thread(target=call, args=(run.clone(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    gate.set()
    last_tier(run._native)
    time.sleep(0.05)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_cache_has_the_second_tier_only(gate: threading.Event, cache: Path) -> None:
    run = compiled(wait=False)
    run(arrays()["x"])
    assert not list(cache.glob("*/*.o"))
    assert not list(cache.glob("*/*.rlxi"))
    gate.set()
    code = last_tier(run._native).code
    finish_all()
    assert list(cache.glob("*/*.rlxi"))
    again = compiled(wait=False)
    assert not isinstance(again._native, TieredModule)
    assert again._native.code == code


def finish_all() -> None:
    while tiers._state.pending:
        time.sleep(0.001)


def test_texts_are_those_of_the_second_tier(gate: threading.Event) -> None:
    gate.set()
    run = compiled("c", wait=False)
    assert "#include" in run.native.text
    assert run.c_source == run.native.text
    assert "define" in run.llvm_ir


def test_small_programs_have_one_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    small = compile(model(16, "small"), backend="llvm")
    assert isinstance(small, Executable)
    assert not isinstance(small._native, TieredModule)
    monkeypatch.setattr(tiers, "_LLVM_SAVES", 1.0)
    assert isinstance(compiled()._native, TieredModule)


@pytest.mark.parametrize("how", ["argument", "environment"])
def test_programs_may_be_waited_for(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_LLVM_SAVES", 1.0)
    if how == "environment":
        monkeypatch.setenv("RLX_WAIT", "1")
    run = compiled(wait=True if how == "argument" else None)
    assert not isinstance(run._native, TieredModule)


@pytest.mark.usefixtures("gate")
def test_jit_takes_the_option() -> None:
    def cube(x: Any) -> Any:
        return x * x * x

    x = np.arange(3.0)
    soon = rlx.jit(cube, backend="llvm", wait=False)
    assert soon(x).tolist() == [0, 1, 8]
    assert isinstance(soon.executable(x)._native, TieredModule)
    assert not isinstance(rlx.jit(cube, wait=True).executable(x)._native, TieredModule)


def test_loops_that_nothing_bounds_have_one_tier(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow code would run until the loop has ended."""
    monkeypatch.setattr(tiers, "_LLVM_SAVES", 1.0)

    def halve(x: Any) -> Any:
        return rlx.while_loop(lambda y: rnp.sum(y) > 1, lambda y: rnp.sin(y) / 2, x)

    def times(x: Any) -> Any:
        return rlx.fori_loop(0, 10, lambda _, y: rnp.sin(y), x)

    x = np.ones(300, np.float32)
    open_loop, bounded = (rlx.jit(f, backend="llvm").executable(x) for f in (halve, times))
    assert run_nanoseconds(open_loop.schedule.thunks) is None
    assert run_nanoseconds(bounded.schedule.thunks) is not None
    assert not isinstance(open_loop._native, TieredModule)
    assert isinstance(bounded._native, TieredModule)


def test_where_the_second_tier_fails_the_first_one_stays(
    monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    from rlx.codegen.llvm.jit import EmittedParts

    def fail(*_: Any) -> None:
        raise InternalError("no room")

    monkeypatch.setattr(EmittedParts, "load_in_steps", fail)
    warned = list[str]()
    monkeypatch.setattr(tiers, "_warn", warned.append)
    run = compiled(wait=False)
    first = bits(run(arrays()["x"]))
    assert last_tier(run._native) is run._native._first  # type: ignore[attr-defined]
    assert first == bits(run(arrays()["x"]))
    assert "no room" in warned[0]
    assert not list(cache.glob("*/*.rlxi"))


def test_where_the_first_tier_fails_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlx.codegen.llvm.jit import EmittedParts

    def fail(_: Any) -> None:
        raise InternalError("no quick code")

    monkeypatch.setattr(EmittedParts, "load_quickly", fail)
    assert not isinstance(compiled(wait=False)._native, TieredModule)


def test_where_no_thread_starts_the_second_tier_is_there_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    run = compiled(wait=False)
    assert isinstance(run._native, TieredModule)
    assert run._native.is_done
    assert bits(run(arrays()["x"])) == bits(compiled(wait=True)(arrays()["x"]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_makes_a_second_tier_of_its_own(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "_CHILD_WAITS", 0.05)
    x = arrays()["x"]
    run = compiled(wait=False)
    expected = bits(run(x))

    def in_child() -> bool:
        assert bits(run(x)) == expected
        gate.set()
        second = last_tier(run._native)
        return second is not run._native._first and bits(run(x)) == expected  # type: ignore[attr-defined]

    assert ends_well(in_child)
    gate.set()
    assert last_tier(run._native) is not run._native._first  # type: ignore[attr-defined]


def ends_well(do: Callable[[], bool]) -> bool:
    """True if a forked child does something within a minute."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if do() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_forks_while_the_second_tier_is_made() -> None:
    x = arrays()["x"]
    run = compiled(wait=False)
    expected, forks = bits(run(x)), 0
    while tiers._state.pending or not forks:
        assert ends_well(lambda: bits(run(x)) == expected)
        forks += 1
    assert bits(run(x)) == expected


ENDS = """
import sys, numpy as np, rlx, rlx.numpy as rnp
from rlx.runtime import tiers
backend, _, without = sys.argv[1].partition(" ")
if without:
    tiers.has_llvm = lambda: False
x = np.ones((9, 5), np.float32)
f = rlx.jit(lambda x: rnp.tanh(x @ x.T), backend=backend, wait=False)
f(x)
print(type(f.executable(x)._native).__name__, "llvmlite" in sys.modules)
"""
FORKS = """
import os
child = os.fork()
if child:
    os._exit(os.waitpid(child, 0)[1])
"""
BUSY = """
import os, signal, threading, time
from rlx.codegen.llvm.jit import EmittedParts
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let background jobs ignore it
def make(self, may_go_on):
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGINT)
    while may_go_on():
        time.sleep(0.01)
EmittedParts.load_in_steps = make
"""


def ended(code: str, cache: Path, backend: str = "llvm") -> list[str]:
    done = subprocess.run(
        # Python 3.12 warns of forks of processes with threads.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, backend],
        env={**os.environ, "RLX_CACHE_DIR": str(cache), "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert not done.stderr or "KeyboardInterrupt" in done.stderr
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("way", WAYS)
def test_a_process_that_ends_leaves_the_second_tier_to_the_next(way: str, cache: Path) -> None:
    assert ended(ENDS, cache, way)[0] == "TieredModule"
    assert ended(ENDS, cache, way) == ["LlvmModule" if way == "llvm" else "CModule", "False"]


def test_a_child_that_ends_leaves_it_to_its_parent(cache: Path) -> None:
    assert ended(ENDS + FORKS, cache)[0] == "TieredModule"


def test_an_interrupt_ends_a_process_that_waits(cache: Path) -> None:
    assert ended(BUSY + ENDS, cache)[0] == "TieredModule"
