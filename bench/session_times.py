"""Times of sessions that compute one thing, called in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any


def least_seconds(
    sessions: Mapping[str, Any],
    feed: Mapping[str, Any],
    seconds: float,
    *,
    clock: Callable[[], float] = time.process_time,
    repeats: int = 5,
    calls: int = 1,
) -> dict[str, float]:
    """Return the least seconds of a call by session.

    For `seconds` of wall clock each session has its turn, of `repeats` measurements of `calls`
    calls: several where one is shorter than the clock resolves.
    """
    best, until = dict.fromkeys(sessions, float("inf")), time.perf_counter() + seconds
    while time.perf_counter() < until:
        for name, session in sessions.items():
            for _ in range(repeats):
                started = clock()
                for _ in range(calls):
                    session.run(None, feed)
                best[name] = min(best[name], (clock() - started) / calls)
    return best
