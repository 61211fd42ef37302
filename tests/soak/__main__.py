"""Run the trials in turn: `python -m tests.soak --minutes 60`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.soak import trials


def main() -> None:
    """Share the minutes among the trials; print what each counted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seconds, seed = arguments.minutes * 60 / 5, arguments.seed
    print(f"calls from {trials.THREADS} threads: {trials.threads(seconds, seed)}", flush=True)
    print(f"calls interrupted: {trials.interrupts(seconds, seed)}", flush=True)
    print(f"forks: {trials.forks(seconds, seed)}", flush=True)
    print(f"compilations: {trials.compilations(seconds, seed)}", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        killed = trials.killed_processes(seconds, seed, Path(cache))
    print(f"processes killed over one cache: {killed}", flush=True)


if __name__ == "__main__":
    main()
