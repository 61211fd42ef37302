"""The trials: each goes on for some seconds, and raises where something was not as it must be."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.runtime.toolchain import has_toolchain

Array = np.ndarray[Any, Any]
Function = Callable[[Array], Any]

THREADS = 24
PROCESSES = 8
SIZES = (3, 64, 1000, 40_000)
HANG = 60
"""Seconds after which a thread or a process that has not ended hangs."""
WARM = 50
"""Compilations before memory is looked at."""
KILOBYTES = 4.0
"""Memory that a compilation may keep: LLVM's passes keep about one kilobyte."""


def formula(x: Any) -> Any:
    """Return a sum over rows and columns that several kernels compute."""
    return rnp.sum(rnp.exp(-x * x)) + rnp.max(x)


def expected(x: Array) -> Array:
    found: Array = np.sum(np.exp(-x * x)) + np.max(x)
    return found


def argument(size: int) -> Array:
    return np.random.default_rng(size).standard_normal(size).astype(np.float32)


def functions() -> list[Function]:
    """Return jitted forms of the formula, for every back end that is there, called once.

    What a call imports is then imported: a fork in the middle of an import leaves its lock, which
    is Python's, locked in the child.
    """
    backends = ("llvm", "c") if has_toolchain() else ("llvm",)
    made: list[Function] = [rlx.jit(formula, backend=backend) for backend in backends]
    for function in made:
        require_right(function, SIZES[0])
    return made


def require_right(function: Function, size: int) -> None:
    x = argument(size)
    np.testing.assert_allclose(function(x), expected(x), rtol=1e-4)


def threads(seconds: float, seed: int) -> int:
    """Call the same functions from 24 threads; return how many calls were right."""
    shared = functions()
    stop, counts, failed = time.monotonic() + seconds, [0] * THREADS, list[BaseException]()

    def work(number: int) -> None:
        chance = random.Random(seed + number)
        try:
            while time.monotonic() < stop and not failed:
                require_right(chance.choice(shared), chance.choice(SIZES))
                counts[number] += 1
        except BaseException as error:  # raised again in the thread that started this one
            failed.append(error)

    started = [_start(work, n) for n in range(THREADS)]
    _join(started, seconds)
    if failed:
        raise failed[0]
    return sum(counts)


def _start(work: Callable[..., None], *arguments: Any) -> threading.Thread:
    """Start a thread that the interpreter does not wait for at its end, as it may hang."""
    thread = threading.Thread(target=work, args=arguments, daemon=True)
    thread.start()
    return thread


def _join(started: list[threading.Thread], seconds: float = 0.0) -> None:
    """Wait for threads that are to end within `seconds`; raise if one hangs."""
    stop = time.monotonic() + seconds + HANG
    for each in started:
        each.join(max(0.0, stop - time.monotonic()))
        assert not each.is_alive(), "a thread hangs"


def interrupts(seconds: float, seed: int) -> int:
    """Interrupt calls and compilations at random moments; return how many were interrupted."""
    stop, chance, met = time.monotonic() + seconds, random.Random(seed), 0
    before = signal.signal(signal.SIGALRM, _interrupt)
    try:
        while time.monotonic() < stop:
            size = chance.randrange(3, 200)
            function = rlx.jit(formula, backend="llvm", wait=size % 2 == 0)
            with contextlib.suppress(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.05))
                function(argument(size))
                signal.setitimer(signal.ITIMER_REAL, 0)
                met -= 1
            met += 1
            require_right(function, size)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return met


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def forks(seconds: float, seed: int) -> int:
    """Fork while other threads call and compile; return how many children ended well."""
    stop, chance, done = time.monotonic() + seconds, random.Random(seed), 0
    shared, ended, failed = functions(), threading.Event(), list[BaseException]()

    def busy() -> None:
        try:
            while not ended.is_set():
                require_right(rlx.jit(formula, backend="llvm", wait=False), 64)
        except BaseException as error:  # raised again in the thread that started this one
            failed.append(error)

    others = [_start(busy) for _ in range(2)]
    try:
        while time.monotonic() < stop and not failed:
            _fork_once(chance.choice(shared), chance.choice(SIZES))
            done += 1
    finally:
        ended.set()
        _join(others)
    if failed:
        raise failed[0]
    return done


def _fork_once(function: Function, size: int) -> None:
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            require_right(function, size)
            require_right(rlx.jit(formula, backend="llvm", wait=False), size)
            code = 0
        os._exit(code)
    stop = time.monotonic() + HANG
    while time.monotonic() < stop:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, f"a child ended with status {status}"
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("a child hangs")


def compilations(seconds: float, seed: int) -> int:
    """Compile different functions; return how many, of which none keeps memory."""
    stop, count, start = time.monotonic() + seconds, 0, 0
    while time.monotonic() < stop or count < 2 * WARM:
        scale = float(seed + count)
        function = rlx.jit(lambda x, scale=scale: rnp.sum(x * scale), backend="llvm")
        np.testing.assert_allclose(function(np.ones(7, np.float32)), 7 * scale, rtol=1e-5)
        count += 1
        if count == WARM:
            start = _resident()
    grown = (_resident() - start) / 1024 / (count - WARM)
    assert grown < KILOBYTES or count < 20 * WARM, f"{grown:.1f} KB stay of each compilation"
    return count


def _resident() -> int:
    """Return the bytes of memory that this process holds."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return int(status.read_text().split()[1]) * resource.getpagesize()


_USER = """
import sys, numpy as np, rlx
from tests.soak.trials import formula, require_right
while True:
    for size in range(3, 40):
        require_right(rlx.jit(formula, backend="c"), size)
    print("round", flush=True)
"""


def killed_processes(seconds: float, seed: int, cache: Path) -> int:
    """Kill processes that share a cache at random moments; return how many were killed.

    What they leave must serve the next one.
    """
    stop, chance, killed = time.monotonic() + seconds, random.Random(seed), 0
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(_user(cache)) for _ in range(PROCESSES)]
        while time.monotonic() < stop:
            time.sleep(chance.uniform(0.1, 1.0))
            place = chance.randrange(PROCESSES)
            victim = running[place]
            assert victim.poll() is None, f"a process ended by itself: {_errors(victim)}"
            victim.kill()
            killed += 1
            running[place] = stack.enter_context(_user(cache))
    with _user(cache) as last:
        assert last.stdout is not None
        assert last.stdout.readline() == "round\n", _errors(last)
    return killed


@contextlib.contextmanager
def _user(cache: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", _USER], env={**os.environ, "RLX_CACHE_DIR": str(cache)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _errors(process: subprocess.Popen[str]) -> str:
    process.kill()
    return process.communicate()[1]
