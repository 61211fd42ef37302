"""Artifacts in plain C99, and what both kinds of C give with any compiler."""

from __future__ import annotations

import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.runtime.aot import Artifact, aot
from tests.aot.building import STRICT, needs_compiler, require, run, untimed
from tests.aot.programs import (
    encoder_layer,
    mlp,
    params_of,
    scaled_rows,
    splat_step,
    training_step,
)

pytestmark = needs_compiler
EXTENSIONS = ("__attribute__", "__builtin", "_Alignas", "vector_size", "fma")
MATH = ("-ffp-contract=off",)


def solves(name: str = "solves") -> Graph:
    """Batched systems: a kernel that works on several at a time where there are vectors."""
    g = Graph(name)
    a, b = g.input("a", (6, 3, 3)), g.input("b", (6, 3, 1))
    eye = g.constant(np.eye(3, dtype=np.float32) * 4)
    g.set_outputs([g.reduce_sum(g.solve(a + eye, b), axes=(1,))])
    return g


def odd_constants(name: str = "odd_constants") -> Graph:
    """Constants of few bytes before wide ones: the compiler pads where the kernels read."""
    g = Graph(name)
    x = g.input("x", (3,), "f64")
    mask = g.constant(np.array([True, False, True]))
    factor = g.constant(np.array([1 + 2j, 3 - 1j, 0.5j]))
    weights = g.constant(np.array([0.25, 4.0, -1.5]))
    product = g.complex(x, x) * factor
    g.set_outputs([g.where(mask, g.real(product), g.imag(product)) * weights])
    return g


PROGRAMS = (mlp, training_step, scaled_rows, encoder_layer, solves, odd_constants)


def export(
    make: Callable[[], Graph], directory: Path, vectors: str, target: str = "portable"
) -> Artifact:
    graph = make()
    params = params_of(graph)
    return aot(
        graph, directory, params=params, weights="embed", vectors=vectors, math="none",
        emit_only=True, target=target,
    )  # fmt: skip


def dumping(artifact: Artifact) -> Path:
    """Return the sample program, made to print the bits of its first output."""
    text = artifact.sample.read_text()
    y = artifact.manifest["outputs"][0]["name"]
    loop = (
        f"  for (size_t i = 0; i < {artifact.name.upper()}_{y.upper()}_BYTES; ++i) {{\n"
        f'    printf("%02x", ((unsigned char *){artifact.name}_arena_{y}(arena))[i]);\n  }}\n'
    )
    path = artifact.directory / "dump.c"
    path.write_text(untimed(text, loop))
    return path


def outputs(artifact: Artifact, *commands: tuple[str, ...]) -> Iterator[str]:
    """Yield what the sample prints, built by each of the commands."""
    dump = dumping(artifact)
    for command in commands:
        run(*command, dump.name, artifact.source.name, "-o", "dump", cwd=artifact.directory)
        yield run("./dump", cwd=artifact.directory)


@pytest.mark.parametrize("make", PROGRAMS)
def test_plain_c_is_c99_without_extensions(tmp_path: Path, make: Callable[[], Graph]) -> None:
    artifact = export(make, tmp_path, "none")
    text = artifact.source.read_text()
    theirs = r"#if(def| defined\()? ?(__NO_MATH_ERRNO__|__GNUC__).*?#(else|endif)"  # GCC and clang
    text = re.sub(theirs, "", text, flags=re.DOTALL)
    assert not [word for word in EXTENSIONS if word in text]
    for compiler in filter(shutil.which, ("gcc", "clang")):
        run(compiler, "-std=c99", *STRICT, "-O2", "-c", artifact.source, "-o", tmp_path / "out.o")


@pytest.mark.parametrize("make", [mlp, training_step, solves])
def test_a_small_compiler_takes_plain_c(tmp_path: Path, make: Callable[[], Graph]) -> None:
    artifact = export(make, tmp_path, "none")
    by_tcc, by_cc = outputs(artifact, (require("tcc"),), ("cc", "-std=c99", "-O3", *MATH))
    assert by_tcc == by_cc


@pytest.mark.parametrize(("make", "vectors"), list(itertools.product(PROGRAMS, ("auto", "none"))))
def test_one_source_gives_the_same_bits_at_every_level(
    tmp_path: Path, make: Callable[[], Graph], vectors: str
) -> None:
    artifact = export(make, tmp_path, vectors)
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]
    levels = [("-O0",), ("-O3", "-march=native", "-fopenmp-simd", *MATH)]
    commands = [(name, *level) for name in compilers for level in levels]
    assert len(set(outputs(artifact, *commands))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("make", PROGRAMS)
def test_code_for_this_machine_gives_the_same_bits_at_every_level(
    tmp_path: Path, make: Callable[[], Graph]
) -> None:
    artifact = export(make, tmp_path, "auto", "native")
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]
    levels = ("-O0", "-O3", "-O3 -fopenmp-simd")
    commands = [
        (name, *level.split(), "-march=native", *MATH) for name in compilers for level in levels
    ]
    assert len(set(outputs(artifact, *commands))) == 1


LEVELS = ("-O0", "-O1", "-O2", "-O3", "-Os", "-O3 -march=native")


@pytest.mark.guarantee(
    "Results",
    "One exported file has the same bits from every compiler at every optimization level.",
)
@pytest.mark.slow
def test_every_compiler_and_level_gives_the_same_bits(tmp_path: Path) -> None:
    artifact = export(mlp, tmp_path, "auto")
    compilers = [name for name in ("gcc", "clang") if shutil.which(name)] or ["cc"]
    commands = [(name, *level.split()) for name in compilers for level in LEVELS]
    assert len(set(outputs(artifact, *commands))) == 1


@pytest.mark.slow
def test_vectors_need_no_shuffles_of_new_compilers(tmp_path: Path) -> None:
    """GCC before 12 lacks `__builtin_shufflevector`: there lanes are picked one by one."""
    artifact = export(encoder_layer, tmp_path, "auto")
    assert "__builtin_shufflevector" in artifact.source.read_text()
    old = ("-U__GNUC__", "-D__GNUC__=11", "-U__clang__")
    new, picked = outputs(artifact, ("gcc", "-O2"), ("gcc", "-O2", *old))
    assert new == picked


@pytest.mark.parametrize("make", [encoder_layer, pytest.param(splat_step, marks=pytest.mark.slow)])
def test_plain_results_agree_with_the_reference(tmp_path: Path, make: Callable[[], Graph]) -> None:
    graph = make()
    artifact = export(make, tmp_path, "none")
    (printed,) = outputs(artifact, ("cc", "-std=c99", *STRICT, "-O1"))
    found = np.frombuffer(bytes.fromhex(printed.splitlines()[-1]), np.float32)
    shape = graph.inputs[0].type.static_shape
    x = (np.arange(np.prod(shape)) % 7).astype(np.float32) / np.float32(7)
    expected = evaluate(graph, {**params_of(graph), "x": x.reshape(shape)})[0]
    np.testing.assert_allclose(found, expected.reshape(-1), rtol=2e-4, atol=2e-5)


def test_unknown_choices_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="unknown vectors 'some'"):
        aot(mlp(), tmp_path, vectors="some", emit_only=True)
    with pytest.raises(UnsupportedError, match="unknown optimize 'much'"):
        aot(mlp(), tmp_path, optimize="much", emit_only=True)
