"""Wheel and source package: built, installed and tried where something is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rlx
from tools.check_packages import other_pythons

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "runs"), [("wheel", 1), ("source", 1), ("pythons", len(other_pythons()))]
)
def test_packages_build_install_and_run_without_llvmlite_and_without_a_compiler(
    kind: str, runs: int
) -> None:
    command = [sys.executable, str(ROOT / "tools" / "check_packages.py"), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"ok {rlx.__version__}") == runs
