"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

# Hundreds of tests start a Python that imports rlx. Without bytecode, as some container images
# have it, each compiles nine hundred modules first: 1.5 s of CPU, with it 0.5.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_GOLDEN = Path(__file__).parent / "codegen" / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse cases that come from a set: each process would collect them in another order."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.kwargs.get("argvalues", mark.args[-1]), set | frozenset):
            name = metafunc.definition.nodeid
            raise pytest.UsageError(f"{name}: parametrized by a set, whose order differs: sort it")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out each `sample(count=n)` of what the n slow cases of its test all do, if they run."""
    slow = Counter(_test_of(item) for item in items if item.get_closest_marker("slow"))
    marks = [(item, item.get_closest_marker("sample")) for item in items]
    idle = [i for i, mark in marks if mark and slow[_test_of(i)] == mark.kwargs["count"]]
    if idle:
        config.hook.pytest_deselected(items=idle)
        items[:] = [item for item, _ in marks if item not in idle]


def _test_of(item: pytest.Item) -> str:
    """Return the test's id without its case."""
    return item.nodeid.partition("[")[0]


def pytest_collection_finish() -> None:
    """Keep Python's collector away from the tests themselves, which are millions of objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return `check(name, text)`: fail unless the golden file `name` holds exactly `text`."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = _GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"no golden {name}: run pytest --update-golden and review it"
        assert text == path.read_text()

    return check
