"""Measurement in rounds: every peer gets its turn in each, so that noise affects all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.peers import PEERS
from bench.routine import Routine
from bench.worker import Made, Worker
from bench.workload import Array, Workload

_SETTLE_SECONDS = 0.02
"""Between turns: a peer's threads spin for a while after its last call."""


@dataclass(slots=True)
class Timing:
    """One peer on one workload."""

    made: Made
    seconds: list[float] = field(default_factory=list)
    disagreement: str | None = None

    @property
    def ran(self) -> bool:
        return bool(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass(frozen=True, slots=True)
class Row:
    """All peers on one workload."""

    workload: Workload | Routine
    timings: dict[str, Timing]

    @property
    def best_peer(self) -> str | None:
        """The fastest that is not rlx."""
        others = [name for name, t in self.timings.items() if name != "rlx" and t.ran]
        return min(others, key=lambda name: self.timings[name].best, default=None)

    @property
    def ratio(self) -> float | None:
        """Our best time over the best peer's."""
        if self.best_peer is None or not self.timings["rlx"].ran:
            return None
        return self.timings["rlx"].best / self.timings[self.best_peer].best

    @property
    def median_ratio(self) -> float | None:
        others = [t.median for name, t in self.timings.items() if name != "rlx" and t.ran]
        if not others or not self.timings["rlx"].ran:
            return None
        return self.timings["rlx"].median / min(others)


def run(
    workloads: Sequence[Workload | Routine],
    *,
    peers: Sequence[str] = PEERS,
    threads: int,
    rounds: int,
    seconds: float,
) -> Iterator[Row]:
    """Yield a row per workload: prepared everywhere, compared, then timed in turns."""
    workers = {name: Worker(name, threads) for name in peers}
    try:
        for workload in workloads:
            yield _row(workload, workers, rounds, seconds)
    finally:
        for worker in workers.values():
            worker.close()


def _row(
    workload: Workload | Routine, workers: dict[str, Worker], rounds: int, seconds: float
) -> Row:
    taking_part = [name for name in workers if name == "rlx" or name in workload.peers]
    timings = {name: Timing(workers[name].prepare(workload.name)) for name in taking_part}
    expected = timings["rlx"].made
    for timing in timings.values():
        if timing.made.fault is None and expected.fault is None:
            timing.disagreement = disagreement(
                expected.outputs, timing.made.outputs, workload.tolerance
            )
    for _ in range(rounds):
        for name, timing in timings.items():
            if timing.made.fault is None and timing.disagreement is None:
                time.sleep(_SETTLE_SECONDS)
                timing.seconds += workers[name].measure(seconds)
    return Row(workload, timings)


def disagreement(expected: Sequence[Array], found: Sequence[Array], tolerance: float) -> str | None:
    """Return how far results are apart if it is more than `tolerance` of their size."""
    for wanted, given in zip(expected, found, strict=True):
        if wanted.shape != given.shape:
            return f"shape {given.shape} instead of {wanted.shape}"
        exact = np.asarray(wanted, np.float64)
        error = float(np.max(np.abs(exact - np.asarray(given, np.float64))))
        if not error <= tolerance * max(1.0, float(np.max(np.abs(exact)))):
            return f"differs by {error:.1e}"
    return None
