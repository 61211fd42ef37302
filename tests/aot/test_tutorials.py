"""The tutorials, executed: their Python exports, their C compiles, and it prints what they say."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tests.aot.building import needs_compiler, run

pytestmark = needs_compiler
DOCS = Path(__file__).parents[2] / "docs"


def execute(page: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, object]:
    """Run a page's blocks in order; return what its last command printed, and its variables."""
    monkeypatch.chdir(directory)
    names: dict[str, object] = {}
    output = ""
    for language, text in re.findall(r"```(\w+)\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        if language == "python":
            exec(compile(text, page, "exec"), names)
        elif language == "c":
            (directory / "build" / "program.c").write_text(text)
        else:
            for line in text.strip().splitlines():
                output = run(*shlex.split(line), cwd=directory / "build")
    return output, names


def test_embed_in_c_prints_what_python_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, names = execute("embed_in_c.md", tmp_path, monkeypatch)
    assert isinstance(names, dict)
    x = np.array([[0, 1], [1, 0], [-1, 0], [0, -1]], np.float32)
    expected = names["classify"](names["weights"], x)
    given = [[float(word) for word in line.split()] for line in output.splitlines()]
    np.testing.assert_allclose(given, expected, atol=1e-5)


def test_train_on_device_finds_the_coefficients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, _ = execute("train_on_device.md", tmp_path, monkeypatch)
    assert output == "1.00 -2.00 3.00 0.50\n"
    assert output.strip() in (DOCS / "train_on_device.md").read_text()
