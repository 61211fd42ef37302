"""Exports for Microsoft's compiler: plain C that it takes, checked by clang in its place."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rlx.errors import ToolchainError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.cross import find_compiler
from rlx.runtime.toolchain import command_words, describe
from tests.aot.building import dumping, sample_inputs
from tests.aot.programs import (
    encoder_layer,
    large_rows,
    lookup,
    mlp,
    params_of,
    scaled_rows,
    splat_step,
    training_step,
)
from tests.aot.test_plain_c import odd_constants, solves
from tests.aot.windows import compile_as_microsoft_s, needs_zig, run_for_windows

MSVC = "x86_64-windows-msvc"
PROGRAMS = (
    mlp, training_step, scaled_rows, large_rows, lookup, encoder_layer, splat_step, solves,
    odd_constants,
)  # fmt: skip
OPTIONS = (
    {"weights": "file"},
    {"weights": "embed", "math": "none", "threads": "callback"},
    {"threads": "openmp", "optimize": "size"},
)


def export(make: Callable[[], Graph], directory: Path, target: str, **options: str) -> Artifact:
    graph = make()
    params = params_of(graph)
    if not params:
        options.pop("weights", None)
    given = params if "weights" in options else {}
    return aot(graph, directory, params=given, target=target, emit_only=True, **options)  # type: ignore[arg-type]


@pytest.mark.guarantee(
    "Exported C",
    "C for x86_64-windows-msvc has no extensions of GCC: clang takes it as Microsoft's.",
)
@needs_zig
@pytest.mark.parametrize("options", OPTIONS, ids=["file", "freestanding", "openmp"])
@pytest.mark.parametrize("make", PROGRAMS)
def test_c_for_microsoft_s_compiler_has_no_extensions(
    tmp_path: Path, make: Callable[[], Graph], options: dict[str, str]
) -> None:
    artifact = export(make, tmp_path, MSVC, **options)
    for path in (artifact.source, artifact.sample):
        compile_as_microsoft_s("-fsyntax-only", path.name, cwd=tmp_path)
    text = artifact.source.read_text()
    assert text.splitlines()[2] == f"//   cl /std:c11 /O2 /fp:precise /c {artifact.source.name}"
    assert "1.0f / 0.0f" not in text  # C2124 of Microsoft's, which clang takes
    assert "-O3" not in (tmp_path / "CMakeLists.txt").read_text()


@needs_zig
def test_the_check_refuses_vectors(tmp_path: Path) -> None:
    artifact = export(encoder_layer, tmp_path, "portable")
    with pytest.raises(AssertionError, match="error: "):
        compile_as_microsoft_s("-fsyntax-only", artifact.source.name, cwd=tmp_path)


@needs_zig
@pytest.mark.slow
def test_an_object_of_such_a_compiler_agrees_with_the_reference(tmp_path: Path) -> None:
    graph = training_step()
    params = params_of(graph)
    artifact = export(training_step, tmp_path, MSVC, weights="embed", math="none")
    compile_as_microsoft_s("-O2", "-c", artifact.source.name, "-o", "step.obj", cwd=tmp_path)
    run_for_windows(dumping(artifact), [tmp_path / "step.obj"])
    given = np.fromfile(tmp_path / "y.bin", np.float32)
    expected = evaluate(graph, {**params, **sample_inputs(graph)})[0]
    np.testing.assert_allclose(given, expected.reshape(-1), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize(
    ("target", "magic"),
    [
        ("x86_64-windows-msvc", struct.pack("<H", 0x8664)),
        ("x86_64-windows-gnu", struct.pack("<H", 0x8664)),
        ("aarch64-windows-msvc", struct.pack("<H", 0xAA64)),
        ("x86_64-macos", struct.pack("<II", 0xFEEDFACF, 0x01000007)),
        ("aarch64-macos.13.0", struct.pack("<II", 0xFEEDFACF, 0x0100000C)),
        ("aarch64-linux-gnu", b"\x7fELF"),
    ],
)
def test_objects_of_llvm_have_the_format_of_their_system(
    tmp_path: Path, target: str, magic: bytes
) -> None:
    pytest.importorskip("llvmlite")
    graph = scaled_rows()
    artifact = aot(graph, tmp_path, params=params_of(graph), target=target, backend="llvm")
    assert artifact.object is not None
    assert artifact.object.read_bytes().startswith(magic)


@needs_zig
def test_c_around_llvm_s_objects_has_no_extensions(tmp_path: Path) -> None:
    """Without a compiler for the target LLVM compiles: kernels keep their vectors."""
    pytest.importorskip("llvmlite")
    graph = encoder_layer()
    artifact = aot(graph, tmp_path, params=params_of(graph), target=MSVC)
    assert artifact.api is not None
    compile_as_microsoft_s("-fsyntax-only", artifact.api.name, cwd=tmp_path)
    compile_as_microsoft_s("-fsyntax-only", "main.c", cwd=tmp_path)


def test_no_compiler_for_it_is_run() -> None:
    with pytest.raises(ToolchainError, match=f"no compiler for {MSVC}.*\n.*emit_only=True"):
        find_compiler(MSVC)


@pytest.mark.parametrize("command", ["cl", "CL.EXE", r"C:\Program Files\VC\cl.exe", "clang-cl"])
def test_a_compiler_with_microsoft_s_options_is_refused(command: str) -> None:
    for use in (lambda: find_compiler("portable", f"'{command}'"), lambda: describe((command,))):
        with pytest.raises(ToolchainError, match=r"takes Microsoft's options.*\n.*clang"):
            use()


@pytest.mark.parametrize(
    ("text", "on_windows", "words"),
    [
        (r"C:\LLVM\bin\clang.exe -m64", True, (r"C:\LLVM\bin\clang.exe", "-m64")),
        (r'"C:\Program Files\gcc.exe" -m64', True, (r"C:\Program Files\gcc.exe", "-m64")),
        (r"ccache my\ gcc", False, ("ccache", "my gcc")),
    ],
)
def test_commands_are_split_as_the_system_s_shell_splits(
    text: str, on_windows: bool, words: tuple[str, ...]
) -> None:
    assert command_words(text, on_windows=on_windows) == words


def test_a_path_with_blanks_is_one_word(tmp_path: Path) -> None:
    tool = tmp_path / "a tool"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    assert command_words(str(tool)) == (str(tool),)
