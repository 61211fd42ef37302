"""Exported C under cppcheck, and under its rules of MISRA C:2012 but those with a reason."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rlx
from bench.embedded import control
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
    installed = Path(sys.executable).parent / "cppcheck"
    found = shutil.which("cppcheck") or (str(installed) if installed.exists() else None)
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


PAGE = Path(__file__).parents[2] / "docs" / "embed_in_c.md"


def explained() -> set[str]:
    """Return the rules of the page's table."""
    section = PAGE.read_text().split("### MISRA C:2012")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d., ]+) \|", section, re.MULTILINE)
    return {rule for row in rows for rule in row.split(", ")}


@pytest.mark.slow
def test_every_rule_that_a_filter_breaks_has_a_reason(tmp_path: Path) -> None:
    artifact = rlx.aot(
        rlx.jit(control.kalman_filter), tmp_path, name="kalman", target="cortex-m4", math="none",
        example_inputs=control.FILTER_INPUTS, emit_only=True,
    )  # fmt: skip
    done = subprocess.run(
        [cppcheck(), "--quiet", "--std=c11", "--enable=style", "--addon=misra",
         "-D__GNUC__=12", "-D__STDC_HOSTED__=1", "-U__clang__", str(artifact.source)],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    found = set(re.findall(r"misra-c2012-([\d.]+)\]", done.stderr))
    assert "15.5" in found, done.stderr
    assert found <= explained()
