"""Counting the instructions that a program for another machine executes, by a plugin of QEMU."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("count.c")


@functools.cache
def plugin() -> Path:
    """Return the plugin, compiled once in a process."""
    built = Path(tempfile.mkdtemp()) / "count.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(built)], check=True)
    return built


def executed(machine: str, program: Path, *arguments: str) -> int:
    """Return the instructions of a run of a program for Linux on `machine`, as QEMU calls it."""
    command = [f"qemu-{machine}", "-plugin", str(plugin()), str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    found = re.search(r"^instructions (\d+)$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"{program} fails under qemu-{machine}: {done.stderr[-500:]}")
    return int(found[1])


def instructions(machine: str, program: Path, *arguments: str) -> int:
    """Return those of one run of a program that takes the number of runs last: two less one."""
    two, one = (executed(machine, program, *arguments, runs) for runs in ("2", "1"))
    return two - one
