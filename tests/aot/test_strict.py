"""Exported C is without a warning for cross compilers and for GCC's analyzer, too."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.ir.graph import Graph
from rlx.runtime.aot import aot
from rlx.runtime.cross import find_compiler, has_compiler, zig_compiler
from tests.aot.building import STRICT, needs_compiler, require, run
from tests.aot.programs import encoder_layer, lookup, params_of, scaled_rows, training_step


def roots() -> Graph:
    """Square roots, which some compilers have as an instruction, and others not."""
    g = Graph("roots")
    g.set_outputs([g.sqrt(g.input("x", (5,)))])
    return g


GRAPHS = (training_step, lookup, scaled_rows, roots)
TARGETS = (
    *("cortex-m3", "cortex-m4", "wasm32", "wasm32-simd128", "aarch64"),
    *("aarch64-i8mm", "aarch64-sve256"),
    *("riscv32", "riscv64", "riscv64-v"),
)


@pytest.mark.slow
@pytest.mark.whole
@needs_compiler
@pytest.mark.parametrize("target", TARGETS)
def test_code_for_other_targets_compiles_silently_under_strict_flags(
    tmp_path: Path, target: str
) -> None:
    if not has_compiler(target):
        pytest.skip(f"no compiler for {target}")
    compiler = find_compiler(target)
    for graph in GRAPHS:
        program = graph()
        artifact = aot(
            program, tmp_path, params=params_of(program), weights="embed", target=target,
            math="none", emit_only=True,
        )  # fmt: skip
        command = (*compiler.command, *compiler.flags, "-std=c11", *STRICT, "-O1", "-c")
        run(*command, artifact.source, "-o", tmp_path / "unit.o")


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("graph", [*GRAPHS, encoder_layer])
def test_the_analyzer_of_gcc_finds_nothing(graph: Callable[[], Graph], tmp_path: Path) -> None:
    artifact = aot(graph(), tmp_path, emit_only=True)
    command = (require("gcc"), "-std=c11", *STRICT, "-O1", "-fanalyzer", "-c")
    run(*command, artifact.source, "-o", tmp_path / "unit.o")


@needs_compiler
@pytest.mark.parametrize(
    ("target", "triple", "flags"),
    [
        ("portable", "x86_64-linux-musl", ()),
        ("x86-64-v3", "x86_64-linux-musl", ("-mcpu=x86_64_v3",)),
        ("cortex-m4", "thumb-freestanding-eabihf", ("-mcpu=cortex_m4+vfp4d16sp",)),
    ],
)
def test_zig_is_silent_where_another_compiler_comes_first(
    tmp_path: Path, target: str, triple: str, flags: tuple[str, ...]
) -> None:
    if importlib.util.find_spec("ziglang") is None:
        pytest.skip("the wheel ziglang is not installed")
    zig = zig_compiler(triple, flags)
    for graph in GRAPHS:
        artifact = aot(graph(), tmp_path, target=target, math="none", emit_only=True)
        command = (*zig.command, *zig.flags, "-std=c11", *STRICT, "-O1", "-c")
        run(*command, artifact.source, "-o", tmp_path / "unit.o")
