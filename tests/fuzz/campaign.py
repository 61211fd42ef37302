"""Run the fuzzer: `python -m tests.fuzz --minutes 60`, or one program: `--only SEED`.

Every program is compared over the reference and LLVM; every fifth one with C, at the flags that
users get and at others; every tenth one with JAX where that is installed; every 40th one is
exported for one target in turn, compiled with several compilers and sanitizers, and run. Failures
are shrunk and printed as Python.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

from rlx.runtime.toolchain import has_toolchain
from tests.fuzz.check import Failure, check
from tests.fuzz.export import TARGETS
from tests.fuzz.generate import program
from tests.fuzz.program import Program
from tests.fuzz.shrink import shrink

_TASKS = 2000
"""Programs of one process: JAX keeps what it compiled until its process ends."""


def backends_for(seed: int) -> tuple[str, ...]:
    """Return who runs the program of a seed, beside the reference."""
    return ("llvm", "c") if seed % 5 == 0 and has_toolchain() else ("llvm",)


def with_jax(seed: int) -> bool:
    return seed % 10 == 0 and importlib.util.find_spec("jax") is not None


def exports_for(seed: int) -> tuple[str, ...]:
    """Return the targets for which the program of a seed is exported."""
    if seed % 40 != 3 or not has_toolchain():
        return ()
    return (tuple(TARGETS)[seed // 40 % len(TARGETS)],)


def checked(seed: int, made: Program) -> Failure | None:
    """Return how a program fails in what is asked of a seed's."""
    return check(made, backends_for(seed), jax=with_jax(seed), exports=exports_for(seed))


def examine(seed: int) -> tuple[Program, Failure | None]:
    """Return the program of a seed and how it fails, if it does."""
    made = program(seed, large=seed % 25 == 7)
    return made, checked(seed, made)


def seeds(first: int, count: int, minutes: float) -> Iterator[int]:
    stop = time.monotonic() + 60 * minutes if minutes else float("inf")
    for seed in range(first, first + count):
        if time.monotonic() > stop:
            return
        yield seed


def report(seed: int, made: Program, failure: Failure) -> str:
    """Return a failure and the smallest program that fails in the same way."""

    def fails(candidate: Program) -> bool:
        found = checked(seed, candidate)
        return found is not None and found.kind == failure.kind

    small = shrink(made, fails)
    again = checked(seed, small) or failure
    return f"\n--- seed {seed}: {again}\n{small.script()}"


def outcome(seed: int) -> str | None:
    """Return the report on a seed's program if it fails."""
    made, failure = examine(seed)
    return None if failure is None else report(seed, made, failure)


def outcomes(chosen: Iterator[int], jobs: int) -> Iterator[str | None]:
    """Yield the outcome of every seed, in processes of their own if there are several `jobs`.

    A few seeds are under way at a time, so that the last one is not drawn before it is needed.
    """
    if jobs == 1:
        yield from map(outcome, chosen)
        return
    context = multiprocessing.get_context("spawn")  # threads and LLVM do not survive a fork
    with ProcessPoolExecutor(jobs, mp_context=context, max_tasks_per_child=_TASKS) as pool:
        waiting = {pool.submit(outcome, seed) for seed in itertools.islice(chosen, 2 * jobs)}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            waiting |= {pool.submit(outcome, seed) for seed in itertools.islice(chosen, len(done))}
            yield from (future.result() for future in done)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this long")
    parser.add_argument("--count", type=int, default=10**9, help="stop after this many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the work")
    parser.add_argument("--only", type=int, default=None, help="run and print one program")
    arguments = parser.parse_args()
    if arguments.only is not None:
        made, failure = examine(arguments.only)
        print(made.script(), failure or "all agree", sep="\n")
        return int(failure is not None)
    count = failures = 0
    started = time.monotonic()
    chosen = seeds(arguments.seed, arguments.count, arguments.minutes)
    for found in outcomes(chosen, arguments.jobs):
        count += 1
        if found is not None:
            failures += 1
            print(found, flush=True)
        if count % 100 == 0:
            rate = count / (time.monotonic() - started)
            print(
                f"{count} programs, {failures} failures, {rate:.1f}/s", file=sys.stderr, flush=True
            )
    print(f"{count} programs from seed {arguments.seed}, {failures} failures")
    return int(failures > 0)
