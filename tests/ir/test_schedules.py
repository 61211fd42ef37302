"""Schedules as text: what is written reads back, and what is not a schedule is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.errors import FormatError
from rlx.ir.lowering import Schedule
from rlx.ir.schedules import Schedules, parse_schedule

TILE = Schedule(rows=6, columns=32, lanes=16)
STREAM = Schedule(3, 16, 16, order=("batch", "panels", "rows"), depth=2, left="registers")


def test_a_file_of_schedules_reads_as_it_was_written(tmp_path: Path) -> None:
    given = Schedules.of({"up": TILE, "matmul(f32[2, 3], param f32[3, 4])": STREAM})
    given.save(tmp_path / "model.schedules")
    assert Schedules.load(tmp_path / "model.schedules") == given
    assert dict(given)["up"] == TILE


def test_defaults_are_left_out_and_comments_are_skipped() -> None:
    assert str(Schedules.of({"up": TILE})) == "up = schedule(rows = 6, columns = 32, lanes = 16)\n"
    text = "# measured\n\nup = schedule(rows = 6, columns = 32, lanes = 16)\n"
    assert Schedules.parse(text) == Schedules.of({"up": TILE})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("up = tile(rows = 4)", "line 1 is not a schedule"),
        ("up = schedule(rows = 4, height = 2)", "height"),
        ("up = schedule(rows = 4) and more", "the end of the text"),
        ("up", "line 1 is not a schedule"),
    ],
)
def test_what_is_no_schedule_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(FormatError, match=complaint):
        Schedules.parse(text)


def test_another_record_is_no_schedule() -> None:
    with pytest.raises(FormatError, match="is not a schedule"):
        parse_schedule("windowed(lanes = 4)")
