"""Exported C and its sample program under cppcheck."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rlx.ir.graph import Graph
from rlx.runtime.aot import aot
from tests.aot.programs import encoder_layer, lookup, params_of, scaled_rows, training_step

EXPLAINED = {
    "bitwiseOnBoolean": "both sides of a check are cheap, and `|` takes no second branch",
    "shadowVariable": "the sample's `arena` comes after the header whose functions have one",
    "objectIndex": "tensors lie in one struct of constants, and kernels get where theirs begins",
    "unusedStructMember": "a tensor in that struct is reached by its offset, not by its name",
    "knownConditionTrueFalse": "a check for an extent of 0 in code that serves every extent",
}
"""What cppcheck says of correct code, and why that stays."""


def cppcheck() -> str:
    """Return the program, of the system or of the wheel next to Python, or skip the test."""
    beside = Path(sys.executable).parent / "cppcheck"
    found = shutil.which("cppcheck") or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.skip("cppcheck is not installed")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("target", ["portable", "cortex-m4"])
@pytest.mark.parametrize("make", [training_step, lookup, scaled_rows, encoder_layer])
def test_cppcheck_finds_nothing_that_is_not_explained(
    make: Callable[[], Graph], target: str, tmp_path: Path
) -> None:
    graph = make()
    artifact = aot(
        graph, tmp_path, params=params_of(graph), weights="embed", target=target, emit_only=True
    )
    done = subprocess.run(
        [cppcheck(), "--quiet", "--std=c11", "--enable=warning,style,performance,portability",
         "--template={id}: {file}:{line}: {message}", "--suppress=missingIncludeSystem",
         str(artifact.source), str(artifact.sample)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [line for line in done.stderr.splitlines() if re.match(r"\w+: /", line)]
    assert [line for line in found if line.split(":")[0] not in EXPLAINED] == []
