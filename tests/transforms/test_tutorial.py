"""The tutorial's code runs as it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def blocks() -> list[tuple[int, str]]:
    """Return the Python blocks with the numbers of their first lines."""
    text = TUTORIAL.read_text()
    found = re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match.group(1)) for match in found]


def test_every_block_of_the_tutorial_runs(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "tutorial"}
    for line, code in blocks():
        padded = "\n" * line + code  # so that a failure names the line of the document
        exec(compile(padded, str(TUTORIAL), "exec"), names)
    assert "where" in capsys.readouterr().out
