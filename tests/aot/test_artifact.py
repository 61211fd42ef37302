"""What `aot` writes: it compiles anywhere, links nothing, and computes what Python computes."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.runtime.aot import Artifact, aot
from rlx.runtime.compile import compile as rlx_compile
from tests.aot.building import STRICT, Loaded, file_block, needs_compiler, require, run
from tests.aot.programs import lookup, mlp, params_of, scaled_rows, training_step

pytestmark = needs_compiler


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    graph = training_step()
    return aot(graph, tmp_path_factory.mktemp("step"), params=params_of(graph))


@pytest.mark.slow
def test_sample_program_runs_in_a_directory_with_nothing_else(
    tmp_path: Path, step: Artifact
) -> None:
    assert step.weights is not None
    for path in (step.source, step.header, step.info_header, step.sample, step.weights):
        shutil.copy(path, tmp_path)
    run("cc", "main.c", "step.c", "-lm", cwd=tmp_path)
    assert re.fullmatch(r"y: \d\.\d+\n", run("./a.out", cwd=tmp_path))


@pytest.mark.guarantee("Exported C", "C compiles without warnings under strict flags.")
@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("threads", [None, "openmp", "callback"])
def test_c_compiles_silently_under_strict_flags(
    tmp_path: Path, compiler: str, threads: str | None
) -> None:
    for graph in (mlp(), training_step(), scaled_rows(), lookup()):
        aot(graph, tmp_path, params=params_of(graph), threads=threads, emit_only=True)
        for flags in ([], ["-O3", "-fopenmp-simd"]):
            source = tmp_path / f"{graph.name}.c"
            command = (require(compiler), "-std=c11", *STRICT, *flags)
            run(*command, "-c", source, "-o", tmp_path / "out.o")
        run(*command, "-c", tmp_path / "main.c", "-o", tmp_path / "out.o")


EMPTY: dict[str, tuple[Callable[..., Any], tuple[int, int], tuple[int, int]]] = {
    "scaled": (lambda x, w: (x * 2, x.sum(0) + w), (0, 3), (3, 3)),
    "product": (lambda x, w: x @ w, (2, 0), (0, 3)),
    "joined": (lambda x, w: (x @ w, rlx.numpy.concatenate([w, w], 0)), (0, 2), (2, 0)),
    "passed": (lambda x, _: x, (0, 2), (2, 0)),
}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", EMPTY)
def test_extents_of_zero_compile_silently_and_run(tmp_path: Path, name: str, compiler: str) -> None:
    function, *shapes = EMPTY[name]
    inputs = [np.zeros(shape, np.float32) for shape in shapes]
    more = ["-Wrestrict"] if compiler == "gcc" else ["-Wtautological-unsigned-zero-compare"]
    for threads in (None, "callback"):
        aot(
            rlx.jit(function), tmp_path, name=name, example_inputs=inputs, param_argnums=(1,),
            weights="embed", threads=threads, emit_only=True,
        )  # fmt: skip
        flags = ["-std=c11", *STRICT, "-Wtype-limits", *more, "-O1"]
        run(require(compiler), *flags, "main.c", f"{name}.c", "-lm", cwd=tmp_path)
        assert run("./a.out", cwd=tmp_path).startswith("y")


@pytest.mark.guarantee("Exported C", "The header is valid C++.")
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_header_is_clean_cpp(tmp_path: Path, compiler: str) -> None:
    for threads in (None, "callback"):
        aot(scaled_rows(), tmp_path, threads=threads, emit_only=True)
        source = tmp_path / "use.cpp"
        source.write_text('#include "rows.h"\n#include "rows.h"\nint main() { return ROWS_OK; }\n')
        run(require(compiler), "-std=c++17", *STRICT, "-fsyntax-only", source)


@pytest.mark.guarantee(
    "Exported C",
    "Every symbol has the artifact's prefix, and no data is mutable.",
)
def test_every_symbol_has_the_prefix_and_no_data_is_mutable(step: Artifact) -> None:
    assert step.archive is not None
    lines = [line.split() for line in run("nm", step.archive).splitlines()]
    defined = [(words[1], words[2]) for words in lines if len(words) == 3]
    exported = [name for kind, name in defined if kind.isupper()]
    assert exported
    assert all(name.startswith("step_") for name in exported)
    assert not [name for kind, name in defined if kind in "bBcC"]
    rows = re.findall(r"^\.(data|bss)(\S*) +(\d+)", run("size", "-A", step.archive), re.MULTILINE)
    # Tables of pointers are constants in a section that a loader makes read-only.
    sizes = [int(size) for _, more, size in rows if not more.startswith(".rel.ro")]
    assert sizes
    assert sum(sizes) == 0


@pytest.mark.guarantee(
    "Exported C",
    "The library needs libm and the functions that copy and clear memory, nothing "
    "else: no allocation, no output.",
)
def test_library_needs_only_memory_functions_and_libm(step: Artifact) -> None:
    assert step.archive is not None
    needed = {
        line.split()[-1] for line in run("nm", "-u", step.archive).splitlines() if " U " in line
    }
    assert needed <= {"memcpy", "memset", "memmove", "fmaf", "sqrtf", "_GLOBAL_OFFSET_TABLE_"}


def test_library_of_a_training_step_is_small(step: Artifact) -> None:
    assert step.library is not None
    assert step.library.stat().st_size < 64 * 1024


@pytest.mark.slow
def test_training_step_agrees_with_python_bit_for_bit(tmp_path: Path) -> None:
    graph, rng = training_step(), np.random.default_rng(1)
    params = params_of(graph)
    artifact = aot(graph, tmp_path, params=params, target="native")
    python = rlx_compile(graph, backend="c", threads=1, params=params)
    native = Loaded(
        artifact,
        "int step_load_weights(void *, const void *, size_t);"
        "int step_call(void *, const float *, const int64_t *, float *);",
    )
    assert artifact.weights is not None
    block = file_block(artifact.weights)
    assert native.call("init", native.arena, native.block.size) == 0
    weights = native.ffi.cast("void *", block.ctypes.data)
    assert native.call("load_weights", native.arena, weights, block.size) == 0
    assert native.call("setup", native.arena) == 0
    loss = np.zeros(1, np.float32)
    for _ in range(3):
        x = rng.standard_normal((32, 64), np.float32)
        labels = rng.integers(0, 10, 32)
        expected = python.run({"x": x, "labels": labels})
        given = native.pointer(x), native.pointer(labels, "int64_t *"), native.pointer(loss)
        assert native.call("call", native.arena, *given) == 0
        assert loss.tobytes() == expected[0].tobytes()
        for name, new in zip(("w1", "b1", "w2", "b2"), expected[1:], strict=True):
            assert native.view("params", name).tobytes() == new.tobytes()


@pytest.mark.parametrize("keep", ["embed", "argument", "file"])
def test_symbolic_extents_and_every_way_to_keep_params(tmp_path: Path, keep: str) -> None:
    graph = scaled_rows()
    params = params_of(graph)
    artifact = aot(graph, tmp_path, params=params, weights=keep)
    native = Loaded(
        artifact,
        "int rows_call(void *, int64_t, const float *, float *);"
        "int rows_load_weights(void *, const void *, size_t);",
    )
    assert native.call("init", native.arena, native.block.size) == 0
    if artifact.weights is not None:
        block = file_block(artifact.weights)
        pointer = native.ffi.cast("void *", block.ctypes.data)
        assert native.call("load_weights", native.arena, pointer, block.size) == 0
    if keep == "argument":
        native.view("params", "shift")[...] = params["shift"]
    assert native.call("setup", native.arena) == 0
    scale = np.linspace(-1, 1, 5, dtype=np.float32)
    for n in (0, 1, 16):
        x = np.arange(max(n, 1) * 5, dtype=np.float32).reshape(-1, 5)[:n]
        y = np.zeros(16, np.float32)
        assert native.call("call", native.arena, n, native.pointer(x), native.pointer(y)) == 0
        np.testing.assert_allclose(y[:n], n * (x * scale + params["shift"]).sum(1), rtol=1e-5)
    for n in (-1, 17):
        assert native.call("call", native.arena, n, native.ffi.NULL, native.ffi.NULL) == 4


@pytest.mark.guarantee("Exported C", "Two exports of one program are the same bytes.")
@pytest.mark.slow
def test_two_processes_in_two_directories_write_the_same_bytes(tmp_path: Path) -> None:
    script = (
        "import sys; from rlx.runtime.aot import aot; from tests.aot.programs import *;"
        "g = training_step(); aot(g, sys.argv[1], params=params_of(g), emit_only=True)"
    )
    root = Path(__file__).parents[2]
    for seed, directory in (("1", "one"), ("2", "two/deeper")):
        subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / directory)],
            env={"PYTHONPATH": str(root), "PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin"},
            check=True,
            timeout=600,
        )
    one, two = tmp_path / "one", tmp_path / "two" / "deeper"
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in two.iterdir())
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name
        assert str(tmp_path) not in (one / name).read_bytes().decode(errors="replace")


def test_two_artifacts_live_in_one_program(tmp_path: Path) -> None:
    for graph in (mlp("first"), mlp("second")):
        aot(graph, tmp_path, params=params_of(graph), weights="embed", emit_only=True)
    (tmp_path / "both.c").write_text(
        '#include "first.h"\n#include "second.h"\n'
        "int main(void) { return first_get_info()->tensor_count"
        " != second_get_info()->tensor_count; }\n"
    )
    run("cc", "both.c", "first.c", "second.c", "-lm", cwd=tmp_path)
    run("./a.out", cwd=tmp_path)


@pytest.mark.guarantee(
    "Exported C",
    "An artifact is clean under the address and undefined-behavior sanitizers.",
)
@pytest.mark.slow
def test_artifact_is_clean_under_sanitizers(tmp_path: Path, step: Artifact) -> None:
    assert step.weights is not None
    for path in (step.source, step.header, step.info_header, step.sample, step.weights):
        shutil.copy(path, tmp_path)
    flags = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    run("cc", *flags, "main.c", "step.c", "-lm", cwd=tmp_path)
    run("./a.out", cwd=tmp_path)


@pytest.mark.slow
def test_pkg_config_and_cmake_files_build_the_sample(tmp_path: Path, step: Artifact) -> None:
    words = run(require("pkg-config"), "--cflags", "--libs", step.directory / "step.pc").split()
    flags = [word.replace("${pcfiledir}", str(step.directory)) for word in words]
    run("cc", step.sample, *flags, f"-Wl,-rpath,{step.directory}", "-o", tmp_path / "sample")
    run(tmp_path / "sample", step.weights or "", cwd=tmp_path)
    run(require("cmake"), "-S", step.directory, "-B", tmp_path / "build")
    run("cmake", "--build", tmp_path / "build")


def test_line_directives_lead_a_debugger_to_the_program(tmp_path: Path) -> None:
    plain = aot(mlp(), tmp_path / "plain", emit_only=True)
    assert "#line" not in plain.source.read_text()
    artifact = aot(mlp(), tmp_path / "led", line_directives=True, emit_only=True)
    assert re.search(r'^#line \d+ ".*programs\.py"$', artifact.source.read_text(), re.MULTILINE)
    run("cc", "-std=c11", *STRICT, "-g", "-c", "mlp.c", cwd=artifact.directory)
    lines = run(require("objdump"), "--dwarf=decodedline", artifact.directory / "mlp.o")
    assert "programs.py" in lines
    assert "mlp.c" in lines


def test_outputs_of_a_function_are_called_as_in_its_result(tmp_path: Path) -> None:
    def outputs(function: Callable[[Any], Any], name: str) -> list[str]:
        x = np.ones(3, np.float32)
        artifact = aot(rlx.jit(function), tmp_path, name=name, example_inputs=(x,), emit_only=True)
        return [output["name"] for output in artifact.manifest["outputs"]]

    assert outputs(lambda x: {"sum": x.sum(), "parts": (x, -x)}, "a") == [
        "parts_0", "parts_1", "sum",
    ]  # fmt: skip
    assert outputs(lambda x: (x, {"slope": 2 * x}), "b") == ["y_0", "y_1_slope"]
    assert outputs(lambda x: {"only": 2 * x}, "c") == ["only"]
    assert outputs(lambda x: (2 * x,), "d") == ["y"]
