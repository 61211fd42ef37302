"""The small programs as C by rlx, CasADi and tinygrad: what a run costs, compiled by one clang.

    python -m bench.embedded.peers

Needs the packages `ziglang`, `casadi`, `tinygrad` (which calls clang) and `wasmtime`,
`arm-none-eabi-gcc`, and QEMU.
Executed instructions: QEMU's of two runs less those of one, clang at -O2; on WebAssembly, the fuel
of wasmtime, which is one for an instruction; on a Cortex-M, those of `arm-none-eabi-gcc -Os`. Code,
constants, memory and stack are of the Cortex-M4; libm's code does not count.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.embedded import peer_casadi, peer_tinygrad
from bench.embedded.__main__ import FLAGS, HERE
from bench.embedded.emulation import instructions as executed_in_a_run
from bench.embedded.programs import LARGE, PROGRAMS, export
from examples.microcontroller.board import HERE as MICROCONTROLLER
from examples.microcontroller.board import emulate
from rlx.runtime.cross import find_compiler, zig_compiler

MAKERS = ("rlx", "casadi", "tinygrad")
MACHINES = {
    "x86-64": ("x86_64-linux-musl", "x86_64", "portable", ()),
    "aarch64": ("aarch64-linux-musl", "aarch64", "aarch64", ()),
    "riscv64": ("riscv64-linux-musl", "riscv64", "riscv64", ()),
    "wasm32": ("wasm32-wasi", "", "wasm32", ()),
    "wasm32-simd128": ("wasm32-wasi", "", "wasm32-simd128", ("-msimd128",)),
}
"""Name -> triple, QEMU's name, target, flags."""
CORES = ("cortex-m4", "cortex-m3")


@dataclass(frozen=True)
class CSources:
    """A program as C: its file, what runs it, and the bytes of the memory that it works in."""

    sources: tuple[str, ...]
    flags: tuple[str, ...]
    file: Path
    arena: int | None


def make(maker: str, name: str, target: str, directory: Path) -> CSources | None:
    """Let `maker` write the program; None if it has none of this kind."""
    if maker == "rlx":
        artifact = export(name, target, directory)
        flags = (f"-I{directory}", f"-DGET_INFO={name}_get_info")
        sources = (str(HERE / "any.c"), str(artifact.source))
        return CSources(sources, flags, artifact.source, artifact.arena_bytes)
    module: Any = {"casadi": peer_casadi, "tinygrad": peer_tinygrad}[maker]
    if name not in module.PROGRAMS:
        return None
    file = module.write(name, directory)
    return CSources((str(HERE / "run_peer.c"), str(file)), (), file, None)


def instructions(program: CSources, machine: str, directory: Path, level: str = "-O2") -> int:
    triple, emulator, _, extra = MACHINES[machine]
    zig = zig_compiler(triple)
    out = directory / "program"
    static = () if triple.startswith("wasm") else ("-static",)
    command = [*zig.command, *zig.flags, *extra, level, "-w", *static, *FLAGS, *program.flags]
    subprocess.run([*command, *program.sources, "-lm", "-o", str(out)], check=True,
                   capture_output=True, timeout=400)  # fmt: skip
    if emulator:
        return executed_in_a_run(emulator, out)
    return fuel(out, "2") - fuel(out, "1")


def fuel(program: Path, runs: str) -> int:
    """Return the instructions that wasmtime executes."""
    import wasmtime

    config = wasmtime.Config()
    config.consume_fuel = True
    engine = wasmtime.Engine(config)
    linker, store = wasmtime.Linker(engine), wasmtime.Store(engine)
    linker.define_wasi()
    store.set_fuel(10**10)
    wasi = wasmtime.WasiConfig()
    wasi.argv = ["program", runs]
    store.set_wasi(wasi)
    instance = linker.instantiate(store, wasmtime.Module.from_file(engine, str(program)))
    start: Any = instance.exports(store)["_start"]
    try:
        start(store)
    except wasmtime.ExitTrap as end:
        if end.code != 0:
            raise
    return 10**10 - store.get_fuel()


def on_core(program: CSources, core: str, directory: Path) -> tuple[int, int, str]:
    """Return instructions and bytes of stack of a run, and code, constants and memory in bytes."""
    compiler, elf = find_compiler(core), directory / "program.elf"
    flags = ["-Os", "-w", *FLAGS[:-1], "-ffunction-sections", "-fdata-sections", *program.flags]
    flags += [f"-I{HERE}", f"-I{MICROCONTROLLER}", f"-DARENA_BYTES={program.arena}"]
    unit = directory / "unit.o"
    tool = [*compiler.command, *compiler.flags, *flags]
    subprocess.run([*tool, "-c", str(program.file), "-o", str(unit)], check=True)
    sources = [str(HERE / "core.c"), str(MICROCONTROLLER / "start.c"), str(unit)]
    places = ["-T", str(MICROCONTROLLER / "memory.ld"), "-nostartfiles", "-Wl,--gc-sections"]
    bare = ["-fno-tree-loop-distribute-patterns", "-lm", "-o", str(elf)]
    subprocess.run([*tool, *sources, *places, *bare], check=True, capture_output=True)
    facts = emulate(core, elf)
    nm = compiler.command[0].replace("gcc", "nm")
    listed = subprocess.run([nm, "-S", str(unit)], capture_output=True, text=True, check=True)
    found = re.findall(r"^\w+ (\w+) ([a-zA-Z]) (\S+)$", listed.stdout, re.MULTILINE)

    def of(kinds: str) -> int:
        return sum(int(s, 16) for s, k, name in found if k in kinds and "info" not in name)

    memory = of("bBdD") if program.arena is None else program.arena
    return facts["instructions"][0], facts["stack"][0], f"{of('tT')} | {of('rR')} | {memory}"


def row(name: str, maker: str) -> str:
    cells: list[str] = []
    for machine, (_, _, target, _) in MACHINES.items():
        with tempfile.TemporaryDirectory() as place:
            program = make(maker, name, target, Path(place))
            count = "-" if program is None else instructions(program, machine, Path(place))
            cells.append(str(count))
    last = "- | - | - | -"
    for core in CORES:
        if name in LARGE:
            cells.append("-")
            continue
        with tempfile.TemporaryDirectory() as place:
            program = make(maker, name, core, Path(place))
            if program is None:
                cells.append("-")
                continue
            try:
                count, stack, sizes = on_core(program, core, Path(place))
            except subprocess.CalledProcessError:  # tinygrad's vectors are clang's
                cells.append("not with GCC")
                continue
            cells.append(str(count))
            last = f"{sizes} | {stack}" if core == "cortex-m4" else last
    return f"| {name} | {maker} | {' | '.join([*cells, last])} |"


def main() -> None:
    names = sys.argv[1:] or [*PROGRAMS, *LARGE]
    columns = [*MACHINES, *CORES, "code", "constants", "RAM", "stack"]
    print(f"| program | C by | {' | '.join(columns)} |")
    print("|" + "---|" * (2 + len(columns)))
    for name in names:
        for maker in MAKERS:
            print(row(name, maker), flush=True)


if __name__ == "__main__":
    main()
