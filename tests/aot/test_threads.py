"""Many threads, many arenas, one library: the same bits, and no races."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlx.ir.graph import Graph
from rlx.runtime.aot import aot
from tests.aot.building import Loaded, needs_compiler, require, run
from tests.aot.programs import LARGE, large_rows, params_of

pytestmark = needs_compiler
PROGRAM = (Path(__file__).parent / "threads.c").read_text()
RELOAD = (Path(__file__).parent / "reload.c").read_text()


@pytest.mark.guarantee("Results", "A result has the same bits for any number of threads.")
@pytest.mark.slow
@pytest.mark.parametrize("threads", ["callback", "openmp"])
def test_threaded_run_has_the_bits_of_a_plain_run(tmp_path: Path, threads: str) -> None:
    graph = large_rows()
    params = params_of(graph)
    results = []
    for how in (None, threads):
        artifact = aot(graph, tmp_path / str(how), params=params, weights="embed", threads=how)
        native = Loaded(artifact, "int large_run(void *);")
        assert native.call("init", native.arena, native.block.size) == 0
        assert native.call("setup", native.arena) == 0
        native.view("inputs", "x")[...] = np.linspace(-1, 1, LARGE**2, dtype=np.float32)
        assert native.call("run", native.arena) == 0
        results.append([native.view("outputs", f"y_{i}").copy() for i in (0, 1)])
    for plain, threaded in zip(*results, strict=True):
        assert np.any(plain)
        assert plain.tobytes() == threaded.tobytes()


def test_single_threaded_library_has_no_thread_symbol(tmp_path: Path) -> None:
    graph = large_rows()
    archive = aot(graph, tmp_path, params=params_of(graph)).archive
    assert archive is not None
    symbols = [line.split()[-1] for line in run("nm", archive).splitlines() if line.split()]
    words = ("pthread", "omp_", "GOMP", "__kmpc", "sched", "thrd")
    assert not [name for name in symbols if name.lstrip("_").startswith(words)]
    assert not [name for name in symbols if any(word in name for word in words)]


def test_parts_in_any_order_and_number_give_the_same_bits(tmp_path: Path) -> None:
    graph = large_rows()
    aot(graph, tmp_path, params=params_of(graph), weights="embed", threads="callback",
        emit_only=True)  # fmt: skip
    (tmp_path / "threads.c").write_text(PROGRAM)
    run("cc", "-O2", "threads.c", "large.c", "-pthread", "-lm", cwd=tmp_path)
    assert run("./a.out", cwd=tmp_path) == "equal\n"


@pytest.mark.guarantee(
    "Exported C",
    "Sixty-four threads, each with an arena, are clean under the thread sanitizer.",
)
@pytest.mark.slow
def test_sixty_four_threads_are_clean_under_thread_sanitizer(tmp_path: Path) -> None:
    graph = large_rows()
    aot(graph, tmp_path, params=params_of(graph), weights="embed", threads="callback",
        emit_only=True)  # fmt: skip
    (tmp_path / "threads.c").write_text(PROGRAM)
    flags = ("-O1", "-g", "-fsanitize=thread")
    run("gcc", *flags, "threads.c", "large.c", "-pthread", "-lm", cwd=tmp_path)
    assert run("setarch", "-R", "./a.out", cwd=tmp_path) == "equal\n"


def shared_tanh() -> Graph:
    """A program that is quickly compiled, with one kernel for several threads."""
    g = Graph("large")
    g.set_outputs([g.tanh(g.input("x", (256, 256)))])
    return g


@pytest.mark.slow
def test_an_openmp_library_is_loaded_run_and_closed_a_hundred_times(tmp_path: Path) -> None:
    artifact = aot(shared_tanh(), tmp_path, threads="openmp")
    assert "parallel_for(context, " in artifact.source.read_text()
    (tmp_path / "reload.c").write_text(RELOAD)
    run("cc", "-O1", "reload.c", "-ldl", cwd=tmp_path)
    assert artifact.library is not None
    assert run("./a.out", artifact.library, cwd=tmp_path) == "100 times\n"


@pytest.mark.slow
def test_cmake_links_openmp_so_that_it_stays(tmp_path: Path) -> None:
    aot(shared_tanh(), tmp_path, threads="openmp", emit_only=True)
    assert "-Wl,-z,nodelete" in (tmp_path / "CMakeLists.txt").read_text()
    run(require("cmake"), "-S", tmp_path, "-B", tmp_path / "build", "-DBUILD_SHARED_LIBS=ON")
    run("cmake", "--build", tmp_path / "build", "--target", "large")
    assert "NODELETE" in run(require("readelf"), "-d", tmp_path / "build" / "liblarge.so")
