"""Which tests a run takes: a share of each test's cases, and no sample next to all slow cases."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.selection import costly_rest, drawn, idle_samples, not_drawn

ROOT = Path(__file__).parents[1]


def item(name: str, mark: pytest.MarkDecorator | None = None) -> Any:
    marks = {} if mark is None else {mark.name: mark.mark}
    return SimpleNamespace(nodeid=name, get_closest_marker=marks.get)


SAMPLE = item("test.py::a[0]", pytest.mark.sample(count=2))
SLOW = [item(f"test.py::a[{i}]", pytest.mark.slow) for i in (1, 2)]
OTHERS = [item("test.py::b[1]", pytest.mark.slow), item("test.py::b[2]", pytest.mark.slow)]
MANY = [item(f"test.py::many[{i}]") for i in range(10)]
ALONE = item("test.py::alone")
WHOLE = [item(f"test.py::whole[{i}]", pytest.mark.whole) for i in range(10)]


@pytest.mark.parametrize(
    ("items", "is_left_out"),
    [
        ([SAMPLE, *SLOW], True),
        ([SAMPLE, SLOW[0]], False),
        ([SAMPLE, *OTHERS], False),
        ([SAMPLE], False),
    ],
)
def test_a_sample_is_left_out_where_all_slow_cases_run(items: list[Any], is_left_out: bool) -> None:
    assert idle_samples(items) == ([SAMPLE] if is_left_out else [])


@pytest.mark.parametrize("by", ["3c5f", "91aa", "none"])
def test_a_draw_takes_a_share_of_every_test_and_never_none(by: str) -> None:
    out = not_drawn([*MANY, *WHOLE, ALONE], 4, by)
    assert len(out) == 7  # a fourth of ten is three
    assert all(each in MANY for each in out)
    assert not not_drawn([*MANY, ALONE], 1, by)
    assert len(not_drawn([*MANY, *WHOLE, ALONE], 4, by, brief=True)) == 14


def test_a_share_leaves_out_costly_and_slow_cases_alone() -> None:
    costly = [item(f"test.py::costly[{i}]", pytest.mark.costly(4)) for i in range(10)]
    out = costly_rest([*MANY, *costly, ALONE, *SLOW], "3c5f")
    assert sum(each in costly for each in out) == 7
    assert sum(each in SLOW for each in out) == 1  # one in four of two is one
    assert len(out) == 8


def test_a_draw_depends_on_the_commit_alone_and_commits_draw_all() -> None:
    names = [each.nodeid for each in MANY]
    assert drawn(names, 4, "3c5f") == drawn(names[::-1], 4, "3c5f")
    commits = [f"{number:04x}" for number in range(60)]
    assert set().union(*(drawn(names, 4, commit) for commit in commits)) == set(names)


def test_tests_of_one_file_draw_the_same_cases() -> None:
    one, other = ({f"test.py::{test}[{i}]" for i in range(10)} for test in ("one", "other"))
    assert {name.replace("one", "other") for name in drawn(one, 4, "3c5f")} == drawn(
        other, 4, "3c5f"
    )


def collected(*options: str) -> tuple[list[str], str]:
    """Return the cases of a file that a run with `options` would take, and what it says."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "--collect-only", "-q"]
    done = subprocess.run(
        [*command, "tests/test_selection.py", *options],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    return re.findall(r"^tests/\S+", done.stdout, re.MULTILINE), done.stdout + done.stderr


@pytest.mark.slow
def test_the_option_draws_says_so_and_can_be_repeated() -> None:
    every, _ = collected()
    some, text = collected("--draw", "3", "--drawn-by", "3c5f")
    assert set(some) == drawn_of_all(every, 3, "3c5f")
    assert len(some) < len(every)
    assert "one in 3 of each test's cases, drawn by 3c5f" in text
    assert "--draw 0" in collected("--draw", "0")[1]


def test_a_share_says_so() -> None:
    assert (
        "a share of costly and slow cases, drawn by 3c5f"
        in collected("--share", "--drawn-by", "3c5f")[1]
    )


def drawn_of_all(names: list[str], among: int, by: str) -> set[str]:
    tests = {name.partition("[")[0] for name in names}
    groups = ([n for n in names if n.partition("[")[0] == test] for test in sorted(tests))
    return set().union(*(drawn(group, among, by) for group in groups))
