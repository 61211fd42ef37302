"""Every Python block of the README and the documentation runs, top to bottom."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.language.tiny import random_weights, write_model

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_PROGRAMS = {"add_an_op.md"}
"""Pages whose blocks are excerpts of rlx itself."""


def blocks(page: Path, language: str = "python") -> list[str]:
    pattern = rf"^```{language}\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if page.name in NOT_PROGRAMS:
        return
    if "model.gguf" in page.read_text():
        write_model(tmp_path / "model.gguf", "llama", random_weights(), packed=True)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, block in enumerate(blocks(page)):
        exec(compile(block, f"{page.name}[{number}]", "exec"), namespace)
    if page.name == "README.md":
        shown = blocks(page, "c")
        assert shown
        written = (tmp_path / "build" / "mlp.c").read_text()
        for block in shown:
            assert block in written


@pytest.mark.whole
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"


@pytest.mark.whole
@pytest.mark.parametrize(
    "page", [*PAGES, *sorted((ROOT / "bench" / "results").glob("*.md"))], ids=lambda page: page.name
)
def test_lines_of_a_page_are_wrapped_and_cells_are_short(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    lines = prose.splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []
    cells = [cell for line in lines if line.startswith("|") for cell in line.split("|")]
    assert [cell for cell in cells if len(cell.strip()) > 170] == []
