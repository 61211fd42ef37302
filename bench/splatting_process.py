"""One implementation of Gaussian splatting in a process of its own: its cores and its memory.

A run that needs more memory than the machine has free raises `OutOfMemoryError` here; the other
implementations go on.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, cast

from bench.splatting_peers import Peer, Run
from bench.splatting_scene import Array, scene

_SHARE = 0.9
"""Of the memory that is free: a process that takes all of it is ended without a word."""
_WORDS = ("resource_exhausted", "out of memory", "can't allocate memory", "bad_alloc")
"""What libraries say of an allocation that failed: few raise a MemoryError."""
_ENDS = (-signal.SIGKILL, -signal.SIGABRT)
"""How a process ends that got no memory, by the system or by its own library."""


class OutOfMemoryError(Exception):
    """A run needs more memory than there is."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a request gave, or why it gave nothing."""

    value: Any = None
    fault: str = ""
    out_of_memory: bool = False


class PeerProcess:
    """The controller's end: draws `splats` splats on images of `size` pixels a side."""

    def __init__(self, peer: Peer, splats: int, size: int, threads: int | None) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, peer, splats, size, threads)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def image(self) -> Array:
        """Return the image, compiled and drawn."""
        return cast(Array, self._ask("drawn"))

    def milliseconds(self, what: str) -> float:
        """Return the time of the "image" or of the image with its "gradient"."""
        return float(self._ask(what))

    def close(self) -> None:
        self._process.terminate()
        self._process.join()

    def _ask(self, request: str) -> Any:
        try:
            self._pipe.send(request)
            answer: Answer = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise self._ended() from None
        if answer.out_of_memory:
            raise OutOfMemoryError(answer.fault)
        if answer.fault:
            raise RuntimeError(answer.fault)
        return answer.value

    def _ended(self) -> Exception:
        kind = OutOfMemoryError if self._process.exitcode in _ENDS else RuntimeError
        return kind(f"the process ended with {self._process.exitcode}")


def _serve(pipe: Connection, peer: Peer, splats: int, size: int, threads: int | None) -> None:
    if threads:  # the number of threads of some libraries is that of the cores they may use
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    limit = int(_SHARE * free_memory())
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    host = _Host(peer, splats, size, threads)
    while True:
        try:
            request = pipe.recv()
        except EOFError:
            return
        pipe.send(answered(partial(host.answer, request)))


class _Host:
    """The process's end: makes the runs when they are first asked for."""

    def __init__(self, peer: Peer, splats: int, size: int, threads: int | None) -> None:
        self._peer, self._splats, self._size, self._threads = peer, splats, size, threads
        self._runs: dict[str, Run] = {}
        self._image: Array | None = None

    def answer(self, request: str) -> Any:
        if self._image is None:
            made = self._peer(scene(self._splats), self._size, self._threads)
            image, gradient, self._image = made
            self._runs = {"image": image, "first gradient": gradient}
        if request == "drawn":
            return self._image
        if request == "gradient" and request not in self._runs:
            self._runs["gradient"] = self._runs.pop("first gradient")
            self._runs["gradient"]()  # compiles
        return timed(self._runs[request])


def answered(ask: Callable[[], Any]) -> Answer:
    """Return the result of `ask`, or the message of the exception that it raised."""
    try:
        return Answer(ask())
    except Exception as error:  # every library has its own
        words = f"{type(error).__name__}: {error}"
        short = isinstance(error, MemoryError) or any(w in words.lower() for w in _WORDS)
        return Answer(fault=words, out_of_memory=short)


def free_memory() -> int:
    """Return the bytes that a new process can have without others losing theirs."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    raise RuntimeError("/proc/meminfo does not say what memory is available")


def timed(run: Run, least: float = 0.5) -> float:
    """Return the least time of the runs that `least` seconds have room for, in milliseconds.

    One long run says enough; a short one would pay for what the peer before it left in
    caches and in memory that is still being returned.
    """
    times: list[float] = []
    end = time.perf_counter() + least
    while not times or time.perf_counter() < end:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return 1e3 * min(times)
