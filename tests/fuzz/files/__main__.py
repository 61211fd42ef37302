"""Run the fuzzer of files: `python -m tests.fuzz.files --minutes 60`, or one block or file."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.fuzz.campaign import seeds
from tests.fuzz.files.examine import KINDS, examine, outcome, summary
from tests.fuzz.workers import outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this long")
    parser.add_argument("--count", type=int, default=10**9, help="stop after this many blocks")
    parser.add_argument("--seed", type=int, default=0, help="the first block")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the work")
    parser.add_argument("--kind", action="append", default=[], choices=tuple(KINDS))
    parser.add_argument("--native", type=int, default=5, help="programs of a block to compile")
    parser.add_argument("--only", metavar="BLOCK[/FILE]", help="examine one, in this process")
    arguments = parser.parse_args()
    if arguments.only is not None:
        block, _, file = arguments.only.partition("/")
        report = examine(int(block), kinds=arguments.kind, only=int(file) if file else None)
        print(*report.failures, summary(report.counts), sep="\n")
        return int(bool(report.failures))
    if arguments.kind:
        return _in_this_process(arguments)
    failures, started = 0, time.monotonic()
    chosen = seeds(arguments.seed, arguments.count, arguments.minutes)
    for done, (_, found) in enumerate(outcomes(outcome, chosen, arguments.jobs), start=1):
        if found is not None:
            failures += 1
            print(found, flush=True)
        if done % 10 == 0:
            rate = 50 * done / (time.monotonic() - started)
            print(
                f"{50 * done} files, {failures} blocks with failures, {rate:.1f}/s", file=sys.stderr
            )
    return int(failures > 0)


def _in_this_process(arguments: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    failures = 0
    for block in seeds(arguments.seed, arguments.count, arguments.minutes):
        report = examine(block, kinds=arguments.kind, most_native=arguments.native)
        counts += report.counts
        failures += len(report.failures)
        print(*report.failures, sep="\n", flush=True)
    print(f"{failures} failures; {summary(counts)}")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
