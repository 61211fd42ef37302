"""Schedules that are given or measured: used by what is compiled, kept on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rlx
from rlx.codegen.kernels.build import thunk_body
from rlx.codegen.schedule import Thunk
from rlx.errors import GraphError, InputError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.lowering import Schedule
from rlx.ir.op import make_attrs
from rlx.ir.schedules import Schedules
from rlx.passes.layout.schedule_costs import Work
from rlx.runtime.executable import Executable
from rlx.runtime.tune import tune
from rlx.runtime.tuned import keep_tuned, tuned_text
from rlx.target import detect_target, named_target

AVX512 = named_target("x86-64-v4")
LANES = max(4, detect_target().lanes(4))
NAME = "matmul(f32[40, 96], param f32[96, 80])"
TILE = Schedule(rows=5, columns=LANES, lanes=LANES)


def product() -> Graph:
    g = Graph("tuned")
    x, w = g.input("x", (40, 96)), g.param("w", (96, 80))
    (y,) = g.append(ops.matmul, (x, w), make_attrs(ops.matmul, {}), name="up")
    g.set_outputs([g.relu(y)])
    return g


def convolution() -> Graph:
    g = Graph("tuned_conv")
    x, w = g.input("x", (1, 16, 20, 20)), g.param("w", (32, 16, 3, 3))
    g.set_outputs([g.conv(x, w, padding=((1, 1), (1, 1)))])
    return g


def schedules_of(program: object) -> list[Schedule]:
    assert isinstance(program, Executable)
    thunks = [thunk for thunk in program.schedule.thunks if isinstance(thunk, Thunk)]
    nodes = [node for thunk in thunks for node in thunk_body(thunk).nodes]
    return [node.lowering for node in nodes if isinstance(node.lowering, Schedule)]


@pytest.mark.parametrize("name", [NAME, "up"])
def test_a_schedule_is_given_by_what_is_computed_or_by_name(name: str) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("f4") for shape in ((40, 96), (96, 80)))
    program = rlx.compile(product(), schedules={name: TILE}, params={"w": w})
    (found,) = schedules_of(program)
    assert (found.rows, found.columns, found.right) == (5, LANES, "panels")
    (plain,) = rlx.compile(product(), schedules={}, params={"w": w})(x=x)
    np.testing.assert_array_equal(program(x=x)[0], plain)


@pytest.mark.parametrize(
    "schedule",
    [
        Schedule(3, 2 * LANES, LANES, right="in_place"),
        Schedule(4, LANES, LANES, left="copied", prefetch=4, groups=2),
        Schedule(40, LANES, LANES, depth=4, left="registers", right="in_place", groups=5),
        Schedule(4, LANES, LANES, order=("rows", "panels", "batch"), blocks=3, depth=32),
        Schedule(4, LANES, LANES, unroll=2),
    ],
)
def test_any_schedule_computes_the_same(schedule: Schedule) -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype("f4") for shape in ((40, 96), (96, 80)))
    program = rlx.compile(product(), schedules={NAME: schedule}, params={"w": w})
    assert len(schedules_of(program)) == 1
    np.testing.assert_allclose(program(x=x)[0], np.maximum(x @ w, 0), rtol=1e-4, atol=1e-4)


def test_a_schedule_for_nothing_and_one_that_fits_nothing_are_errors() -> None:
    with pytest.raises(GraphError, match=r"is given for 'down'(?s:.*)matmul\(f32\[40, 96\]"):
        rlx.compile(product(), schedules={"down": TILE})
    wide = Schedule(4, 8 * LANES * 80, LANES, right="in_place")
    with pytest.raises(ShapeError, match="does not fit b"):
        rlx.compile(product(), schedules={"up": wide})
    with pytest.raises(ShapeError, match="outer loops"):
        rlx.compile(product(), schedules={"up": Schedule(4, LANES, LANES, order=("rows",))})


def test_measured_schedules_are_kept_and_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "cache"))
    target = detect_target()
    assert tuned_text(target) == ""
    keep_tuned(target, Schedules.of({NAME: TILE, "other": TILE}))
    keep_tuned(target, Schedules.of({"other": Schedule()}))
    assert Schedules.parse(tuned_text(target))["other"] == Schedule()
    (found,) = schedules_of(rlx.compile(product()))
    assert (found.rows, found.columns) == (5, LANES)


@pytest.mark.parametrize("build", [product, convolution])
def test_tuning_measures_every_contraction(
    build: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLX_CACHE_DIR", str(tmp_path / "cache"))
    found = tune(build(), seconds=0.05, threads=1)  # type: ignore[operator]
    assert found.contractions
    assert all(each.measured > 0 and each.after <= each.before for each in found.contractions)
    assert "us" in str(found)
    kept = Schedules.parse(tuned_text(detect_target()))
    assert kept == found.schedules
    with pytest.raises(InputError, match="above 0"):
        tune(product(), seconds=0)


def test_the_cheapest_candidates_come_first_and_fill_the_registers() -> None:
    node = product().outputs[0].node.operands[0].node
    work = Work.of(node, AVX512)
    assert work is not None
    candidates = work.candidates()
    costs = [work.cycles(each) for each in candidates]
    assert costs == sorted(costs)
    assert costs[0] < work.plain_cycles
    assert all((each.rows + 1) * each.columns // each.lanes <= 32 for each in candidates)
    assert {each.right for each in candidates} == {"panels", "in_place"}
    best = candidates[0]
    assert all(each.rows == best.rows and each != best for each in work.variants(best))
