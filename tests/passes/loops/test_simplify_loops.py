"""Loops become lean: what is equal, invariant, dead or repeated leaves them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.graph import Graph, Node, Value
from rlx.ir.lowering import OneKernel
from rlx.passes.autodiff import grad_with_loss, jvp
from rlx.passes.loops.batch_axis import find_lanes
from rlx.passes.loops.fuse_loop_bodies import fuse_loop_bodies
from rlx.passes.loops.invariant_code_motion import loop_invariant_code_motion
from rlx.passes.loops.loop_cse import loop_cse
from rlx.passes.loops.loop_dead_code import loop_dead_code
from rlx.passes.loops.simplify_loops import simplify_loops
from rlx.passes.memory.report import format_plan
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.simplify import simplify
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import Formula, Types, graph_of, recurrent

VECTOR = ((3,), "f64")
ROWS = ((5, 3), "f64")


def scans(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op is ops.scan]


def merged(graph: Graph) -> Graph:
    return loop_cse(common_subexpressions(simplify(graph)))


def test_the_recording_scan_of_a_gradient_is_the_programs_own() -> None:
    step = grad_with_loss(recurrent(), ["c", "w"])
    assert len(scans(step)) == 3
    assert len(scans(merged(step))) == 2


def test_the_scan_of_forward_mode_replaces_that_of_the_values() -> None:
    step = jvp(recurrent(), ["c"])
    assert len(scans(step)) == 2
    assert len(scans(merged(step))) == 1


def test_scans_of_different_steps_stay_apart() -> None:
    types: Types = {"c": VECTOR, "xs": ROWS}
    row = {"c": VECTOR, "x": VECTOR}
    adding = graph_of("adding", row, lambda c, x: c + x)
    taking = graph_of("taking", row, lambda c, x: c - x)

    def both(c: Value, xs: Value) -> list[Value]:
        return [ops.scan(c, xs, body=body, length=5, num_carries=1)[0] for body in (adding, taking)]

    assert len(scans(merged(graph_of("both", types, both)))) == 2


def scan_of(
    formula: Formula, kept: tuple[int, ...], *, consts: int = 1, rows: int = 1, carries: int = 1
) -> Graph:
    names = [*(f"c{i}" for i in range(carries)), *(f"k{i}" for i in range(consts))]
    body = graph_of(
        "step", dict.fromkeys((*names, *(f"x{i}" for i in range(rows))), VECTOR), formula
    )
    types = dict.fromkeys(names, VECTOR) | {f"x{i}": ROWS for i in range(rows)}

    def program(*operands: Value) -> list[Value]:
        results = ops.scan(*operands, body=body, length=5, num_carries=carries, num_consts=consts)
        return [results[i] for i in kept]

    return graph_of("program", types, program)


def test_rows_consts_and_stacks_that_nothing_reads_are_dropped() -> None:
    graph = scan_of(lambda c, k, x: [c + x, k * 2.0, c * x], (0,))
    (scan,) = scans(loop_dead_code(graph))
    assert len(scan.operands) == 2
    assert len(scan.results) == 1


def test_a_carry_that_feeds_only_itself_is_dropped() -> None:
    graph = scan_of(lambda c, d, x: [c + x, d * 2.0, c], (0, 2), carries=2, consts=0)
    (scan,) = scans(loop_dead_code(graph))
    assert scan.attribute("num_carries") == 1


def test_a_carry_that_never_changes_becomes_a_const() -> None:
    graph = scan_of(lambda c, d, x: [c + d * x, d], (0, 1), carries=2, consts=0)
    pruned = loop_dead_code(graph)
    (scan,) = scans(pruned)
    assert (scan.attribute("num_carries"), scan.attribute("num_consts")) == (1, 1)
    assert pruned.outputs[1].op is ops.input


def test_rows_that_are_all_one_become_a_const() -> None:
    row = {"c": VECTOR, "x": VECTOR}
    body = graph_of("step", row, lambda c, x: c + x)

    def program(c: Value, x: Value) -> Value:
        rows = ops.expand(x, shape=(5, 3))
        result: Value = ops.scan(c, rows, body=body, length=5, num_carries=1)[0]
        return result

    (scan,) = scans(loop_dead_code(graph_of("program", row, program)))
    assert scan.attribute("num_consts") == 1


def test_what_depends_on_consts_alone_leaves_the_loop() -> None:
    graph = scan_of(lambda c, k, x: c * ops.tanh(k) + x, (0,))
    hoisted = loop_invariant_code_motion(graph)
    (scan,) = scans(hoisted)
    assert any(node.op is ops.tanh for node in hoisted.nodes)
    assert not any(node.op is ops.tanh for node in scan.attribute("body").nodes)


def test_small_loops_are_kept_in_registers_and_large_ones_are_not() -> None:
    for size, kept in ((3, True), (100, False)):
        graph = fuse_loop_bodies(recurrent(size))
        found = any(node.lowering == OneKernel() for node in graph.nodes)
        assert found is kept


def test_an_axis_that_nothing_mixes_is_found() -> None:
    types: Types = {"s": ((64, 3), "f64"), "p": ((3,), "f64")}
    body = graph_of("decay", types, lambda s, p: s - ops.sin(s) * p)
    lanes = find_lanes(body, 1)
    assert lanes is not None
    assert (lanes.extent, lanes.axes[body.inputs[0]]) == (64, 0)
    assert body.inputs[1] not in lanes.axes


def test_an_axis_that_a_sum_folds_is_not_independent() -> None:
    types: Types = {"s": ((64,), "f64")}
    body = graph_of("mix", types, lambda s: s - ops.reduce_sum(s, axes=(0,)))
    assert find_lanes(body, 1) is None


def test_a_sum_over_instances_that_only_adds_up_is_shared_out() -> None:
    types: Types = {"s": ((64, 3), "f64"), "total": ((3,), "f64")}
    body = graph_of(
        "adding", types, lambda s, total: [s * 0.5, total + ops.reduce_sum(s, axes=(0,))]
    )
    lanes = find_lanes(body, 2)
    assert lanes is not None
    assert body.inputs[1] in lanes.partial


def test_a_sum_over_instances_that_they_read_keeps_them_together() -> None:
    types: Types = {"s": ((64, 3), "f64"), "total": ((3,), "f64")}
    body = graph_of(
        "reading", types, lambda s, total: [s * total, total + ops.reduce_sum(s, axes=(0,))]
    )
    assert find_lanes(body, 2) is None


def test_the_plan_shows_what_a_scan_stores_for_its_backward_sweep() -> None:
    step = grad_with_loss(recurrent(3, 50), ["c", "w"])
    report = format_plan(lower_for(step, detect_target()).plan)
    (line,) = [line for line in report.splitlines() if "for its backward sweep" in line]
    assert "tanh f64[3]" in line
    assert line.endswith("50 x 48 bytes")
    assert "'c' f64[3]" in line
    assert "# of 2 other values of a step, 48 bytes, the sweep computes again" in report
    assert "outside\t" not in report  # all is in registers


def forward_loops(graph: Graph) -> list[Node]:
    """Return the scans in the order of their steps, those of bodies included."""
    scans = [node for node in graph.nodes if node.op is ops.scan]
    inner = [loop for node in scans for loop in forward_loops(node.attribute("body"))]
    return [node for node in (*scans, *inner) if not node.attribute("reverse")]


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nested_loops_run_once_for_a_value_and_its_gradient(depth: int) -> None:
    """The loop that stores residuals replaces the one that does not, at every level."""

    def loop(level: int, carry: Any, rows: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            if level == 1:
                return rnp.tanh(carry * row), None
            return loop(level - 1, carry, row), carry

        return rlx.scan(step, carry, rows)[0]

    def loss(carry: Any, rows: Any) -> Any:
        return (loop(depth, carry, rows) ** 2).sum()

    rows = np.ones((3,) * depth)
    graph = rlx.jit(rlx.value_and_grad(loss, argnums=(0, 1))).graph(np.ones(4), rows)
    tidy = simplify_loops(common_subexpressions(simplify(graph)))
    loops = forward_loops(tidy)
    assert len(loops) == depth
    assert loops[-1].attribute("residuals")


def test_loops_whose_steps_differ_are_not_tried_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def many(c: Value, xs: Value) -> list[Value]:
        row = {"c": VECTOR, "x": VECTOR}
        bodies = [graph_of(f"by_{n}", row, lambda c, x, n=n: c * float(n) + x) for n in range(40)]
        return [ops.scan(c, xs, body=body, length=5, num_carries=1)[0] for body in bodies]

    def refuse(*nodes: Node) -> None:
        raise AssertionError(f"tried {nodes}")

    graph = graph_of("many", {"c": VECTOR, "xs": ROWS}, many)
    monkeypatch.setattr("rlx.passes.loops.loop_cse._covered", refuse)
    assert len(scans(merged(graph))) == 40
