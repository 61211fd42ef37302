"""The page of guarantees is what the markers at the tests state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import list_guarantees


def test_the_page_of_guarantees_is_up_to_date() -> None:
    assert list_guarantees.PAGE.read_text(encoding="utf-8") == list_guarantees.page()


def test_every_guarantee_is_stated_once() -> None:
    sentences = [entry.sentence for entry in list_guarantees.guarantees()]
    assert len(sentences) > 20
    assert len(set(sentences)) == len(sentences)


def test_a_marker_of_an_unknown_area_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_guarantees, "ROOT", tmp_path)
    (tmp_path / "test_x.py").write_text(
        '@pytest.mark.guarantee("Weather", "It is sunny.")\ndef test_x(): pass\n'
    )
    with pytest.raises(ValueError, match="'Weather' is none of the areas"):
        list_guarantees.guarantees(tmp_path)
