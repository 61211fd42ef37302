"""Facts about this machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

from rlx.target import detect_target


def test_this_machine_has_cores_and_caches() -> None:
    target = detect_target()
    assert target.cores >= 1
    assert 0 < target.l1 <= target.l2 <= target.l3


def test_vector_width_follows_the_features() -> None:
    target = replace(detect_target(), architecture="x86_64", features=frozenset({"sse2"}))
    assert (target.vector_bytes, target.vector_registers) == (16, 16)
    avx = replace(target, features=frozenset({"sse2", "avx"}))
    assert (avx.vector_bytes, avx.lanes(4)) == (32, 8)
    wide = replace(target, features=frozenset({"avx", "avx512f"}))
    assert (wide.vector_bytes, wide.vector_registers, wide.lanes(8)) == (64, 32, 8)


def test_importing_the_runtime_loads_no_llvm() -> None:
    program = "import rlx.runtime.compile, sys; print('llvmlite' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout == "False\n", done.stderr
