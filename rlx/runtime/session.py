"""A session: one compiled graph for many threads, each run in an arena of its own.

session = rlx.Session(rlx.compile(graph, params=params, threads=1), arenas=4)
(y,) = session.run({"x": x})                 # from any thread
future = session.submit({"x": x})            # overlaps with other runs
session.run({"x": x}, out=[buffer])          # the result goes to the caller's array
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from rlx.errors import BusyError, InputError, ReentryError, UnsupportedError
from rlx.locks import call_lock
from rlx.runtime.executable import Executable
from rlx.runtime.signature import Array, checked
from rlx.target import detect_target

Outputs = tuple[Array, ...]

_NONE_YET = -1


class Session:
    """Runs one compiled graph from several threads, in a pool of arenas.

    `arenas` is how many runs overlap at most (default: the cores of this process); an arena is
    made when first needed, with a copy of the params as they are now, or as `set_params` left
    them. Compile with `threads=1` where requests come in parallel: then every core works on a
    request of its own.
    """

    def __init__(self, executable: Executable, *, arenas: int | None = None) -> None:
        if not isinstance(executable, Executable):
            raise InputError(
                f"rlx.Session takes a compiled graph, not {type(executable).__name__}",
                remedy="pass what rlx.compile returns for backend 'c', 'llvm' or 'auto'",
            )
        if executable.donated_params:
            names = ", ".join(map(repr, executable.donated_params))
            raise UnsupportedError(
                f"{executable.signature.name}: runs replace the params {names}, so that runs in "
                "several arenas would diverge",
                remedy="call the executable itself, or make that state an input and an output",
            )
        count = detect_target().cores if arenas is None else arenas
        if count < 1:
            raise InputError(f"a session of {count} arenas cannot run", remedy="use 1 or more")
        self.signature = executable.signature
        self.arenas = count
        self._first = executable
        self._free: queue.LifoQueue[_Place] = queue.LifoQueue()
        for _ in range(count - 1):
            self._free.put(_Place(None))
        self._free.put(_Place(executable))  # last in, first out: what exists is used first
        self._params = executable.params
        self._params_set = 0
        self._lock = call_lock()
        self._process = os.getpid()
        self._inside: set[int] = set()
        """The threads that have, or wait for, an arena."""
        self._workers = ThreadPoolExecutor(count, thread_name_prefix="rlx-session")
        self._closed = False

    def run(
        self,
        feeds: Mapping[str, Any],
        *,
        out: Sequence[Array | None] | None = None,
        timeout: float | None = None,
    ) -> Outputs:
        """Run on inputs by name, in the first arena that is free.

        Waits at most `timeout` seconds for one (default: as long as it takes), then raises
        `BusyError`. An output goes to its array in `out`, where there is one.
        """
        self._check_open()
        return self._run(feeds, out, timeout)

    def submit(
        self, feeds: Mapping[str, Any], *, out: Sequence[Array | None] | None = None
    ) -> Future[Outputs]:
        """Start a run and return its future; the arrays must stay as they are until it is done."""
        self._check_open()
        try:
            return self._workers.submit(self._run, feeds, out, None)
        except RuntimeError:  # closed meanwhile
            raise self._closed_error() from None

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set params for all runs that begin from now on; runs under way keep the old ones."""
        arrays = {
            name: checked(self.signature.param(name), value, what="param").copy()
            for name, value in params.items()
        }
        with self._lock:
            self._params = {**self._params, **arrays}
            self._params_set += 1

    def close(self) -> None:
        """Wait for the runs that were submitted; later ones are refused."""
        self._closed = True
        self._workers.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(
        self, feeds: Mapping[str, Any], out: Sequence[Array | None] | None, timeout: float | None
    ) -> Outputs:
        """Run, also what was submitted before the session was closed."""
        with self._lease(timeout) as executable:
            return executable.run(feeds, out=out)

    @contextmanager
    def _lease(self, timeout: float | None) -> Iterator[Executable]:
        if timeout is not None and timeout < 0:
            raise InputError(
                f"{self.signature.name}: timeout is {timeout} s",
                remedy="wait 0 seconds or more, or None for as long as it takes",
            )
        thread = threading.get_ident()
        nested = thread in self._inside
        self._inside.add(thread)
        try:
            with self._leased(timeout, nested=nested) as executable:
                yield executable
        finally:
            if not nested:
                self._inside.discard(thread)

    @contextmanager
    def _leased(self, timeout: float | None, *, nested: bool) -> Iterator[Executable]:
        """Lend an arena. A run within a run never waits without end: it may wait for itself."""
        try:
            place = self._free.get(block=timeout is not None or not nested, timeout=timeout)
        except queue.Empty:
            if nested and timeout is None:
                raise ReentryError(
                    f"{self.signature.name}: a run asks for another one from within, by an "
                    f"argument, a signal handler or a __del__, and all {self.arenas} arenas are "
                    "taken",
                    remedy="use more arenas, or set a flag and run after",
                ) from None
            raise BusyError(
                f"{self.signature.name}: all {self.arenas} arenas were busy for {timeout} s",
                remedy="wait longer, use more arenas, or reject the request",
            ) from None
        try:
            yield self._ready(place)
        finally:
            self._free.put(place)

    def _ready(self, place: _Place) -> Executable:
        """Return the executable of a leased place, with the params that were set last."""
        if place.executable is None:
            place.executable = self._first.empty_clone()
        with self._lock:
            params, latest = self._params, self._params_set
        if place.params_set != latest:
            for name, value in params.items():
                place.executable.set_param(name, value)
            place.params_set = latest
        return place.executable

    def _check_open(self) -> None:
        if self._closed:
            raise self._closed_error()
        if os.getpid() != self._process:
            raise InputError(
                f"{self.signature.name}: the session belongs to the process that made it; a forked "
                "child has none of its threads",
                remedy="make a session in the child",
            )

    def _closed_error(self) -> InputError:
        return InputError(
            f"{self.signature.name}: the session is closed", remedy="make another one"
        )


class _Place:
    """One arena of the pool; leased to one run at a time."""

    def __init__(self, executable: Executable | None) -> None:
        self.executable = executable
        self.params_set = _NONE_YET if executable is None else 0
        """How often the params had been set when this arena took them."""
