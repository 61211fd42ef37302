"""The pages that say where things are: short, and true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLACES = re.compile(r"`(rlx/[a-z_0-9/]+(?:\.py|/)?)`")
ONE_SCREEN = 72


@pytest.mark.whole
@pytest.mark.parametrize("page", ["architecture.md", "glossary.md", "loop_language.md"])
def test_every_place_that_a_page_names_is_there(page: str) -> None:
    named = PLACES.findall((ROOT / "docs" / page).read_text())
    assert named
    assert [place for place in named if not (ROOT / place).exists()] == []


def test_the_architecture_is_one_screen() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text().splitlines()) <= ONE_SCREEN
