"""Build a program around an artifact for a Cortex-M board, run it in QEMU, weigh its parts.

Needs `arm-none-eabi-gcc` and `qemu-system-arm`. No C library takes part.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import rlx
from rlx.runtime.cross import find_compiler

HERE = Path(__file__).parent
BOARDS = {"cortex-m3": "mps2-an385", "cortex-m4": "mps2-an386", "cortex-m7": "mps2-an500"}
CONSTANTS = "constant_data"


def build(core: str, main: str, artifact: rlx.Artifact, directory: Path) -> Path:
    """Link `main`, a file next to this one, and the start-up code with an artifact's archive."""
    compiler, program = find_compiler(core), directory / "program.elf"
    sources = [str(HERE / name) for name in (main, "start.c")]
    # What memset is made of must not be taken for a call of memset.
    bare = ("-Os", "-ffreestanding", "-nostdlib", "-fno-tree-loop-distribute-patterns")
    places = ("-I", str(directory), "-I", str(HERE), "-T", str(HERE / "memory.ld"))
    linking = (str(artifact.archive), "-lgcc", "-Wl,--gc-sections", "-o", str(program))
    command = [*compiler.command, *compiler.flags, *bare, *places, *sources, *linking]
    subprocess.run(command, check=True)
    return program


def emulate(core: str, program: Path) -> dict[str, list[int]]:
    """Return the numbers that the program prints, by the word before them."""
    done = subprocess.run(
        ["qemu-system-arm", "-M", BOARDS[core], "-nographic", "-icount", "shift=0",
         "-semihosting-config", "enable=on,target=native", "-kernel", str(program)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    facts: dict[str, list[int]] = {}
    for line in (done.stdout + done.stderr).splitlines():
        name, _, number = line.partition(" ")
        facts.setdefault(name, []).append(int(number))
    return facts


def flash(core: str, program: Path, artifact: rlx.Artifact) -> tuple[int, int]:
    """Return the bytes that the artifact's functions and its constants take in the program."""
    assert artifact.archive is not None
    tool = find_compiler(core).command[0].removesuffix("gcc") + "nm"
    sizes, own = _sizes(tool, program), _sizes(tool, artifact.archive)
    code = sum(size for name, size in sizes.items() if name in own and name != CONSTANTS)
    return code, sizes[CONSTANTS]


def _sizes(tool: str, file: Path) -> Mapping[str, int]:
    """Return the bytes of what a file defines, by name."""
    command = [tool, "-S", "--defined-only", str(file)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return {row[3]: int(row[1], 16) for row in rows if len(row) == 4}
