"""The report's data: arena, sources, costs, and the page that holds them."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rlx.errors import Source
from rlx.ir.graph import Graph
from rlx.report.data import ReportData, report_data, sources_of
from rlx.report.page import embedded, render_page
from rlx.report.stages import Stages
from rlx.target import named_target
from tests.passes.models import encoder


@pytest.fixture(scope="module")
def stages() -> Stages:
    return Stages.of(encoder(layers=2), named_target("x86-64-v3"))


@pytest.fixture(scope="module")
def data(stages: Stages) -> ReportData:
    return report_data(stages)


def test_the_peak_is_the_plans_maximal_live_set(stages: Stages, data: ReportData) -> None:
    arena = data.arena
    header = stages.program.plan.header_bytes
    assert arena.live[arena.peak] == max(arena.live)
    # The plan rounds every slot up to its alignment, the picture shows what values take.
    assert 0 <= arena.live_bytes - header - max(arena.live) < 64 * len(arena.slots)


def test_every_slot_is_within_the_arena_and_the_run(data: ReportData) -> None:
    for slot in data.arena.slots:
        assert slot.offset >= 0
        assert slot.offset + slot.size <= data.arena.bytes
        assert 0 <= slot.birth <= slot.death < len(data.arena.live)


def test_values_in_place_and_views_name_their_root(data: ReportData) -> None:
    relations = [slot.relation for slot in data.arena.slots if slot.relation]
    assert any(relation.startswith("in place of %") for relation in relations)
    assert any(relation.startswith("view of %") for relation in relations)


def test_the_run_phase_starts_at_its_first_thunk(stages: Stages, data: ReportData) -> None:
    first = stages.program.plan.order[data.arena.first]
    assert first.index == next(thunk.node for thunk in data.thunks if thunk.phase == "run")


def test_every_thunk_has_its_kernel_in_both_forms(data: ReportData) -> None:
    for thunk in data.thunks:
        kernel = data.kernels[thunk.kernel]
        assert f"kernel {thunk.kernel}(" in kernel.loops
        assert f" {thunk.kernel}(" in kernel.c


def test_a_loop_shows_the_calls_it_makes() -> None:
    body = Graph("step")
    c, k, x = body.input("c", (1, 640)), body.input("k", (640, 640)), body.input("x", (1, 640))
    body.set_outputs([body.tanh(body.matmul(c, k) + x)])
    g = Graph("rnn")
    h, w, rows = g.input("h", (1, 640)), g.input("w", (640, 640)), g.input("xs", (50, 1, 640))
    g.set_outputs(g.scan(h, w, rows, body=body, length=50, num_carries=1, num_consts=1))
    data = report_data(Stages.of(g, named_target("x86-64-v3")))
    (loop,) = (thunk for thunk in data.thunks if thunk.kernel.startswith("scan %"))
    assert data.kernels[loop.kernel].loops.startswith("repeat 50")
    assert "matmul_tanh_640(" in data.kernels[loop.kernel].c
    assert loop.flops >= 50 * 2 * 640 * 640


def test_equal_layers_share_kernels(data: ReportData) -> None:
    assert sum(kernel.calls for kernel in data.kernels.values()) == len(data.thunks)
    assert max(kernel.calls for kernel in data.kernels.values()) >= 2


def test_operands_are_earlier_nodes(data: ReportData) -> None:
    for nodes in (data.written, data.lowered):
        assert all(operand < node.id for node in nodes for operand in node.operands)


def test_thunks_show_the_users_lines(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("".join(f"    line {number}\n" for number in range(1, 8)))
    g = Graph("g")
    x = g.input("x", (2,))
    with g.attributed(Source(str(file), 4, "build")):
        y = g.exp(x)
    (source,) = sources_of(y.node)
    assert (source.place, source.line, source.first) == ("model.py:4 in build", 4, 2)
    assert source.lines == ("line 2", "line 3", "line 4", "line 5", "line 6")


def test_a_vanished_file_leaves_the_place(tmp_path: Path) -> None:
    g = Graph("g")
    with g.attributed(Source(str(tmp_path / "gone.py"), 4, "build")):
        y = g.exp(g.input("x", (2,)))
    (source,) = sources_of(y.node)
    assert (source.place, source.lines) == ("gone.py:4 in build", ())


def test_data_cannot_end_its_script_element() -> None:
    g = Graph("</script><b>")
    g.set_outputs([g.exp(g.input("x", (2,)))])
    data = report_data(Stages.of(g, named_target("x86-64-v3")))
    text = embedded(dataclasses.asdict(data))
    assert "<" not in text
    assert json.loads(text)["name"] == "</script><b>"
    assert "<b>" not in render_page(data)


def test_the_page_needs_nothing_from_elsewhere(data: ReportData) -> None:
    page = render_page(data)
    assert re.findall(r'\b(?:src|href)="(?!#)', page) == []
    assert re.findall(r"@import|url\(|fetch\(|XMLHttpRequest|import\(", page) == []
    addresses = set(re.findall(r"https?://[^\"' ]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, never fetched


@pytest.mark.slow
def test_a_browser_draws_every_view(data: ReportData, tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium to look at the page with")
    page = tmp_path / "report.html"
    page.write_text(render_page(data))
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--dump-dom"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    done = subprocess.run(
        [browser, *flags, f"--user-data-dir={tmp_path / 'profile'}", f"file://{page}#node=40"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    dom = done.stdout
    assert dom.count('class="row') == len(data.thunks)
    assert dom.count("<rect x=") > len(data.arena.slots)
    assert dom.count('class="node') > 5
    assert '<aside id="detail">' in dom
