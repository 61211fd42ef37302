"""Every promise names tests and rows of the bench that exist."""

from __future__ import annotations

import ast
import functools
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
    found = names_in(module)
    return bool(found) if test == "*" else test in found


@functools.cache
def names_in(module: str) -> frozenset[str]:
    """Return the names of its tests, read and not imported: a peer that it needs may be missing."""
    path = Path(__file__).parent.parent.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        return frozenset()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    names = (node.name for node in body if isinstance(node, ast.FunctionDef))
    return frozenset(name for name in names if name.startswith("test_"))


@pytest.mark.parametrize("part", PARTS)
def test_tests_that_hold_a_promise_exist(part: str) -> None:
    held = {item: names.split() for table in tables(part).values() for item, names in table.items()}
    missing = {item: name for item, names in held.items() for name in names if not is_there(name)}
    assert held
    assert missing == {}
    assert all(held.values())
