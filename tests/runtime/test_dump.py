"""`RLX_DUMP=dir` writes every stage."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlx.errors import Source
from rlx.ir.graph import Graph
from rlx.runtime.compile import compile


def test_every_stage_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLX_DUMP", str(tmp_path / "stages"))
    g = Graph("dumped")
    g.set_outputs([g.tanh(g.input("x", (3,)) * 7.0)])
    compile(g, backend="c", threads=1)
    written = {path.name: path.read_text() for path in (tmp_path / "stages").iterdir()}
    assert "graph @dumped" in written["00_input.rlx"]
    assert "maximal live set" in written["90_plan.txt"]
    assert "schedule dumped" in written["91_schedule.txt"]
    assert "tanh_f32(x[i] * 7.0)" in written["92_kernels.txt"]
    assert "int dumped_run(" in written["93_module.c"]
    assert "@dumped_run(" in written["94_module.ll"]


def test_names_that_are_no_unicode_are_spelled_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_DUMP", str(tmp_path))
    name = "half \ud800 a pair"
    g = Graph(name)
    with g.attributed(Source(name, 3, name), name):
        g.set_outputs([g.tanh(g.input(name, (3,)))])
    compile(g, backend="c", threads=1)
    for path in tmp_path.iterdir():
        path.read_text(encoding="utf-8")
    assert "half \\ud800 a pair" in (tmp_path / "90_plan.txt").read_text()
