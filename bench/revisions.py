"""The command: `python -m bench.revisions REVISION [workload ...]`: two revisions of rlx in turns.

The working tree and another revision of it run the same rows, each with its own workloads and its
own compiler, in processes of their own, in turns, so that noise affects both alike. Rows that
only one of them has are left out; rows whose results differ are marked, since another tolerance,
or another problem under the same name, makes their times incomparable.

Directories of checkouts serve as revisions, too.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_TREE = Path(__file__).parent.parent
_PEERS = {"llvm": "rlx", "c": "rlx_c"}
_TOLERANCE = 1e-2
"""Of the largest element: both revisions check themselves more closely in their own tests."""

_ONCE_SECONDS = 5.0
"""How long a process needs for what it compiles once, without its calls."""


class Side:
    """One revision's process, which answers a line of JSON with one."""

    def __init__(self, tree: Path, peer: str, threads: int) -> None:
        environment = os.environ | {"PYTHONPATH": str(tree)}
        command = [sys.executable, __file__, "--serve", peer, "--threads", str(threads)]
        self._process = subprocess.Popen(
            command, cwd=tree, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, command: str, argument: object = None) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([command, argument]) + "\n")
        self._process.stdin.flush()
        while not (line := self._process.stdout.readline()).startswith("answer "):
            if not line:
                raise RuntimeError("the process of a revision ended")
        return json.loads(line.removeprefix("answer "))

    def close(self) -> None:
        with suppress(RuntimeError, OSError):
            self.ask("close")
        self._process.kill()


@dataclass(frozen=True, slots=True)
class Compared:
    """One row: the best and the median seconds a call of both revisions, or why there are none."""

    name: str
    old: tuple[float, float] = (0.0, 0.0)
    new: tuple[float, float] = (0.0, 0.0)
    fault: str = ""

    def __str__(self) -> str:
        if self.fault:
            return f"| {self.name} | {self.fault} | | | |"
        times = (f"{1e6 * best:.4g} ({1e6 * median:.4g})" for best, median in (self.old, self.new))
        ratios = (f"{new / old:.2f}" for old, new in zip(self.old, self.new, strict=True))
        return f"| {self.name} | {' | '.join((*times, *ratios))} |"


def compare(name: str, old: Side, new: Side, *, rounds: int, seconds: float) -> Compared:
    """Prepare a row in both revisions, hold their results together, and time them in turns."""
    sides = [old, new]
    made = [each.ask("prepare", name) for each in sides]
    for which, each in zip(("old", "new"), made, strict=True):
        if each["fault"]:
            return Compared(name, fault=f"{which}: {each['fault']}")
    if not _agree(*(np.load(each["outputs"]) for each in made)):
        return Compared(name, fault="results differ: another problem under the same name")
    times: list[list[float]] = [[], []]
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            times[side].extend(sides[side].ask("measure", seconds))
    of_old, of_new = ((min(each), float(np.median(each))) for each in times)
    return Compared(name, of_old, of_new)


def _settle(names: Sequence[str], *sides: Side) -> None:
    """Have what a process makes once, like the module of the fast calls, made before rows."""
    for side in sides:
        side.ask("prepare", names[0])
    time.sleep(_ONCE_SECONDS)


def _agree(old: Any, new: Any) -> bool:
    """True if two archives hold arrays of the same shapes whose elements are close."""
    if len(old.files) != len(new.files):
        return False
    for wanted, found in ((old[name], new[name]) for name in old.files):
        if wanted.shape != found.shape:
            return False
        size = np.max(np.abs(wanted), initial=1.0)
        if not np.allclose(wanted, found, rtol=0, atol=_TOLERANCE * size, equal_nan=True):
            return False
    return True


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Give the directory of a revision: a checkout that is there, or one made for the while."""
    if Path(revision).is_dir():
        yield Path(revision).resolve()
        return
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        git = ["git", "-C", str(_TREE), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), revision], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def serve(peer: str, threads: int) -> None:
    """Answer for the revision that is on the import path."""
    from bench.worker import Worker
    from bench.workloads import PROGRAMS, WORKLOADS

    worker = Worker(peer, threads)
    graphs = [each.name for each in WORKLOADS if peer == "rlx" or peer in each.peers]
    names = graphs + [each.name for each in PROGRAMS if peer == "rlx" or peer in each.peers]
    with tempfile.TemporaryDirectory() as directory:
        for line in sys.stdin:
            command, argument = json.loads(line)
            answer: object = None
            if command == "list":
                answer = names
            elif command == "prepare":
                made = worker.prepare(argument)
                path = Path(directory) / "outputs.npz"
                np.savez(path, *(np.asarray(y, np.float64) for y in made.outputs))
                answer = {"fault": made.fault, "outputs": str(path)}
            elif command == "measure":
                answer = worker.measure(argument)
            elif command == "close":
                worker.close()
            print("answer", json.dumps(answer), flush=True)
            if command == "close":
                return


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_intermixed_args(arguments)
    if options.serve:
        serve(options.serve, options.threads)
        return
    peer = _PEERS[options.backend]
    with checkout(options.revision) as tree:
        old, new = (Side(each, peer, options.threads) for each in (tree, _TREE))
        try:
            known = set(old.ask("list"))
            names = [name for name in new.ask("list") if name in known]
            patterns = options.workloads or ["*"]
            _settle(names, old, new)
            print("| row | old, best (median) us | new | new / old | of medians |")
            print("|---|---|---|---|---|", flush=True)
            for name in names:
                if any(fnmatch.fnmatch(name, pattern) for pattern in patterns):
                    row = compare(name, old, new, rounds=options.rounds, seconds=options.seconds)
                    print(row, flush=True)
        finally:
            old.close()
            new.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench.revisions",
        description="Compare the speed of another revision of rlx with this one's.",
    )
    parser.add_argument("revision", nargs="?", default="HEAD", help="a revision, or a checkout")
    parser.add_argument("workloads", nargs="*", help="names or patterns; default: all")
    parser.add_argument("--backend", choices=sorted(_PEERS), default="llvm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0.05, help="per revision and round")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()
