"""Measure a network of 16-32-32-4 units in C, by rlx and by hand, under the same flags.

    python -m bench.embedded

On this machine the least time of many rounds, rlx and hand by turns; on emulated ones the
instructions of a call. Needs a C compiler, the wheel `ziglang`, and QEMU for user programs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import rlx
from bench.embedded import emulation
from examples.microcontroller.run import X, classify, weights

HERE = Path(__file__).parent
FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd")
HERE_ROWS = (
    ("portable", "gcc -O2"),
    ("portable", "gcc -O3"),
    ("portable", "clang -O2"),
    ("x86-64-v3", "gcc -O3 -march=x86-64-v3"),
)
CLANG = (sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline")
"""Zig's clang, which would otherwise compile for this processor."""
EMULATED = ("aarch64", "riscv64")


def export(directory: Path, target: str) -> None:
    """Write the artifact, and the same weights for the C by hand."""
    rlx.aot(
        classify, directory, name="classify", example_inputs=(weights(), X), param_argnums=(0,),
        output_names=("y",), weights="embed", target=target, emit_only=True,
    )  # fmt: skip
    write_weights(directory)


def write_weights(directory: Path) -> None:
    """Write `weights.h`, the weights of the network by hand."""
    arrays = (
        f"static const float {name}[] = {{{', '.join(f'{x!r}f' for x in map(float, a.flat))}}};\n"
        for name, a in weights().items()
    )
    (directory / "weights.h").write_text("".join(arrays))


def build(directory: Path, command: Sequence[str]) -> Path:
    program = directory / "measure"
    done = [*command, *FLAGS, "-I", str(directory), *map(str, sources(directory))]
    subprocess.run([*done, "-lm", "-o", str(program)], check=True)
    return program


def build_emulated(directory: Path, target: str) -> Path:
    flags = ("-O2", *FLAGS, "-I", str(directory))
    triple = f"{target}-linux-musl"
    return emulation.build(triple, sources(directory), directory / "measure", flags)


def sources(directory: Path) -> list[Path]:
    return [HERE / "measure.c", HERE / "by_hand.c", directory / "classify.c"]


def main() -> None:
    print(f"{'':<40}{'rlx':>8}{'by hand':>10}")
    for target, compiler in HERE_ROWS:
        with tempfile.TemporaryDirectory() as place:
            export(Path(place), target)
            name, *flags = compiler.split()
            command = CLANG if name == "clang" else (name,)
            program = build(Path(place), [*command, *flags])
            times = subprocess.run([program], check=True, capture_output=True, text=True).stdout
        rlx_time, hand_time = times.split()
        print(f"{f'{target}, {compiler}, ns':<40}{rlx_time:>8}{hand_time:>10}")
    for target in EMULATED:
        with tempfile.TemporaryDirectory() as place:
            export(Path(place), target)
            program = build_emulated(Path(place), target)
            counts = [emulation.instructions(target, program, which) for which in "10"]
        print(f"{f'{target}, clang -O2, instructions':<40}{counts[0]:>8}{counts[1]:>10}")


if __name__ == "__main__":
    main()
