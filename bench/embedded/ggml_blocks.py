"""Instructions of products with a matrix in blocks of q4_k on aarch64, next to ggml's NEON kernels.

    pip download --no-deps --no-binary :all: llama-cpp-python    # and unpack it
    python -m bench.embedded.ggml_blocks llama_cpp_python-*/vendor/llama.cpp/ggml

Rows of f32 are rounded to eight bits in both. ggml's are `vec_dot`, and `gemv` (up to 3 rows) or
`gemm` on its interleaved layout, by clang (Zig) at -O3; rlx's C is compiled at -O2. All are for
`dotprod` without `i8mm`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import rlx
from bench.embedded.__main__ import FLAGS, HERE
from bench.embedded.emulation import build, instructions
from bench.embedded.kernels import LEVELS
from rlx.ir.block_type import block_type
from rlx.ir.graph import Graph
from rlx.runtime.cross import zig_compiler

SIZES = ((1, 256, 1024), (1, 1024, 1024), (8, 256, 1024))
"""Rows, columns, depth."""
SOURCES = (
    "ggml-quants.c", "ggml-cpu/quants.c", "ggml-cpu/arch/arm/quants.c", "ggml-cpu/repack.cpp",
    "ggml-cpu/arch/arm/repack.cpp",
)  # fmt: skip
TARGET, (LEVEL,) = LEVELS["aarch64"]
TRIPLE = "aarch64-linux-musl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ggml", type=Path, help="ggml's source tree")
    source = parser.parse_args().ggml.absolute()
    print("| rows x columns x depth | rlx | ggml's vec_dot | gemv or gemm | ratio to the least |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        theirs = build_ggml(source, Path(scratch))
        for rows, columns, depth in SIZES:
            size = (str(rows), str(columns), str(depth))
            kernels = ("0", "1" if rows < 4 else "2")
            counts = [instructions("aarch64", theirs, kernel, *size) for kernel in kernels]
            ours = count(rows, columns, depth, Path(scratch))
            cells = (" x ".join(size), ours, *counts, f"{ours / min(counts):.2f}")
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


def count(rows: int, columns: int, depth: int, directory: Path) -> int:
    """Return the instructions of rlx's product."""
    kind = block_type("q4_k")
    g = Graph("product")
    x = g.input("x", (rows, depth), "f32")
    w = g.param("w", (columns, depth // kind.elements * kind.size), "u8")
    g.set_outputs([g.int8_dequant_matmul(x, w, scheme="q4_k")])
    made = rlx.aot(g, directory, name="product", target=TARGET, emit_only=True, math="none")
    flags = ("-O2", *FLAGS, LEVEL, f"-I{directory}", "-w", "-DGET_INFO=product_get_info")
    program = build(TRIPLE, (HERE / "any.c", made.source), directory / "program", flags)
    return instructions("aarch64", program)


def build_ggml(source: Path, directory: Path) -> Path:
    """Build a program that runs ggml's kernels."""
    zig = zig_compiler(TRIPLE)
    compile_it = (*zig.command, *zig.flags, "-O3", f"{LEVEL}+fullfp16", "-DNDEBUG", "-D_GNU_SOURCE")
    include = (f"-I{source / part}" for part in ("include", "src", "src/ggml-cpu"))
    command = (*compile_it, "-w", "-ffunction-sections", "-fdata-sections", *include)
    units: list[str] = []
    for file in (HERE / "ggml_blocks.c", *(source / "src" / name for name in SOURCES)):
        unit = directory / f"{len(units)}.o"
        words = command if file.suffix == ".c" else ["c++" if w == "cc" else w for w in command]
        subprocess.run([*words, "-c", str(file), "-o", str(unit)], check=True)
        units.append(str(unit))
    program = directory / "ggml"
    link = (*zig.command, *zig.flags, "-static", "-Wl,--gc-sections")
    subprocess.run([*link, *units, "-lm", "-o", str(program)], check=True)
    return program


if __name__ == "__main__":
    main()
