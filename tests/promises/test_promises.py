"""Every promise names tests and rows of the bench that exist."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.onnx_models import CASES as MODELS
from bench.workloads import PROGRAMS, WORKLOADS

ROWS = {row.name for row in WORKLOADS} | {row.name for row in PROGRAMS} | set(MODELS)
PARTS = sorted(
    module.name
    for module in pkgutil.iter_modules([str(Path(__file__).parent)])
    if not module.name.startswith("test_")
)


def tables(part: str) -> dict[str, Mapping[str, str]]:
    """Return the tables of a part by their names."""
    module = importlib.import_module(f"tests.promises.{part}")
    return {
        name: table
        for name, table in vars(module).items()
        if name.isupper() and not name.startswith("_") and isinstance(table, Mapping)
    }


def is_there(name: str) -> bool:
    """True if a test, any test of a module, or a row of the bench has this name."""
    module, _, test = name.partition(":")
    if module == "bench":
        return test in ROWS
    found = vars(importlib.import_module(f"tests.{module}"))
    if test == "*":
        return any(each.startswith("test_") and callable(found[each]) for each in found)
    return test.startswith("test_") and callable(found.get(test))


@pytest.mark.parametrize("part", PARTS)
def test_tests_that_hold_a_promise_exist(part: str) -> None:
    held = {item: names.split() for table in tables(part).values() for item, names in table.items()}
    missing = {item: name for item, names in held.items() for name in names if not is_there(name)}
    assert held
    assert missing == {}
    assert all(held.values())
