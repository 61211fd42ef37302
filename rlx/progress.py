"""Progress of compilations that take longer than a second, on a line of the terminal.

    with showing("step"):
        stage("kernels", 12, 40)      # rlx: step: kernels, 12 of 40

The line is on stderr if that is a terminal, and is erased at the end. `RLX_PROGRESS=0` turns it
off.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE = 1.0
"""Seconds for which nothing is shown."""
_PERIOD = 0.2
"""Seconds between two lines."""
_ERASE = "\r\x1b[K"


class _Display(threading.Thread):
    """Writes what the compiling thread last said."""

    def __init__(self, name: str) -> None:
        super().__init__(name="rlx-progress", daemon=True)
        self.title = name
        self.text = ""
        self.is_done = threading.Event()

    def run(self) -> None:
        pause, is_shown = _PATIENCE, False
        while not self.is_done.wait(pause):
            sys.stderr.write(f"{_ERASE}rlx: {self.title}: {self.text}")
            sys.stderr.flush()
            pause, is_shown = _PERIOD, True
        if is_shown:
            sys.stderr.write(_ERASE)
            sys.stderr.flush()


class _State(threading.local):
    display: _Display | None = None


_state = _State()


@contextmanager
def showing(name: str) -> Iterator[None]:
    """Show the stages of the block, the compilation of `name`; blocks within it are part of it."""
    if _state.display is not None or os.environ.get("RLX_PROGRESS") == "0" or not _is_terminal():
        yield
        return
    display = _state.display = _Display(name)
    try:
        display.start()
        yield
    finally:
        _state.display = None
        display.is_done.set()
        if display.ident is not None:
            display.join()


def stage(name: str, number: int = 0, count: int = 0) -> None:
    """Say what is done now, and that it is the `number`th of `count`."""
    if _state.display is not None:
        _state.display.text = f"{name}, {number} of {count}" if count else name


def _is_terminal() -> bool:
    """True if stderr is a terminal; a program without a console has none."""
    return sys.stderr is not None and sys.stderr.isatty()
