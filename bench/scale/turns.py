"""Time calls on one rank and on all, in turns: one rank runs while the others sleep."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]

_NAP = 2e-4
"""A rank that waits in MPI spins, and would take a core from the one that is measured."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A call to time: on all ranks at once, or on rank 0 alone."""

    call: Call
    alone: bool = False


def best_seconds(
    ranks: Any, turns: Mapping[str, Turn], rounds: int, chunk_seconds: float
) -> dict[str, float]:
    """Return the least mean seconds of a chunk of calls, on the slowest rank, by name.

    Rounds take every turn once, so that a neighbor on the machine disturbs all alike.
    """
    counts = {name: _count(ranks, turn, chunk_seconds) for name, turn in turns.items()}
    best = dict.fromkeys(turns, float("inf"))
    for _ in range(rounds):
        for name, turn in turns.items():
            best[name] = min(best[name], _chunk(ranks, turn, counts[name]) / counts[name])
    return best


def _count(ranks: Any, turn: Turn, chunk_seconds: float) -> int:
    """Return how many calls a chunk has, alike on all ranks."""
    _chunk(ranks, turn, 3)  # compiles, and finds the short way in
    each = min(_chunk(ranks, turn, 1) for _ in range(3))
    return max(1, round(chunk_seconds / each))


def _chunk(ranks: Any, turn: Turn, count: int) -> float:
    """Return the seconds of `count` calls on the slowest rank."""
    seconds = 0.0
    _sleep_until_all(ranks)
    if not turn.alone:
        ranks.Barrier()
    if not turn.alone or ranks.rank == 0:
        started = time.perf_counter()
        for _ in range(count):
            turn.call()
        seconds = time.perf_counter() - started
    _sleep_until_all(ranks)
    slowest: float = max(ranks.allgather(seconds))
    return slowest


def _sleep_until_all(ranks: Any) -> None:
    arrived = ranks.Ibarrier()
    while not arrived.Test():
        time.sleep(_NAP)
