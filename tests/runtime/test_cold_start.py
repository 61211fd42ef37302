"""A process loads what its program needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlx.runtime.llvm_library import library_path

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


LOADS = """
import sys, threading
from rlx.runtime.llvm_library import load_early
load_early(32)
[thread.join() for thread in threading.enumerate() if thread.name == "rlx-llvm"]
print("rlx.codegen.llvm.binding" in sys.modules)
"""
COMPILES = """
import sys, numpy as np, rlx
from rlx.runtime import compile
compile.load_early = lambda size: print("early")
rlx.jit(lambda x: x + 1, backend="llvm")(np.ones(3, np.float32))
"""


def printed(code: str, cache: Path, threads: str = "2") -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "RLX_CACHE_DIR": str(cache),
            "RLX_NUM_THREADS": threads,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert not done.stderr
    return done.stdout.split()


def test_the_library_is_the_one_that_llvmlite_loads() -> None:
    ffi = pytest.importorskip("llvmlite.binding.ffi")
    path = library_path()
    if path is not None:  # there is none on Windows
        assert path.name == ffi.get_library_name()


def test_a_thread_loads_what_compiles(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    assert printed(LOADS, tmp_path) == [str(library_path() is not None)]


@pytest.mark.slow
def test_programs_that_are_compiled_load_it_early_if_they_may_use_threads(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    assert printed(COMPILES, tmp_path / "one", threads="1") == []
    assert printed(COMPILES, tmp_path / "two") == ["early"]
    assert printed(COMPILES, tmp_path / "two") == []  # from the cache
