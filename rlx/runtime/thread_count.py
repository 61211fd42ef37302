"""How many threads programs run on, and are compiled on."""

from __future__ import annotations

import operator
import os

from rlx.errors import UnsupportedError
from rlx.target import Target


def named_threads() -> int | None:
    """Return what RLX_NUM_THREADS says; None where it is not set."""
    named = os.environ.get("RLX_NUM_THREADS")
    if not named:
        return None
    if not (named.isdecimal() and int(named) > 0):
        raise UnsupportedError(
            f"RLX_NUM_THREADS={named!r} is not a number of threads",
            remedy="use 1 or more, or unset it",
        )
    return int(named)


def thread_count(threads: int | None, target: Target) -> int:
    """Return how many threads to run on: as asked, else RLX_NUM_THREADS, else all cores."""
    if threads is None:
        threads = named_threads() or target.cores
    try:
        count = operator.index(threads)
    except TypeError:
        count = 0
    if count < 1:
        raise UnsupportedError(f"cannot run on {threads} threads", remedy="use 1 or more")
    return count
