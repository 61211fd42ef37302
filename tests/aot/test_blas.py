"""Artifacts that leave large linear systems to a BLAS library, and those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import InputError, ToolchainError, UnsupportedError
from rlx.ir.graph import Graph
from rlx.ir.lowering import Library
from rlx.passes.layout.use_lapack import LARGE
from rlx.passes.rewrite import with_lowering
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.blas import find_blas
from rlx.target import detect_target
from tests.aot.building import Loaded, needs_compiler, run

EXTENT = LARGE


def _has_blas() -> bool:
    try:
        return find_blas(detect_target()).has("sgesv_")
    except ToolchainError:
        return False


needs_blas = pytest.mark.skipif(not _has_blas(), reason="no BLAS library with LAPACK was found")


def system(name: str = "system") -> Graph:
    """A linear system that is large enough for LAPACK."""
    g = Graph(name)
    a, b = g.input("a", (EXTENT, EXTENT)), g.input("b", (EXTENT, 2))
    g.set_outputs([g.solve(a, b)])
    return g


def _solved(artifact: Artifact, library: Path | None = None) -> NDArray[Any]:
    """Solve a system, check the residual, and return the solution."""
    loaded = Loaded(artifact, "int system_run(void *);", library=library)
    rng = np.random.default_rng(5)
    a = (rng.standard_normal((EXTENT, EXTENT)) + 32 * np.eye(EXTENT)).astype(np.float32)
    b = rng.standard_normal((EXTENT, 2)).astype(np.float32)
    assert loaded.call("init", loaded.arena, loaded.block.size) == 0
    assert loaded.call("setup", loaded.arena) == 0
    loaded.view("inputs", "a")[...] = a.reshape(-1)
    loaded.view("inputs", "b")[...] = b.reshape(-1)
    assert loaded.call("run", loaded.arena) == 0
    x = loaded.view("outputs", "y").reshape(EXTENT, 2).copy()
    np.testing.assert_allclose(a @ x, b, rtol=1e-4, atol=1e-4)
    return x


@needs_compiler
@needs_blas
@pytest.mark.parametrize("by_path", [False, True])
def test_large_system_is_left_to_the_library_that_blas_names(
    tmp_path: Path, *, by_path: bool
) -> None:
    path = str(find_blas(detect_target()).library.path)
    artifact = aot(system(), tmp_path, blas=path if by_path else "auto")
    assert artifact.manifest["libraries"] == [path, "m"]
    undefined = run("nm", "-u", artifact.archive or "").split()
    assert find_blas(detect_target()).symbol("sgesv_") in undefined
    _solved(artifact)


@needs_compiler
@needs_blas
def test_objects_of_llvm_call_the_library_too(tmp_path: Path) -> None:
    blas = find_blas(detect_target())
    artifact = aot(system(), tmp_path, blas="auto", backend="llvm")
    library, path = tmp_path / "libsystem.so", blas.library.path
    run("cc", "-shared", "-fPIC", "system_api.c", "libsystem.a", path, f"-Wl,-rpath,{path.parent}",
        "-lm", "-o", library, cwd=tmp_path)  # fmt: skip
    assert blas.symbol("sgesv_") in run("nm", "-u", artifact.archive or "").split()
    _solved(artifact, library)


@needs_compiler
def test_without_blas_the_system_is_solved_by_generated_code(tmp_path: Path) -> None:
    artifact = aot(system(), tmp_path, blas="none")
    assert artifact.manifest["libraries"] == ["m"]
    assert "gesv" not in artifact.source.read_text()
    _solved(artifact)


def test_c_for_a_library_by_name_calls_the_usual_symbols(tmp_path: Path) -> None:
    artifact = aot(system(), tmp_path, blas="openblas", emit_only=True)
    assert artifact.manifest["libraries"] == ["openblas", "m"]
    assert "extern void sgesv_(" in artifact.source.read_text()
    assert "-lopenblas -lm" in (tmp_path / "system.pc").read_text()


@needs_compiler
def test_libraries_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"/no/libblas\.so, which is not a file"):
        aot(system(), tmp_path, blas="/no/libblas.so")
    with pytest.raises(ToolchainError, match="no_such_blas"):
        aot(system(), tmp_path, blas="no_such_blas")
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ToolchainError, match=r"text\.so"):
        aot(system(), tmp_path, blas=str(tmp_path / "text.so"))


def test_calls_without_a_library_are_refused(tmp_path: Path) -> None:
    g = Graph("direct")
    a, b = g.input("a", (EXTENT, EXTENT)), g.input("b", (EXTENT, 2))
    g.set_outputs(with_lowering(g.solve(a, b).node, Library("lapack")))
    with pytest.raises(UnsupportedError, match="sgesv_, which blas='none' leaves out"):
        aot(g, tmp_path, emit_only=True)
