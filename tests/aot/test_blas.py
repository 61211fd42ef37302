"""Artifacts that leave large systems and products to a BLAS library, and those that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rlx.errors import InputError, ToolchainError, UnsupportedError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.lowering import Library
from rlx.passes.layout.use_lapack import LARGE
from rlx.passes.rewrite import with_lowering
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.blas import find_blas
from rlx.target import detect_target
from tests.aot.building import STRICT, Loaded, needs_compiler, run

EXTENT = LARGE[ops.solve]


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


def _linked(artifact: Artifact, name: str, called: str) -> Path:
    """Return a shared library of LLVM's objects, which call a function of BLAS."""
    blas, directory = find_blas(detect_target()), artifact.source.parent
    assert blas.symbol(called) in run("nm", "-u", artifact.archive or "").split()
    library, path = directory / f"lib{name}.so", blas.library.path
    run("cc", "-shared", "-fPIC", f"{name}_api.c", f"lib{name}.a", path, "-lm", "-o", library,
        f"-Wl,-rpath,{path.parent}", cwd=directory)  # fmt: skip
    return library


@needs_compiler
@needs_blas
def test_objects_of_llvm_call_the_library_too(tmp_path: Path) -> None:
    artifact = aot(system(), tmp_path, blas="auto", backend="llvm")
    _solved(artifact, _linked(artifact, "system", "sgesv_"))


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
    nothing: Any = None
    with pytest.raises(InputError, match="blas= is None, which names no library"):
        aot(system(), tmp_path, blas=nothing)
    (tmp_path / "text.so").write_text("no library")
    with pytest.raises(ToolchainError, match=r"text\.so"):
        aot(system(), tmp_path, blas=str(tmp_path / "text.so"))


def test_calls_without_a_library_are_refused(tmp_path: Path) -> None:
    g = Graph("direct")
    a, b = g.input("a", (EXTENT, EXTENT)), g.input("b", (EXTENT, 2))
    g.set_outputs(with_lowering(g.solve(a, b).node, Library("lapack")))
    with pytest.raises(UnsupportedError, match="sgesv_, which blas='none' leaves out"):
        aot(g, tmp_path, emit_only=True)


def layer(dtype: str = "f32") -> Graph:
    """A product that is large enough for a library, with what follows."""
    g = Graph("layer")
    x, w = g.input("x", (64, 70), dtype), g.param("w", (70, 66), dtype)
    bias = g.param("bias", (66,), dtype)
    g.set_outputs([g.tanh(g.add(g.matmul(x, w), g.expand(bias, shape=(64, 66))))])
    return g


def _layer_agrees(artifact: Artifact, dtype: Any, library: Path | None = None) -> None:
    loaded = Loaded(artifact, "int layer_run(void *);", library=library)
    rng = np.random.default_rng(6)
    x, w, bias = (rng.standard_normal(shape).astype(dtype) for shape in ((64, 70), (70, 66), (66,)))
    assert loaded.call("init", loaded.arena, loaded.block.size) == 0
    for name, value in (("w", w), ("bias", bias)):
        loaded.view("params", name)[...] = value.reshape(-1)
    assert loaded.call("setup", loaded.arena) == 0
    for _ in range(2):
        loaded.view("inputs", "x")[...] = x.reshape(-1)
        assert loaded.call("run", loaded.arena) == 0
        y = loaded.view("outputs", "y").reshape(64, 66)
        np.testing.assert_allclose(y, np.tanh(x @ w + bias), atol=1e-4)


@needs_compiler
@needs_blas
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("vectors", ["auto", "none"])
def test_large_products_call_the_library_of_the_machine(
    tmp_path: Path, vectors: str, dtype: str
) -> None:
    blas = find_blas(detect_target())
    called = blas.symbol("cblas_sgemm" if dtype == "f32" else "cblas_dgemm")
    artifact = aot(layer(dtype), tmp_path, blas="system", vectors=vectors)
    assert artifact.manifest["libraries"] == [str(blas.library.path), "m"]
    assert called in run("nm", "-u", artifact.archive or "").split()
    header = " ".join(artifact.header.read_text().replace("//", "").split())
    assert f"Calls {called} of {blas.library.path}: link with it." in header
    standard = ("-std=c99", "-Wpedantic") if vectors == "none" else ("-std=c11",)
    run("cc", *standard, *STRICT, "-O2", "-c", artifact.source, "-o", tmp_path / "strict.o")
    _layer_agrees(artifact, np.float32 if dtype == "f32" else np.float64)


@needs_compiler
@needs_blas
def test_products_in_objects_of_llvm_call_the_library_too(tmp_path: Path) -> None:
    artifact = aot(layer(), tmp_path, blas="system", backend="llvm")
    _layer_agrees(artifact, np.float32, _linked(artifact, "layer", "cblas_sgemm"))


@needs_compiler
@needs_blas
def test_threads_call_the_library_for_blocks_of_rows(tmp_path: Path) -> None:
    g = Graph("tall")
    g.set_outputs([g.matmul(g.input("a", (500, 64)), g.input("b", (64, 64)))])
    alone = aot(g, tmp_path / "alone", blas="system").source.read_text()
    shared = aot(g, tmp_path / "shared", blas="system", threads="openmp").source.read_text()
    assert "111, 111, 500, 64, 64" in " ".join(alone.split())  # the library may use its own threads
    assert "min_i64(500 - first, 192)" in shared


def test_products_for_a_library_by_name_have_the_usual_prototype(tmp_path: Path) -> None:
    artifact = aot(layer(), tmp_path, blas="openblas", emit_only=True)
    assert artifact.manifest["libraries"] == ["openblas", "m"]
    assert "extern void cblas_sgemm(" in artifact.source.read_text()
    assert "Calls cblas_sgemm of openblas: link with it." in artifact.header.read_text()


@needs_blas
@pytest.mark.parametrize("blas", ["none", "auto"])
def test_products_are_generated_unless_a_library_is_named(tmp_path: Path, blas: str) -> None:
    artifact = aot(layer(), tmp_path, blas=blas, emit_only=True)
    assert artifact.manifest["libraries"] == ["m"]
    assert "gemm" not in artifact.source.read_text()
    assert "Calls" not in artifact.header.read_text()


@needs_compiler
@needs_blas
@pytest.mark.parametrize("blas", ["auto", "none"])
def test_large_decomposition_is_the_librarys_or_generated(tmp_path: Path, blas: str) -> None:
    extent = LARGE[ops.eigh]
    g = Graph("system")
    w, v = g.eigh(g.input("a", (extent, extent)))
    g.set_outputs([w, v])
    artifact = aot(g, tmp_path, blas=blas)
    assert ("ssyevd_" in artifact.source.read_text()) == (blas == "auto")
    loaded = Loaded(artifact, "int system_run(void *);")
    basis, _ = np.linalg.qr(np.random.default_rng(5).standard_normal((extent, extent)))
    a = (basis * np.arange(extent)) @ basis.T
    assert loaded.call("init", loaded.arena, loaded.block.size) == 0
    assert loaded.call("setup", loaded.arena) == 0
    loaded.view("inputs", "a")[...] = a.reshape(-1)
    assert loaded.call("run", loaded.arena) == 0
    values, vectors = (loaded.view("outputs", y["name"]) for y in artifact.manifest["outputs"])
    np.testing.assert_allclose(values, np.arange(extent), atol=1e-4)
    np.testing.assert_allclose(a @ vectors.reshape(a.shape), vectors.reshape(a.shape) * values,
                               atol=1e-4)  # fmt: skip
