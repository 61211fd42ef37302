"""Artifacts of programs with ops that their author wrote in C: the C goes with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from rlx.codegen.c.sources import SOURCES
from rlx.codegen.kernels.registry import KERNELS
from rlx.custom import define_op
from rlx.ir.graph import Graph
from rlx.ir.op import OPS, OpDef
from rlx.ir.types import TensorType
from rlx.runtime.aot import aot
from tests.aot.building import STRICT, Loaded, needs_compiler, run

SOURCE = """
void own_scale(const float *x, float *y, int64_t n, double factor) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = (float)factor * x[i];
  }
}
"""


def own_scale(x: TensorType, *, factor: float) -> TensorType:
    """`x` times `factor`."""
    assert factor != 0
    return x


@pytest.fixture(scope="module")
def scale() -> Iterator[OpDef]:
    yield define_op(own_scale, reference=lambda x, factor: x * factor, c_source=SOURCE)
    for table in (OPS, KERNELS, SOURCES):
        table.pop("own_scale")


def _graph(scale: OpDef, name: str = "scaled") -> Graph:
    graph = Graph(name)
    graph.set_outputs([scale(graph.input("x", (5,)), factor=3.0)])
    return graph


@needs_compiler
def test_the_source_is_in_the_artifact_and_is_called(tmp_path: Path, scale: OpDef) -> None:
    artifact = aot(_graph(scale), tmp_path)
    assert SOURCE.strip() in artifact.source.read_text()
    loaded = Loaded(artifact, "int scaled_call(void *, const float *, float *);")
    loaded.call("init", loaded.arena, artifact.arena_bytes)
    loaded.call("setup", loaded.arena)
    x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    assert loaded.call("call", loaded.arena, loaded.pointer(x), loaded.pointer(y)) == 0
    np.testing.assert_array_equal(y, 3 * x)


@needs_compiler
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_two_artifacts_with_the_same_op_link_into_one_program(
    tmp_path: Path, scale: OpDef, backend: str
) -> None:
    first, second = (aot(_graph(scale, name), tmp_path, backend=backend) for name in ("a", "b"))
    of_c = [str(artifact.source) for artifact in (first, second)]
    of_llvm = [file for name in "ab" for file in (f"{name}_api.c", f"lib{name}.a")]
    files = of_llvm if backend == "llvm" else of_c
    run("cc", "-std=c11", *STRICT, "main.c", *files, "-lm", "-o", "both", cwd=tmp_path)
    run("./both", cwd=tmp_path)
