"""Which of the collected tests a run takes: all, or a draw of each test's cases.

Many tests cross ops, dtypes, edges and flags: tens of thousands of cases. `--draw N` takes one in N
of each test's, at least one, so every test runs, and those that the commit drew: the next commit
draws others. Those of tests with the marker `whole` run all, unless `--brief` draws of them, too.
`--share` takes one in n of the cases with the marker `costly(n)`, one in four of the slow ones of
each test, and all of the others.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest


def current_commit() -> str:
    """Return the commit of this checkout; "none" where there is no repository."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:
        return "none"
    return done.stdout.strip() or "none"


def drawn(names: Iterable[str], among: int, by: str) -> set[str]:
    """Return one in `among` of a test's cases, at least one: which, depends on `by`.

    Tests of one file draw alike: cases of the same name share what a fixture makes for them.
    """

    def order(name: str) -> bytes:
        file, case = name.partition("::")[0], name.partition("[")[2]
        return hashlib.sha256(f"{by} {file} {case}".encode()).digest()

    ordered = sorted(names, key=order)
    return set(ordered[: -(-len(ordered) // among)])


def not_drawn(
    items: Sequence[pytest.Item], among: int, by: str, *, brief: bool = False
) -> list[pytest.Item]:
    """Return the items that a draw of one in `among` of each test's cases leaves out.

    Slow cases of a test are drawn by themselves.
    """
    cases: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for item in items:
        if brief or not item.get_closest_marker("whole"):
            is_slow = item.get_closest_marker("slow") is not None
            cases[_test_of(item), is_slow].append(item.nodeid)
    out = {name for names in cases.values() for name in {*names} - drawn(names, among, by)}
    return [item for item in items if item.nodeid in out]


def costly_rest(items: Sequence[pytest.Item], by: str) -> list[pytest.Item]:
    """Return the items that a share of costly and of slow cases leaves out."""
    costly: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item in items:
        costly[_test_of(item), _share(item)].append(item)
    out: list[pytest.Item] = []
    for (_, among), cases in costly.items():
        taken = drawn([case.nodeid for case in cases], among, by)
        out += [case for case in cases if case.nodeid not in taken]
    return out


def _share(item: pytest.Item) -> int:
    """Return n where one in n of the cases like `item` is a share."""
    mark = item.get_closest_marker("costly")
    if mark is not None:
        return int(mark.args[0])
    is_slow = item.get_closest_marker("slow") and not item.get_closest_marker("whole")
    return 4 if is_slow else 1


def idle_samples(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return each `sample(count=n)` of what the n slow cases of its test all do, if they run."""
    slow = Counter(_test_of(item) for item in items if item.get_closest_marker("slow"))
    marks = [(item, item.get_closest_marker("sample")) for item in items]
    return [i for i, mark in marks if mark and slow[_test_of(i)] == mark.kwargs["count"]]


def _test_of(item: pytest.Item) -> str:
    """Return the test's id without its case."""
    return item.nodeid.partition("[")[0]
