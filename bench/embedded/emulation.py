"""Building programs for other machines, and counting what they execute, by a plugin of QEMU."""

from __future__ import annotations

import functools
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rlx.runtime.cross import zig_compiler

SOURCE = Path(__file__).with_name("count.c")
LIBRARY = Path(__file__).with_name("libc.c")


@functools.cache
def plugin() -> Path:
    """Return the plugin, compiled once in a process."""
    built = Path(tempfile.mkdtemp()) / "count.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(built)], check=True)
    return built


def build(
    triple: str, sources: Sequence[Path], program: Path, flags: Sequence[str] = (),
    archives: Sequence[Path] = (),
) -> Path:  # fmt: skip
    """Build a program with the small C library here; Zig would build a whole one first."""
    units = [program.with_name(f"{source.stem}.unit.o") for source in sources]
    for source, unit in zip(sources, units, strict=True):
        _zig(triple, *flags, "-fno-stack-protector", "-c", source, "-o", unit)
    _zig(triple, "-nostdlib", "-static", *units, *archives, library(triple), "-o", program)
    return program


@functools.cache
def library(triple: str) -> Path:
    """Return the small C library for a machine, compiled once in a process."""
    built = Path(tempfile.mkdtemp()) / "libc.o"
    flags = ("-O2", "-ffreestanding", "-fno-stack-protector", "-w")
    _zig(triple, *flags, "-c", LIBRARY, "-o", built)
    return built


def _zig(triple: str, *words: str | Path) -> None:
    zig = zig_compiler(triple)
    command = [*zig.command, *zig.flags, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")


def executed(machine: str, program: Path, *arguments: str, cpu: str = "") -> int:
    """Return the instructions of a run of a program for Linux on `machine`, as QEMU calls it."""
    words = ("-cpu", cpu) if cpu else ()
    command = [f"qemu-{machine}", *words, "-plugin", str(plugin()), str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    found = re.search(r"^instructions (\d+)$", done.stderr, re.MULTILINE)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"{program} fails under qemu-{machine}: {done.stderr[-500:]}")
    return int(found[1])


def instructions(machine: str, program: Path, *arguments: str, cpu: str = "") -> int:
    """Return those of one run of a program that takes the number of runs last: two less one."""
    two, one = (executed(machine, program, *arguments, runs, cpu=cpu) for runs in ("2", "1"))
    return two - one
