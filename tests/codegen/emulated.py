"""Kernels compiled here for another machine, and run together in one process under QEMU.

QEMU emulates the kernels alone: neither Python nor a compiler. C is compiled by Zig's clang.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from bench.embedded.emulation import build as build_program
from rlx.codegen.c.emit import emit_module
from rlx.codegen.llvm.objects import compile_kernels
from rlx.codegen.loops.nodes import Module
from rlx.target import named_target
from tests.aot.building import run
from tests.codegen.kernels.native import ALIGNMENT, Array, Case, arena_of, module_of, results_of

FLAGS = ("-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-w")
"""Of the flags of artifacts those that matter to results."""
TRIPLE = "aarch64-linux-musl"
LEVELS = {
    "aarch64": "",
    "aarch64-dotprod": "+dotprod",
    "aarch64-bf16": "+dotprod+bf16",
    "aarch64-i8mm": "+dotprod+i8mm",
    "aarch64-sve256": "+dotprod+i8mm+bf16+sve",
    "aarch64-sve512": "+dotprod+i8mm+bf16+sve",
}
"""rlx's target -> what clang's is called besides."""

_RUNNER = """#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

{declarations}

static int (*const entries[])(unsigned char *) = {{{names}}};
static const size_t sizes[] = {{{sizes}}};

int main(void) {{
  FILE *given = fopen("arenas", "rb"), *found = fopen("found", "wb");
  if (!given || !found) return 1;
  for (int i = 0; i < {count}; ++i) {{
    const size_t size = (sizes[i] + {alignment} - 1) / {alignment} * {alignment};
    unsigned char *arena = aligned_alloc({alignment}, size);
    if (fread(arena, 1, sizes[i], given) != sizes[i]) return 1;
    const int64_t status = entries[i](arena);
    fwrite(&status, 8, 1, found);
    fwrite(arena, 1, sizes[i], found);
  }}
  return fclose(found) != 0;
}}
"""

needs_emulator = pytest.mark.skipif(
    shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed (Debian: qemu-user)"
)


def cpu_of(target: str) -> tuple[str, str]:
    """Return QEMU's words for a processor that has what a target has, and no other vectors."""
    bytes = named_target(target).scalable_bytes
    return "-cpu", f"max,sve-default-vector-length={bytes}" if bytes else "max,sve=off"


def run_cases(
    cases: Sequence[Case], feeds: Sequence[Sequence[Array]], backend: str, target: str
) -> list[tuple[int, list[Array]]]:
    """Run each case on its feeds; return statuses and results."""
    module = module_of(cases)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        program = _program(module, cases, backend, target, directory)
        arenas = [arena_of(case, each) for case, each in zip(cases, feeds, strict=True)]
        (directory / "arenas").write_bytes(b"".join(arena.tobytes() for arena in arenas))
        run("qemu-aarch64", *cpu_of(target), program, cwd=directory)
        found = np.fromfile(directory / "found", np.uint8)
    results, at = [], 0
    for case in cases:
        status = int(found[at : at + 8].view(np.int64)[0])
        arena = found[at + 8 : at + 8 + case.arena_bytes]
        results.append((status, results_of(case, arena, {})))
        at += 8 + case.arena_bytes
    return results


def _program(
    module: Module, cases: Sequence[Case], backend: str, target: str, directory: Path
) -> Path:
    names = [case.entry.name for case in cases]
    runner = _RUNNER.format(
        declarations="\n".join(f"int {name}(unsigned char *);" for name in names),
        names=", ".join(names),
        sizes=", ".join(str(case.arena_bytes) for case in cases),
        count=len(cases),
        alignment=ALIGNMENT,
    )
    sources, objects = [directory / "runner.c"], []
    sources[0].write_text(runner)
    if backend == "c":
        sources.append(directory / "kernels.c")
        sources[1].write_text(emit_module(module))
    else:
        objects.append(directory / "kernels.o")
        objects[0].write_bytes(
            compile_kernels(module, named_target(target), triple=TRIPLE, exported=names, symbols={})
        )
    bits = 8 * named_target(target).scalable_bytes
    width = [f"-msve-vector-bits={bits}"] if bits else []
    flags = (*FLAGS, f"-mcpu=generic{LEVELS[target]}", *width)
    return build_program(TRIPLE, sources, directory / "program", flags, archives=objects)
