"""Generated code does not depend on the order of a process's sets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.properties.texts_of_programs import DRAWN


def printed(seed: int) -> list[str]:
    """Return what a process with this seed of hashes prints of each program."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.properties.texts_of_programs"],
        env={**os.environ, "PYTHONHASHSEED": str(seed)}, cwd=Path(__file__).parents[2],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.guarantee("Compiling", "Generated code is the same in every process.")
@pytest.mark.slow
def test_c_and_llvm_ir_are_the_same_under_any_seed_of_hashes() -> None:
    first, second = printed(1), printed(2)
    assert len(first) > DRAWN // 2
    assert first == second
