"""Options and fixtures of all tests."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.selection import costly_rest, current_commit, idle_samples, not_drawn

# Hundreds of tests start a Python that imports rlx. Without bytecode, as some container images
# have it, each compiles nine hundred modules first: 1.5 s of CPU, with it 0.5.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# The machine code that a test names: no first tier answers for it, and none is made in vain.
os.environ["RLX_WAIT"] = "1"

_GOLDEN = Path(__file__).parent / "codegen" / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files")
    words = "run one in N of each test's cases, at least one, drawn by the commit"
    parser.addoption("--draw", type=int, default=1, metavar="N", help=words)
    words = "draw the cases with the marker whole, too"
    parser.addoption("--brief", action="store_true", help=words)
    words = "run one in n of the cases with the marker costly(n), one in four slow ones, all others"
    parser.addoption("--share", action="store_true", help=words)
    parser.addoption("--drawn-by", metavar="WORD", help="draw by this instead of the commit")


def pytest_configure(config: pytest.Config) -> None:
    """Name what draws before pytest-xdist hands the options on: all processes draw the same."""
    if config.option.draw < 1:
        raise pytest.UsageError(f"--draw {config.option.draw}: one in how many? 1 or more")
    if config.option.drawn_by is None:
        draws = config.option.draw > 1 or config.option.share
        config.option.drawn_by = current_commit() if draws else ""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse cases that come from a set: each process would collect them in another order."""
    for mark in metafunc.definition.iter_markers("parametrize"):
        if isinstance(mark.kwargs.get("argvalues", mark.args[-1]), set | frozenset):
            name = metafunc.definition.nodeid
            raise pytest.UsageError(f"{name}: parametrized by a set, whose order differs: sort it")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out samples of what runs whole, then what is not drawn."""
    idle = idle_samples(items)
    left = [item for item in items if item not in idle]
    option = config.option
    out = [*idle, *not_drawn(left, option.draw, option.drawn_by, brief=option.brief)]
    if option.share:
        out += costly_rest(left, option.drawn_by)
    if out:
        config.hook.pytest_deselected(items=out)
        gone = set(map(id, out))
        items[:] = [item for item in items if id(item) not in gone]


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say which share of the cases ran, and how to run it again, or all."""
    draw, by = config.option.draw, config.option.drawn_by
    if draw > 1:
        again = f"the same again: --draw {draw} --drawn-by {by}; all: make full"
        terminalreporter.write_line(f"one in {draw} of each test's cases, drawn by {by} ({again})")
    if config.option.share:
        again = f"the same again: --share --drawn-by {by}; all: make full"
        terminalreporter.write_line(
            f"a share of costly and slow cases, drawn by {by}; all others ({again})"
        )


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
