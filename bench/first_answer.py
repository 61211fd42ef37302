"""How long the first answer takes: whole processes, cold and warm, next to JAX where it is.

    python -m bench.first_answer [PATTERN ...] [--rounds N]

Each figure is a process of its own. `first call` is the call of the function that is compiled:
tracing, compiling and the first result. `process` is all of the process, the interpreter, imports
and arguments included. Cold is an empty cache, warm the cache that a cold process left. On one
thread (`RLX_NUM_THREADS=1`) LLVM compiles the parts of a large module one after the other. Rounds
go over the columns in turn; medians are shown, in seconds.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.first_programs import PROGRAMS
from bench.text import table

COLUMNS = {
    "llvm": "LLVM cold",
    "llvm-wait": "LLVM cold, one tier",
    "one": "LLVM cold, one thread",
    "c": "C cold",
    "c-wait": "C cold, one tier",
    "warm": "LLVM warm",
    "jax": "JAX",
}

ONE_TIER = ("llvm-wait", "c-wait")
"""Columns whose first calls wait for optimized code."""


def main(arguments: Sequence[str]) -> None:
    """Print the table of the programs whose names match."""
    parser = argparse.ArgumentParser(prog="bench.first_answer", description="time first answers")
    parser.add_argument("patterns", nargs="*", default=["*"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--columns", nargs="*", default=list(COLUMNS), choices=COLUMNS)
    options = parser.parse_args(arguments)
    names = [n for n in PROGRAMS if any(fnmatch.fnmatch(n, p) for p in options.patterns)]
    header = [f"{COLUMNS[c]}, {kind}" for c in options.columns for kind in ("call", "process")]
    print(table(["program", *header], ()))
    for name in names:
        print(f"| {' | '.join(row(name, options.columns, options.rounds))} |", flush=True)


def row(name: str, columns: Sequence[str], rounds: int) -> list[str]:
    """Return the medians of a program; empty where what it needs is missing."""
    found: dict[str, list[tuple[float, float]]] = {c: [] for c in columns if is_run(name, c)}
    with tempfile.TemporaryDirectory() as kept:
        if "warm" in found:
            measure(name, "warm", Path(kept))  # fills the cache
        for _ in range(rounds):
            for column, times in found.items():
                with tempfile.TemporaryDirectory() as empty:
                    cache = kept if column == "warm" else empty
                    times.append(measure(name, column, Path(cache)))
    cells = [name]
    for column in columns:
        both = zip(*found[column], strict=True) if column in found else ()
        cells += [f"{statistics.median(times):.2f}" for times in both] or ["", ""]
    return cells


def is_run(name: str, column: str) -> bool:
    """True if a program has a version for a column, and what it needs is installed."""
    program = PROGRAMS[name]
    needs = (*program.needs, *(("jax",) if column == "jax" else ()))
    return column.removesuffix("-wait") not in program.without and all(
        map(importlib.util.find_spec, needs)
    )


def measure(name: str, column: str, cache: Path) -> tuple[float, float]:
    """Return the seconds of the first call, and of the process that makes it.

    A process that fills the cache ends when the second tier of machine code is there.
    """
    own = {"RLX_CACHE_DIR": str(cache), "RLX_WAIT": "1" if column in ONE_TIER else "0"}
    if column == "one":
        own["RLX_NUM_THREADS"] = "1"
    inherited = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, name, column],
        env=inherited | own,  # without bytecode, changed modules would be compiled every time
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return float(done.stdout), time.perf_counter() - started


_CHILD = "import sys; from bench.first_programs import first_call; first_call(*sys.argv[1:])"
"""Imports no more than the programs need."""


if __name__ == "__main__":
    main(sys.argv[1:])
