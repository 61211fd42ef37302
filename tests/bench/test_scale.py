"""The bench of ranks: the model on paper, the timeline, and the command."""

from __future__ import annotations

import pytest

from bench.scale.paper import Network, measured
from bench.scale.steps import STEPS
from bench.scale.timeline import Flight, Lane, Span, drawn, lane
from rlx.distributed import Mesh, simulate
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.shape import Shape
from rlx.runtime.lower import lower_for
from rlx.target import detect_target


def test_the_model_returns_what_it_was_measured_from() -> None:
    network = Network("given", latency=3e-6, bandwidth=2e9)
    found = measured({size: network.seconds(2, size) for size in (8, 1 << 14, 1 << 24)})
    assert found.latency == pytest.approx(network.latency, rel=1e-2)
    assert found.bandwidth == pytest.approx(network.bandwidth, rel=1e-2)
    assert network.efficiency(1e-3, 64, 1 << 20) == pytest.approx(
        1e-3 / (1e-3 + 2 * 6 * 3e-6 + 2 * 63 / 64 * (1 << 20) / 2e9)
    )


def test_a_timeline_shows_what_is_computed_while_a_sum_is_under_way() -> None:
    spans = (
        Span("#", 0.0, 1.0),
        Span("s", 1.0, 2.0),
        Span("#", 2.0, 7.0),
        Span("w", 7.0, 8.0),
    )
    text = drawn([Lane(0, spans, (Flight(2048, 1.0, 7.0, 8.0),))])
    bars = [line.split()[2] for line in text.splitlines()[1:3]]
    assert bars == ["#" * 8 + "s" * 8 + "#" * 40 + "w" * 8, "=" * 56]
    assert "6000000 us until asked for, 1000000 us waited" in text


def test_a_lane_of_the_timeline_distinguishes_sums_and_work() -> None:
    g = Graph("step")
    ranks, x = g.input("ranks", (), "i64"), g.input("x", (64, 64))
    total = g.all_reduce(x, ranks, axis_name="r", axis_size=2, reduction="sum")
    g.set_outputs([total, g.matmul(x, x)])
    program = lower_for(g, detect_target())
    ops_in_order = [thunk.node.op for thunk in program.schedule.thunks]
    found = lane(0, program, [float(n) for n in range(len(ops_in_order) + 1)])
    letters = {ops.all_reduce_start: "s", ops.all_reduce_done: "w"}
    assert [span.letter for span in found.spans] == [letters.get(op, "#") for op in ops_in_order]
    (flight,) = found.flights
    assert flight.size == 64 * 64 * 4
    assert flight.awaited > flight.begin + 1


@pytest.mark.parametrize("name", list(STEPS))
def test_steps_are_traced_for_any_number_of_ranks(name: str) -> None:
    def program() -> list[Shape]:
        step = STEPS[name](Mesh({"data": 2}), 8)
        graph = step.mapped.graph(*step.state, *step.batch)
        return [output.shape for output in graph.outputs]

    shapes = simulate(program, 2)[0]
    assert shapes[-1] == ()  # the loss
    assert len(shapes) > 1


@pytest.mark.slow
def test_the_command_reports_steps_sums_and_a_model() -> None:
    pytest.importorskip("mpi4py")
    from tests.distributed.test_mpi import python

    few = ("--rounds", "1", "--seconds", "0", "--steps", "digits MLP")
    done = python(2, "-m", "bench.scale", *few)
    assert done.returncode == 0, done.stderr
    for title in (
        "## Training steps", "## With and without overlap", "## A sum over all ranks", "## On paper"
    ):  # fmt: skip
        assert title in done.stdout
