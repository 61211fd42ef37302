"""Compiling with sanitizers, and running a module of the tests under them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.c.native import COMPILERS, compile_strictly

_ROOT = Path(__file__).resolve().parents[3]
_FLAGS = ("-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""Without optimization no access is gone before it is watched; compiling takes half the time."""


def run_sanitized(text: str, directory: Path, program: str, *arguments: str) -> str:
    """Compile `text`, call `program library arguments...` under it, return what it printed."""
    compiler = COMPILERS[0]
    runtime = _runtime(compiler)
    if runtime is None:
        pytest.skip("the compiler has no AddressSanitizer")
    library = compile_strictly(compiler, text, directory, _FLAGS)
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python frees little at exit
        "PYTHONPATH": str(_ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-m", program, str(library), *arguments],
        capture_output=True, text=True, cwd=_ROOT, env=environment, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5000:]
    return done.stdout


def _runtime(compiler: str) -> str | None:
    """Return the sanitizer's library, which must be loaded before everything else."""
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=False
    ).stdout.strip()
    return found if Path(found).is_absolute() else None
