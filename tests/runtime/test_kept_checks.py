"""Programs with checks are kept: what fails is said as by the process that compiled them."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.dataclass import dataclass
from rlx.errors import FailedCheckError
from rlx.ir import reports
from rlx.ir.digest import graph_digest
from rlx.jax.experimental.checkify import check
from rlx.runtime import compile as compile_module
from rlx.runtime.lower import lower_for

X = np.array([1, 2], np.float32)


def positive(x: Any) -> Any:
    check(rnp.all(x > 0), "{} is not positive", x[0])
    return x * 2


def small(x: Any) -> Any:
    check(rnp.all(x > -9), "{} is too small", x[0])
    check(rnp.all(x > 0), "{least} is small", least=x[0])
    return x * 2


def looped(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, c: positive(c) / 2, x)


@dataclass(frozen=True)
class Case:
    function: Callable[[Any], Any]
    factor: float
    """Of the argument that fails."""
    message: str


CASES = [
    Case(positive, -1, "-1.0 is not positive"),
    Case(small, -1, "-1.0 is small"),
    Case(small, -10, "-10.0 is too small"),
    Case(looped, -1, "-1.0 is not positive"),
]


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the graphs that were compiled."""
    names: list[str] = []

    def spy(graph: rlx.Graph, *args: Any, **options: Any) -> Any:
        names.append(graph.name)
        return lower_for(graph, *args, **options)

    monkeypatch.setattr(compile_module, "lower_for", spy)
    return names


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what forgets the numbers of reports, as a new process has none."""

    def forgotten() -> None:
        monkeypatch.setattr(reports, "_numbers", {})
        monkeypatch.setattr(reports, "_reports", [])

    return forgotten


def load(cases: list[Case]) -> list[Any]:
    """Trace the programs, and compile or load each."""
    compiled = [rlx.jit(case.function) for case in cases]
    for each in compiled:
        each(X)
    return compiled


def require_errors(cases: list[Case], compiled: list[Any]) -> None:
    for case, each in zip(cases, compiled, strict=True):
        with pytest.raises(FailedCheckError, match=case.message) as caught:
            each(X * np.float32(case.factor))
        assert caught.value.source is not None
        assert caught.value.source.file == __file__


@pytest.mark.parametrize("step", [1, -1])
def test_programs_with_checks_are_loaded_and_raise_their_own_messages(
    step: int, lowered: list[str], forget: Callable[[], None]
) -> None:
    require_errors(CASES, load(CASES))
    lowered.clear()
    forget()
    again = CASES[::step]
    compiled = load(again)
    assert not lowered
    require_errors(again, compiled)


def test_threads_load_programs_with_checks(lowered: list[str], forget: Callable[[], None]) -> None:
    load(CASES)
    lowered.clear()
    forget()
    started, failed = threading.Barrier(2), list[BaseException]()
    loaded: list[list[Any]] = []

    def run(cases: list[Case]) -> None:
        try:
            started.wait(60)
            compiled = load(cases)
            loaded.append(compiled)
            require_errors(cases, compiled)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(CASES[::step],)) for step in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    assert len(loaded) == 2


def _run_alone(directory: str, step: int) -> None:
    os.environ["RLX_CACHE_DIR"] = directory
    require_errors(CASES[::step], load(CASES[::step]))


@pytest.mark.slow
def test_processes_share_programs_with_checks(cache: Path) -> None:
    context = multiprocessing.get_context("spawn")
    counts = []
    for step in (1, -1):
        worker = context.Process(target=_run_alone, args=(str(cache), step))
        worker.start()
        worker.join(60)
        assert worker.exitcode == 0
        counts.append(len(list(cache.glob("??/*.rlxi"))))
    assert counts == [3, 3]


def checking(*messages: str) -> rlx.Graph:
    def checked(x: Any) -> Any:
        for message in messages:
            check(rnp.all(x > 0), message)
        return x

    return rlx.jit(checked).graph(X)


def test_a_digest_has_messages_and_not_the_order_of_reports(forget: Callable[[], None]) -> None:
    first = graph_digest(checking("a"))
    other = graph_digest(checking("b"))
    forget()
    assert graph_digest(checking("b")) == other
    assert graph_digest(checking("a")) == first
    assert first is not None
    assert (
        len({first, other, graph_digest(checking("a", "b")), graph_digest(checking("b", "a"))}) == 4
    )


def test_a_digest_says_which_checks_share_a_report() -> None:
    def twice(x: Any) -> Any:
        check(rnp.all(x > 0), "a")
        check(rnp.all(x > 0), "a")
        return x

    assert graph_digest(rlx.jit(twice).graph(X)) != graph_digest(checking("a", "a"))


def test_a_graph_with_the_number_of_another_process_has_no_digest(
    forget: Callable[[], None],
) -> None:
    graph = checking("a")
    forget()
    assert graph_digest(graph) is None
