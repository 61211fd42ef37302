"""Artifacts made without a C compiler: LLVM's objects, our archive, and the C around them."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from rlx.codegen.aot.archive import archive_bytes
from rlx.errors import ToolchainError, UnsupportedError
from rlx.ir.graph import Graph
from rlx.runtime import cross
from rlx.runtime.aot import Artifact, aot
from tests.aot.building import STRICT, Loaded, needs_compiler, require, run
from tests.aot.programs import lookup, mlp, params_of, scaled_rows, training_step


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RLX_CC", "CC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(cross, "_ZIG_MODULE", "no_such_wheel")


def _objects(graph: Graph, directory: Path, threads: str | None = None) -> Artifact:
    return aot(graph, directory, params=params_of(graph), threads=threads, backend="llvm")


@pytest.mark.usefixtures("no_compiler")
def test_without_a_compiler_there_is_an_object_an_archive_and_c_around_them(
    tmp_path: Path,
) -> None:
    artifact = aot(mlp(), tmp_path, params=params_of(mlp()))
    assert artifact.library is None
    assert artifact.object is not None
    assert artifact.archive is not None
    assert artifact.api is not None
    assert artifact.object.read_bytes()[:4] == b"\x7fELF"
    assert artifact.object.read_bytes() in artifact.archive.read_bytes()
    assert "int mlp_load_weights(" in artifact.api.read_text()


@pytest.mark.usefixtures("no_compiler")
def test_what_needs_a_compiler_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"no C compiler|no archiver"):
        aot(mlp(), tmp_path, backend="c")
    with pytest.raises(UnsupportedError, match="math='none' is C"):
        aot(mlp(), tmp_path, math="none")
    with pytest.raises(UnsupportedError, match="there are no objects for i686-linux-gnu"):
        aot(mlp(), tmp_path, target="i686-linux-gnu")
    with pytest.raises(UnsupportedError, match="unknown backend 'tcc'"):
        aot(mlp(), tmp_path, backend="tcc")


@pytest.mark.slow
@pytest.mark.whole
@needs_compiler
@pytest.mark.parametrize("make", [mlp, training_step, scaled_rows, lookup])
def test_sample_prints_the_same_with_llvms_kernels_as_with_c(
    tmp_path: Path, make: type[Graph]
) -> None:
    artifact = _objects(make(), tmp_path)
    name = artifact.name
    around = (f"{name}_api.c", f"lib{name}.a", "-lm")
    run("cc", "-std=c11", *STRICT, "main.c", *around, "-o", "of_llvm", cwd=tmp_path)
    run("cc", "-O2", "-ffp-contract=off", "main.c", f"{name}.c", "-lm", "-o", "of_c", cwd=tmp_path)
    printed = run("./of_llvm", cwd=tmp_path)
    assert re.search(r"\w+: -?\d", printed)
    assert printed == run("./of_c", cwd=tmp_path)


@pytest.mark.slow
@needs_compiler
def test_kernels_of_the_archive_agree_with_c_to_rounding(tmp_path: Path) -> None:
    graph = training_step()
    compiled = aot(graph, tmp_path / "c", params=params_of(graph), weights="embed")
    made = aot(graph, tmp_path / "llvm", params=params_of(graph), weights="embed", backend="llvm")
    library = made.directory / "libstep.so"
    run("cc", "-shared", "-fPIC", "step_api.c", "libstep.a", "-lm", "-o", library,
        cwd=made.directory)  # fmt: skip
    results = []
    for artifact in (compiled, made):
        loaded = Loaded(artifact, "int step_run(void *);", library=artifact.library or library)
        assert loaded.call("init", loaded.arena, loaded.block.size) == 0
        assert loaded.call("setup", loaded.arena) == 0
        rng = np.random.default_rng(3)
        x = loaded.view("inputs", "x")
        x[...] = rng.standard_normal(x.size)
        loaded.view("inputs", "labels")[...] = rng.integers(0, 10, 32)
        for _ in range(5):
            assert loaded.call("run", loaded.arena) == 0
        results.append([loaded.view("params", p).copy() for p in ("w1", "b1", "w2", "b2")])
    for of_c, of_llvm in zip(*results, strict=True):
        np.testing.assert_allclose(of_c, of_llvm, rtol=1e-5, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize("threads", ["openmp", "callback"])
def test_c_around_objects_is_clean_with_threads_too(tmp_path: Path, threads: str) -> None:
    artifact = _objects(training_step(), tmp_path, threads)
    flags = ("-fopenmp",) if threads == "openmp" else ()
    run("cc", "-std=c11", *STRICT, *flags, "main.c", "step_api.c", "libstep.a", "-lm",
        cwd=tmp_path)  # fmt: skip
    assert artifact.weights is not None
    assert re.fullmatch(r"y: \d\.\d+\n", run("./a.out", cwd=tmp_path))


@needs_compiler
def test_archive_exports_prefixed_phases_alone(tmp_path: Path) -> None:
    artifact = _objects(training_step(), tmp_path)
    lines = [line.split() for line in run("nm", artifact.archive or "").splitlines()]
    exported = {words[2] for words in lines if len(words) == 3 and words[1].isupper()}
    assert "step_run_phase" in exported
    assert all(name.startswith("step_") for name in exported)
    shared = tmp_path / "libstep.so"
    run("cc", "-shared", "-fPIC", "step_api.c", "libstep.a", "-lm", "-o", shared, cwd=tmp_path)
    assert "step_run_phase" not in run("nm", "-D", shared)


@pytest.mark.parametrize(
    ("target", "machine"),
    [("aarch64-linux-gnu", 183), ("riscv64-linux-gnu", 243), ("x86-64-v3", 62)],
)
def test_objects_are_of_the_target(tmp_path: Path, target: str, machine: int) -> None:
    graph = training_step()
    artifact = aot(graph, tmp_path, params=params_of(graph), target=target, backend="llvm")
    assert artifact.object is not None
    assert struct.unpack_from("<H", artifact.object.read_bytes(), 18) == (machine,)


def test_two_exports_give_equal_archives(tmp_path: Path) -> None:
    archives = [_objects(mlp(), tmp_path / place).archive for place in ("first", "second")]
    assert archives[0] is not None
    assert archives[1] is not None
    assert archives[0].read_bytes() == archives[1].read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="other archivers write another index")
def test_archiver_reads_long_names_odd_sizes_and_the_index(tmp_path: Path) -> None:
    members = {"short.o": b"odd", "a_name_that_is_rather_long.o": b"even", "b.o": b""}
    symbols = {"first": "short.o", "second": "a_name_that_is_rather_long.o"}
    archive = tmp_path / "lib.a"
    archive.write_bytes(archive_bytes(members, symbols))
    assert run(require("ar"), "t", archive).split() == list(members)
    run("ar", "x", archive, cwd=tmp_path)
    for name, data in members.items():
        assert (tmp_path / name).read_bytes() == data
    index = run(require("nm"), "-s", archive).split("\n\n")[0]
    assert "first in short.o" in index
    assert "second in a_name_that_is_rather_long.o" in index
