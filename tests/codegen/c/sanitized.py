"""Compiling with sanitizers, and running a module of the tests under them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.codegen.c.native import COMPILERS, compile_strictly

_ROOT = Path(__file__).resolve().parents[3]
_FLAGS = ("-O0", "-fsanitize=address,undefined")
"""Without optimization no access is gone before it is watched; compiling takes half the time."""
_SILENT = (*_FLAGS, "-fsanitize-undefined-trap-on-error")
"""Every check is there, but none carries its words: a third less to compile."""
_TELLING = (*_FLAGS, "-g1", "-fno-sanitize-recover=all")


def run_sanitized(text: str, directory: Path, program: str, *arguments: str) -> str:
    """Compile `text`, call `program library arguments...` under it, return what it printed.

    What fails is compiled once more, with the words and lines of each check.
    """
    compiler = COMPILERS[0]
    runtime = _runtime(compiler)
    if runtime is None:
        pytest.skip("the compiler has no AddressSanitizer")
    failed = ""
    for flags in (_SILENT, _TELLING):
        library = compile_strictly(compiler, text, directory, flags)
        done = _run(runtime, program, str(library), *arguments)
        if done.returncode == 0 and not failed:
            return done.stdout
        failed = f"exit code {done.returncode}: {done.stderr[-5000:]}"
    pytest.fail(failed)


def _run(runtime: str, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime,
        "ASAN_OPTIONS": "detect_leaks=0",  # Python frees little at exit
        "PYTHONPATH": str(_ROOT),
    }
    return subprocess.run(
        [sys.executable, "-m", program, *arguments],
        capture_output=True, text=True, cwd=_ROOT, env=environment, timeout=600, check=False,
    )  # fmt: skip


def _runtime(compiler: str) -> str | None:
    """Return the sanitizer's library, which must be loaded before everything else."""
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    ).stdout.strip()
    return found if Path(found).is_absolute() else None
