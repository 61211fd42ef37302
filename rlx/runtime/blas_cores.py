"""Which of its kernels OpenBLAS should run: those that are fastest where it does not know the CPU.

Its detection falls back to Haswell kernels on AMD CPUs with AVX-512: at half the speed of wider
ones on Zen 5, and the fastest on Zen 4, whose units are half as wide. Its core type can be set,
but a build need not contain that one, and then it chooses again. So each is tried in a
process of its own, on a small product, and the fastest is kept in the cache.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlx.homes import later
from rlx.runtime.cache import Cache, cache_directory, content_key
from rlx.target import Target

if TYPE_CHECKING:
    import subprocess
else:
    (subprocess,) = later("subprocess")

_AVX512 = ("avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd")
_TRIAL = Path(__file__).with_name("blas_trial.py")
_TIMEOUT_SECONDS = 30
DETECTED = ""
"""The core type that OpenBLAS finds by itself."""


def core_types(target: Target) -> tuple[str, ...]:
    """Return the core types worth a trial on `target`; none where detection can be trusted."""
    if target.vendor != "AuthenticAMD" or not all(map(target.has, _AVX512)):
        return ()
    newest = ("COOPERLAKE",) if target.has("avx512bf16") else ()
    return (*newest, "SKYLAKEX", DETECTED, "HASWELL")


def fastest_core_type(library: Path, target: Target, candidates: tuple[str, ...]) -> str:
    """Return the core type with which `library` is fastest on this machine, `target`."""
    status = library.stat()
    identity = (str(library), str(status.st_size), str(status.st_mtime_ns))
    key = content_key("core type", target.cpu, *identity, *candidates)

    def make(path: Path) -> None:
        speeds = {core: gflops(library, core) for core in candidates}
        best = max(speeds, key=lambda core: speeds[core])
        path.write_text(best if speeds[best] else DETECTED, encoding="utf-8")  # none could run

    return Cache(cache_directory()).fetch(key, ".core", make).read_text(encoding="utf-8")


@functools.cache
def gflops(library: Path, core_type: str) -> float:
    """Return the speed of a small product with the kernels for `core_type`; 0 if it cannot run."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    environment.pop("OPENBLAS_CORETYPE", None)
    if core_type:
        environment["OPENBLAS_CORETYPE"] = core_type
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_TRIAL), str(library)],
            env=environment, capture_output=True, text=True, check=True, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
        return float(done.stdout.split()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 0.0
