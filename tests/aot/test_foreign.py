"""Artifacts of programs that call functions from outside: C is linked by name, Python refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.errors import UnsupportedError
from rlx.ir.graph import Graph
from rlx.runtime.aot import aot
from tests.aot.building import STRICT, needs_compiler, run

TARGET = """
#include "called.h"

int32_t outer_add(const float *a, const float *b, float *y, const int64_t *shapes,
                  const uint8_t *attributes, int64_t attribute_bytes) {
  if (attribute_bytes != 3 || attributes[2] != 9) return 1;
  for (int64_t i = 0; i < shapes[4]; ++i) y[i] = a[i] + b[i];
  return a[0] > 90 ? 2 : 0;
}
"""
MAIN = """
#include <stdio.h>
#include "called.h"

static _Alignas(CALLED_ARENA_ALIGNMENT) unsigned char arena[CALLED_ARENA_BYTES];

int main(void) {
  float x[3] = {1, 2, 3}, y[3];
  if (called_init(arena, sizeof arena) || called_setup(arena)) return 1;
  if (called_call(arena, x, y)) return 2;
  printf("%g %g %g\\n", (double)y[0], (double)y[1], (double)y[2]);
  x[0] = 99;
  puts(called_status_string(called_call(arena, x, y)));
  return 0;
}
"""


def _graph() -> Graph:
    rlx.ffi.register_ffi_target("outer_add", 4096)  # never called here
    graph = Graph("called")
    x = graph.input("x", (3,))
    total = graph.ffi_call(
        x, x * 2.0, target="outer_add", result_types=(x.type,), attributes=(1, 0, 9)
    )
    graph.set_outputs([total[0] + 1.0])
    return graph


@needs_compiler
@pytest.mark.parametrize("backend", ["c", "llvm"])
def test_the_integrator_links_the_function_that_the_header_declares(
    tmp_path: Path, backend: str
) -> None:
    artifact = aot(_graph(), tmp_path, backend=backend)
    header = (tmp_path / "called.h").read_text()
    assert "extern int32_t outer_add( const float *, const float *, float *" in " ".join(
        header.split()
    )
    (tmp_path / "target.c").write_text(TARGET)
    (tmp_path / "own.c").write_text(MAIN)
    assert artifact.archive is not None
    around = ["called_api.c"] if backend == "llvm" else []
    sources = ["own.c", "target.c", *around]
    run("cc", "-O1", *STRICT, *sources, artifact.archive, "-lm", cwd=tmp_path)
    shown = run("./a.out", cwd=tmp_path).splitlines()
    assert shown == ["4 7 10", "a function from outside returned an error"]


def test_a_python_function_cannot_be_exported(tmp_path: Path) -> None:
    f = rlx.jit(lambda x: rlx.pure_callback(np.sin, x, x))
    with pytest.raises(UnsupportedError, match=r"sin_\d+(.|\n)*register_ffi_target"):
        aot(f, tmp_path, example_inputs=[np.ones(3)], emit_only=True)
