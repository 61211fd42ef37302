"""Rows on a machine that does other work: other processes keep processors busy meanwhile.

`python -m bench --load 1` measures the rows that follow, with one such process running; what counts
then is how long most calls take, and how long the slowest do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from bench.rounds import Row, Timing
from bench.text import ratio, table

LOADED = (
    "matmul_256",
    "encoder_16",
    "batch_norm_frozen_56_64",
    "squeezenet",
    "mobilenet_v2",
    "gru_encoder",
)
"""Small and large programs, of few and of many kernels."""

_BUSY = "while True: pass"


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Keep `count` processors busy while the block runs."""
    others = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def describe_loaded(row: Row) -> str:
    """Return one line for the terminal: the ratios of medians and of slowest calls, then times."""
    times = "  ".join(f"{name} {_quantiles(t)}" for name, t in row.timings.items())
    median, slow = (ratio(_ratio(row, percent)) for percent in (50, 99))
    return f"{row.workload.name:<24} {median:>6} {slow:>6}  {times}"


def loaded_table(rows: Sequence[Row]) -> str:
    """Return the table, as Markdown."""
    peers = list(dict.fromkeys(name for row in rows for name in row.timings))
    cells = [
        [
            row.workload.name,
            *(_quantiles(row.timings.get(name)) for name in peers),
            *(ratio(_ratio(row, percent)) for percent in (50, 99)),
        ]
        for row in rows
    ]
    return table(["workload", *peers, "of medians", "of 99 %"], cells)


def _ratio(row: Row, percent: float) -> float | None:
    """Our quantile over the best peer's."""
    found = {name: _quantile(t, percent) for name, t in row.timings.items() if t.ran}
    ours = found.pop("rlx", None)
    return None if ours is None or not found else ours / min(found.values())


def _quantiles(timing: Timing | None) -> str:
    if timing is None or not timing.ran:
        return "-"
    return f"{_quantile(timing, 50) * 1e6:,.0f} ({_quantile(timing, 99) * 1e6:,.0f})"


def _quantile(timing: Timing, percent: float) -> float:
    return float(np.percentile(timing.seconds, percent))
