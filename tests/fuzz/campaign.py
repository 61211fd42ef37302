"""Run the fuzzer: `python -m tests.fuzz --minutes 60`, or one program: `--only SEED`.

`--kinds lines,indices` chooses what is drawn, in turn: programs of lines, and the kinds of
`tests.fuzz.draws`, each of which compares its cases in its own way. Programs of lines are
compared over the reference and LLVM; every fifth one with C, at the flags that users get and at
others; every tenth one with JAX where that is installed; every 80th one is exported in one way in
turn, compiled with several compilers and sanitizers, and run. Failures are shrunk and printed as
Python. With `--log FILE` a run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rlx.runtime.toolchain import has_toolchain
from tests.fuzz.check import Failure, check
from tests.fuzz.draws import KINDS
from tests.fuzz.draws.case import Case
from tests.fuzz.export import WAYS
from tests.fuzz.generate import program
from tests.fuzz.program import RandomProgram
from tests.fuzz.shrink import shrink
from tests.fuzz.workers import Outcome, outcomes

LINES = "lines"
"""Programs of lines, among the kinds of draws."""


def backends_for(seed: int) -> tuple[str, ...]:
    """Return what runs the program of a seed, and the reference."""
    return ("llvm", "c") if seed % 5 == 0 and has_toolchain() else ("llvm",)


def with_jax(seed: int) -> bool:
    return seed % 10 == 0 and importlib.util.find_spec("jax") is not None


def exports_for(seed: int) -> tuple[str, ...]:
    """Return the ways in which the program of a seed is exported."""
    if seed % 80 != 3 or not has_toolchain():
        return ()
    return (tuple(WAYS)[seed // 80 % len(WAYS)],)


def checked(seed: int, made: RandomProgram) -> Failure | None:
    """Return how a program fails in what is asked of a seed's."""
    return check(made, backends_for(seed), jax=with_jax(seed), exports=exports_for(seed))


def examine(seed: int) -> tuple[RandomProgram, Failure | None]:
    """Return the program of a seed and how it fails, if it does."""
    made = program(seed, large=seed % 25 == 7)
    return made, checked(seed, made)


def seeds(first: int, count: int, minutes: float) -> Iterator[int]:
    stop = time.monotonic() + 60 * minutes if minutes else float("inf")
    for seed in range(first, first + count):
        if time.monotonic() > stop:
            return
        yield seed


def report(seed: int, made: RandomProgram, failure: Failure) -> str:
    """Return a failure and the smallest program that fails in the same way."""

    def fails(candidate: RandomProgram) -> bool:
        found = checked(seed, candidate)
        return found is not None and found.kind == failure.kind

    small = shrink(made, fails)
    again = checked(seed, small) or failure
    return f"\n--- seed {seed}: {again}\n{small.script()}"


def case_of(seed: int, kinds: Sequence[str]) -> tuple[str, Case, int]:
    """Return the kind of a seed's case, the case, and its number among those of the kind."""
    kind, number = kinds[seed % len(kinds)], seed // len(kinds)
    return kind, KINDS[kind](random.Random(f"{kind} {seed}")), number


def outcome(seed: int, kinds: Sequence[str] = (LINES,)) -> Outcome:
    """Return the report on a seed's program if it fails."""
    if kinds[seed % len(kinds)] == LINES:
        made, failure = examine(seed // len(kinds))
        return None if failure is None else report(seed // len(kinds), made, failure)
    kind, case, number = case_of(seed, kinds)
    failure = case.failure(number, backends_for(number))
    return None if failure is None else f"\n--- seed {seed}, {kind}: {failure}\n{case.script()}"


@dataclass
class Progress:
    """What a run has examined: all seeds before `following`, and `ahead`, which was faster."""

    first: int
    following: int
    failures: int = 0
    seconds: float = 0.0
    ahead: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        return self.following - self.first + len(self.ahead)

    def add(self, seed: int, found: Outcome) -> None:
        self.ahead.add(seed)
        self.failures += found is not None
        while self.following in self.ahead:
            self.ahead.remove(self.following)
            self.following += 1

    def to_do(self, chosen: Iterator[int]) -> Iterator[int]:
        return (seed for seed in chosen if seed >= self.following and seed not in self.ahead)

    def save(self, path: Path) -> None:
        facts = {**asdict(self), "ahead": sorted(self.ahead)}
        written = path.with_suffix(".new")
        written.write_text(json.dumps(facts))
        written.replace(path)

    @staticmethod
    def load(path: Path | None, first: int) -> Progress:
        if path is None or not path.exists():
            return Progress(first, first)
        facts = json.loads(path.read_text())
        return Progress(**{**facts, "ahead": set(facts["ahead"])})

    def __str__(self) -> str:
        rate = self.count / max(self.seconds, 1e-9)
        counts = f"{self.count} programs from seed {self.first}, {self.failures} failures"
        return f"{counts}, {rate:.1f}/s"


def run(arguments: argparse.Namespace) -> Progress:
    """Examine seeds and print what fails; keep account of it in the log, if there is one."""
    done = Progress.load(arguments.log, arguments.seed)
    before, started = done.seconds, time.monotonic()
    chosen = done.to_do(seeds(done.first, arguments.count, arguments.minutes))
    of_kinds = functools.partial(outcome, kinds=arguments.kinds)
    for seed, found in outcomes(of_kinds, chosen, arguments.jobs):
        done.add(seed, found)
        done.seconds = before + time.monotonic() - started
        if found is not None:
            print(found, flush=True)
        if arguments.log is not None:
            done.save(arguments.log)
        if done.count % 100 == 0:
            print(done, file=sys.stderr, flush=True)
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=0.0, help="stop after this long")
    parser.add_argument("--count", type=int, default=10**9, help="stop after this many programs")
    parser.add_argument("--seed", type=int, default=0, help="the first program's seed")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes share the work")
    parser.add_argument("--log", type=Path, default=None, help="go on with the run of this file")
    parser.add_argument("--only", type=int, default=None, help="run and print one program")
    parser.add_argument("--kinds", type=_kinds, default=(LINES,), help="what is drawn, in turn")
    arguments = parser.parse_args()
    if arguments.only is not None:
        return _only(arguments.only, arguments.kinds)
    done = run(arguments)
    print(done)
    return int(done.failures > 0)


def _only(seed: int, kinds: Sequence[str]) -> int:
    if kinds[seed % len(kinds)] == LINES:
        made, failure = examine(seed // len(kinds))
        text = made.script()
    else:
        _, case, number = case_of(seed, kinds)
        text, failure = case.script(), case.failure(number, backends_for(number))
    print(text, failure or "all agree", sep="\n")
    return int(failure is not None)


def _kinds(text: str) -> tuple[str, ...]:
    """Return the kinds that a text names; `all` are all of them."""
    names = (LINES, *KINDS) if text == "all" else tuple(text.split(","))
    unknown = sorted({*names} - {LINES, *KINDS})
    if unknown:
        known = ", ".join((LINES, *KINDS))
        raise argparse.ArgumentTypeError(f"no kind is named {', '.join(unknown)}; use {known}")
    return names
