"""The table of what was wrong or slow once names tests and rows of the bench that exist."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import pytest

from bench.workloads import PROGRAMS, WORKLOADS
from tests.once_wrong import KEPT_SOUND, SLOW, STILL_ASKED, WRONG

ROWS = {row.name for row in WORKLOADS} | {row.name for row in PROGRAMS}


def is_there(name: str) -> bool:
    """True if a test, any test of a module, or a row of the bench has this name."""
    module, _, test = name.partition(":")
    if module == "bench":
        return test in ROWS
    found = vars(importlib.import_module(f"tests.{module}"))
    if test == "*":
        return any(each.startswith("test_") and callable(found[each]) for each in found)
    return test.startswith("test_") and callable(found.get(test))


@pytest.mark.parametrize("table", [WRONG, SLOW, KEPT_SOUND, STILL_ASKED])
def test_everything_that_was_wrong_once_is_held(table: Mapping[str, str]) -> None:
    missing = {
        item: name for item, held in table.items() for name in held.split() if not is_there(name)
    }
    assert missing == {}
    assert all(held.split() for held in table.values())
