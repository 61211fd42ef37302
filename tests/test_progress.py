"""The line that says how far a compilation is."""

from __future__ import annotations

import io
import time
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from rlx import progress
from rlx.ir.graph import Graph
from rlx.progress import showing, stage
from rlx.runtime.compile import compile


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 30
        while text not in self.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.001)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal on which lines are written at once."""
    found = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "_PERIOD", 0.001)
    monkeypatch.delenv("RLX_PROGRESS", raising=False)
    return found


def test_the_line_says_the_stage_and_how_much_of_it_is_done(terminal: Terminal) -> None:
    with showing("step"):
        stage("kernels", 3, 40)
        terminal.wait_for("rlx: step: kernels, 3 of 40")
        with showing("inner"):
            stage("machine code")
            terminal.wait_for("rlx: step: machine code")
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_nothing_is_shown_of_a_short_compilation(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 1000.0)
    with showing("step"):
        stage("kernels", 3, 40)
    assert terminal.getvalue() == ""


@pytest.mark.parametrize("reason", ["variable", "file"])
def test_nothing_is_shown_where_it_is_off_or_no_terminal(
    reason: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason == "variable":
        monkeypatch.setenv("RLX_PROGRESS", "0")
    else:
        monkeypatch.setattr(terminal, "isatty", lambda: False)
    with showing("step"):
        stage("kernels", 3, 40)
        assert progress._state.display is None
    assert terminal.getvalue() == ""


class Recorder(progress._Display):
    said: ClassVar[list[str]] = []

    def __setattr__(self, name: str, value: object) -> None:
        if name == "text" and value:
            self.said.append(str(value))
        super().__setattr__(name, value)


@pytest.mark.usefixtures("terminal")
def test_compilations_name_their_stages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(progress, "_Display", Recorder)
    monkeypatch.setattr(Recorder, "said", [])
    monkeypatch.setenv("RLX_DUMP", str(tmp_path))  # compiled although it may be in the cache
    graph = Graph("step")
    graph.set_outputs([graph.sin(graph.input("x", (3,)))])
    compile(graph, backend="llvm")
    assert any(text.startswith("pass fuse, ") for text in Recorder.said)
    assert Recorder.said[-2:] == ["kernels, 1 of 1", "machine code"]
