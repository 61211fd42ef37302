"""Instructions of kernels on aarch64 and x86-64, next to those of loops written by hand.

    python -m bench.embedded.kernels [kernel ...]

Executed instructions of a call, counted by a plugin of QEMU. `rlx`: its C by clang (Zig) at -O2.
On aarch64 with `dotprod`, then with `i8mm`, and with SVE of 256 bits. `loops`: `plain.c` at -O3, or
with -ffast-math besides, whichever takes fewer.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import rlx
from bench.embedded.__main__ import FLAGS, HERE, write_weights
from bench.embedded.emulation import build, instructions
from bench.embedded.programs import EMULATED, export
from rlx.ir.graph import Graph
from rlx.runtime.aot import Artifact
from rlx.target import named_target

_SVE = ("-mcpu=generic+dotprod+i8mm+bf16+sve", "-msve-vector-bits=256")
LEVELS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "aarch64": ("aarch64-dotprod", ("-mcpu=generic+dotprod",)),
    "x86-64": ("x86-64", ()),
    "aarch64, i8mm": ("aarch64-i8mm", ("-mcpu=generic+dotprod+i8mm",)),
    "aarch64, SVE": ("aarch64-sve256", _SVE),
}
"""Machine -> rlx's target, and what clang is given for it."""


def softmax() -> Graph:
    g = Graph("softmax")
    g.set_outputs([g.softmax(g.input("x", (16, 256), "f32"), axis=-1)])
    return g


def conv3x3() -> Graph:
    g = Graph("conv3x3")
    x, w = g.input("x", (1, 16, 16, 16), "f32"), g.param("w", (16, 16, 3, 3), "f32")
    g.set_outputs([g.conv(x, w, padding=((1, 1), (1, 1)))])
    return g


def matmul() -> Graph:
    g = Graph("matmul")
    g.set_outputs([g.matmul(g.input("x", (64, 64), "f32"), g.input("w", (64, 64), "f32"))])
    return g


def byte_product() -> Graph:
    g = Graph("byte_product")
    x, w = g.input("x", (16, 256), "i8"), g.param("w", (256, 64), "i8")
    g.set_outputs([g.matmul(g.cast(x, to="i32"), g.cast(w, to="i32"))])
    return g


KERNELS: Mapping[str, Callable[[], Graph] | None] = {
    "mlp": None,
    "attention": None,
    "conv3x3": conv3x3,
    "softmax": softmax,
    "matmul": matmul,
    "byte_product": byte_product,
}
"""What is exported; None for one of `PROGRAMS`."""


def made(name: str, target: str, directory: Path) -> Artifact:
    """Export a kernel as C."""
    kernel = KERNELS[name]
    if kernel is None:
        return export(name, target, directory)
    return rlx.aot(kernel(), directory, name=name, target=target, emit_only=True, math="none")


def counts(name: str, machine: str, directory: Path) -> tuple[int, int]:
    """Return the instructions of a call by rlx, and of the loops."""
    target, level = LEVELS[machine]
    emulator, bytes = EMULATED[machine.partition(",")[0]], named_target(target).scalable_bytes
    cpu = f"max,sve-default-vector-length={bytes}" if bytes else ""
    triple, common = f"{emulator}-linux-musl", (*level, f"-I{directory}", "-w")
    artifact = made(name, target, directory)
    flags = ("-O2", *FLAGS, *common, f"-DGET_INFO={name}_get_info")
    program = build(triple, (HERE / "any.c", artifact.source), directory / "program", flags)
    ours = instructions(emulator, program, cpu=cpu)
    write_weights(directory)
    loops = []
    for ways in ((), ("-ffast-math",)):
        flags = ("-O3", *ways, *common, f"-DKERNEL={name}")
        program = build(triple, (HERE / "plain.c", HERE / "by_hand.c"), directory / "plain", flags)
        loops.append(instructions(emulator, program, cpu=cpu))
    return ours, min(loops)


def main() -> None:
    print(f"| kernel |{''.join(f' {m} rlx | loops | ratio |' for m in LEVELS)}")
    print("|" + "---|" * (1 + 3 * len(LEVELS)))
    for name in sys.argv[1:] or KERNELS:
        cells = [name]
        for machine in LEVELS:
            with tempfile.TemporaryDirectory() as place:
                ours, loops = counts(name, machine, Path(place))
            cells += [str(ours), str(loops), f"{ours / loops:.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
