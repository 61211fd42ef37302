"""The command: `python -m bench [workload ...]`."""

from __future__ import annotations

import argparse
import datetime
import fnmatch
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.load import LOADED, busy_processes, describe_loaded
from bench.machine import measure_peak
from bench.peers import PEERS
from bench.program_report import describe_program
from bench.report import describe_row, report
from bench.rounds import Row, run
from bench.routine import Routine
from bench.workload import Workload
from bench.workloads import PROGRAMS, WORKLOADS
from rlx.target import detect_target

_RESULTS = Path(__file__).parent / "results"


def main() -> None:
    options = _parser().parse_args()
    is_loaded = options.load > 0
    chosen = _matching(options.workloads or (LOADED if is_loaded else ()))
    if options.list:
        print("\n".join(workload.name for workload in chosen))
        return
    peak = measure_peak(options.threads)
    print(f"peak: {peak.gflops:.0f} GFLOP/s, {peak.gigabytes:.1f} GB/s", flush=True)
    rows: list[Row] = []
    measured = run(
        chosen,
        peers=("rlx", *options.peers),
        threads=options.threads,
        rounds=options.rounds,
        seconds=options.seconds,
    )
    with busy_processes(options.load):
        for row in measured:
            rows.append(row)
            print(_described(row, rows, is_loaded=is_loaded), flush=True)
    if options.write:
        today = datetime.date.today().isoformat()
        command = shlex.join(["python", "-m", "bench", *sys.argv[1:]])
        text = report(
            rows, peak, command=command, date=today, threads=options.threads, is_loaded=is_loaded
        )
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(text)
        print(f"written to {options.write}")


def _described(row: Row, rows: Sequence[Row], *, is_loaded: bool) -> str:
    """Return one line about the last of `rows`."""
    if is_loaded:
        return describe_loaded(row)
    return describe_program(row, rows) if isinstance(row.workload, Routine) else describe_row(row)


def _matching(patterns: Sequence[str]) -> list[Workload | Routine]:
    known: list[Workload | Routine] = [*WORKLOADS, *PROGRAMS]
    if not patterns:
        return known
    return [w for w in known if any(fnmatch.fnmatch(w.name, p) for p in patterns)]


def _parser() -> argparse.ArgumentParser:
    others = PEERS[1:]
    parser = argparse.ArgumentParser(prog="bench", description="Measure rlx next to its peers.")
    parser.add_argument("workloads", nargs="*", help="names or patterns; default: all")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--peers", nargs="*", default=others, choices=others)
    parser.add_argument("--threads", type=int, default=detect_target().cores)
    parser.add_argument(
        "--load", type=int, default=0, help="processes that keep processors busy meanwhile"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1, help="per peer and round")
    parser.add_argument(
        "--write", type=Path, nargs="?", const=_RESULTS / "kernels.md", help="write the report"
    )
    return parser


if __name__ == "__main__":
    main()
