"""Exported C breaks no rule of MISRA C:2012 that the documentation has no reason for."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import rlx
from bench.embedded import control
from tests.aot.test_cppcheck import cppcheck

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
