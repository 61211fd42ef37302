"""Progress line on the terminal for long operations."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from rlx.errors import printable

PATIENCE = 1.0
"""Seconds before the first sign of life."""
_ERASE = "\r\x1b[K"


@contextmanager
def progress(doing: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show `doing` and the time it takes on stderr, if that is a terminal."""
    shown_on = stream or sys.stderr
    if not shown_on.isatty():
        yield
        return
    finished = threading.Event()
    ticker = threading.Thread(
        target=_tick, args=(printable(doing), shown_on, finished), daemon=True
    )
    ticker.start()
    try:
        yield
    finally:
        finished.set()
        ticker.join()


def _tick(doing: str, stream: TextIO, finished: threading.Event) -> None:
    started = time.monotonic()
    if finished.wait(PATIENCE):
        return
    while True:
        stream.write(f"{_ERASE}{doing} ... {time.monotonic() - started:.0f} s")
        stream.flush()
        if finished.wait(PATIENCE):
            break
    stream.write(_ERASE)
    stream.flush()
