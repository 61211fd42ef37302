"""A process loads what its program needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import numpy as np
import rlx
import rlx.numpy as rnp

def step(w, x):
    return w - 0.1 * rlx.grad(lambda w: rnp.sum(rnp.tanh(x @ w)))(w)

step = rlx.jit(step, backend="llvm")
step(np.ones((3, 16), np.float32), np.ones((8, 3), np.float32))
print(*[name for name in sys.argv[1:] if name in sys.modules])
"""
UNUSED = (
    *("jinja2", "rlx.codegen.c.emit", "rlx.runtime.dump", "rlx.onnx", "rlx.gguf", "rlx.scipy"),
    *("rlx.numpy.linalg", "rlx.numpy.fft", "rlx.numpy.sorting", "rlx.numpy.indexing"),
)


def test_a_program_for_llvm_loads_no_printer_of_c_and_no_other_front_end(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    environment = {"RLX_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    loaded = subprocess.run(
        [sys.executable, "-c", PROGRAM, *UNUSED],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert loaded.stdout.split() == []
