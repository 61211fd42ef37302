"""The planner against the independent checker, and against the maximal live set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from rlx.errors import GraphError, InternalError
from rlx.ir import ops
from rlx.ir.graph import Graph, Node
from rlx.ir.shape import Dim
from rlx.passes.memory.check import check_plan, plan_faults
from rlx.passes.memory.copy_outputs import copy_outputs
from rlx.passes.memory.plan import MemoryPlan
from rlx.passes.memory.planner import plan_memory
from rlx.passes.memory.report import format_plan
from rlx.passes.phases import setup_nodes
from tests.passes.models import encoder, prepared
from tests.properties.typed_graphs import f32_graphs

_QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def _chain(*, outputs: int = 1) -> Graph:
    graph = Graph("chain")
    x = graph.input("x", (64,))
    values = [x]
    for _ in range(4):
        values.append(ops.reverse(values[-1], axes=(0,)))
    graph.set_outputs(values[-outputs:])
    return graph


@given(f32_graphs())
@_QUICK
def test_no_two_live_values_of_a_random_graph_overlap(graph: Graph) -> None:
    check_plan(plan_memory(copy_outputs(graph), scratch_bytes=_some_scratch))


@given(f32_graphs())
@_QUICK
def test_no_two_live_values_overlap_after_the_whole_pipeline(graph: Graph) -> None:
    check_plan(plan_memory(prepared(graph)))


@given(f32_graphs())
@_QUICK
def test_the_arena_is_never_smaller_than_the_live_set(graph: Graph) -> None:
    plan = plan_memory(copy_outputs(graph))
    assert plan.arena_bytes >= plan.live_bytes


def _some_scratch(node: Node) -> int:
    return 100 if node.op in (ops.softmax, ops.matmul) else 0


def test_an_encoder_takes_at_most_a_tenth_more_than_its_live_set() -> None:
    graph = prepared(encoder(layers=3))
    plan = plan_memory(graph)
    check_plan(plan)
    transient = plan.arena_bytes - plan.resident_bytes
    live = plan.live_bytes - plan.resident_bytes
    assert transient <= 1.10 * live


def test_the_checker_finds_a_lost_value() -> None:
    plan = plan_memory(_chain(outputs=2))
    last, before = plan.graph.outputs[1], plan.graph.outputs[0]
    moved = replace(plan.slots[last], offset=plan.slots[before].offset)
    broken = replace(plan, slots={**plan.slots, last: moved})
    with pytest.raises(InternalError, match="lost"):
        check_plan(broken)


def test_the_checker_finds_a_clobbered_input() -> None:
    plan = plan_memory(_chain())
    value = plan.graph.nodes[2].result
    moved = replace(plan.slots[value], offset=plan.slots[plan.graph.inputs[0]].offset)
    faults = plan_faults(replace(plan, slots={**plan.slots, value: moved}))
    assert any("kept for the next run" in fault for fault in faults)


def test_a_view_is_in_its_root_at_its_offset() -> None:
    graph = Graph("views")
    a, b = graph.input("a", (8, 4)), graph.input("b", (4, 4))
    x = ops.matmul(a, b)
    flat = ops.reshape(x, shape=(32,))
    part = ops.narrow(ops.cast(flat, to="f32"), axis=0, start=8, length=16)
    graph.set_outputs([ops.exp(part)])
    plan = plan_memory(graph)
    check_plan(plan)
    assert plan.slots[flat].offset == plan.slots[x].offset
    assert plan.slots[part].offset == plan.slots[x].offset + 32
    assert plan.slots[part].size == 64
    assert plan.slots[part].root is x


def test_a_narrow_of_an_inner_axis_is_no_view() -> None:
    graph = Graph("inner")
    x = graph.input("x", (2, 4))
    graph.set_outputs([ops.narrow(x, axis=1, start=0, length=2)])
    plan = plan_memory(graph)
    assert plan.slots[graph.outputs[0]].root is None


def test_an_elementwise_op_works_in_place_on_a_dying_operand_only() -> None:
    graph = Graph("in_place")
    x = graph.input("x", (8,))
    y = ops.reverse(x, axes=(0,))
    z = ops.exp(y)
    graph.set_outputs([ops.tanh(z), z])
    plan = plan_memory(graph)
    assert plan.in_place == {z.node: ((0, 0),)}


def test_a_broadcast_operand_is_not_overwritten() -> None:
    graph = Graph("broadcast")
    x, row = graph.input("x", (4, 4)), graph.input("row", (4,))
    y = ops.reverse(row, axes=(0,))
    graph.set_outputs([ops.add(x, y)])
    assert plan_memory(graph).in_place == {}


def test_an_operand_that_is_also_read_shifted_is_not_overwritten() -> None:
    graph = Graph("shifted")
    x = graph.input("x", (2, 4))
    y = ops.reverse(x, axes=(0,))
    row = ops.reshape(ops.narrow(y, axis=0, start=1, length=1), shape=(4,))
    graph.set_outputs([ops.add(y, row)])
    plan = plan_memory(graph)
    check_plan(plan)
    assert plan.in_place == {}


def test_a_donated_output_has_the_offset_of_its_leaf() -> None:
    graph = Graph("step")
    state, x = graph.param("state", (8,)), graph.input("x", (8,))
    new = ops.add(state, x)
    graph.set_outputs([new], donated={state: new})
    plan = plan_memory(copy_outputs(graph))
    check_plan(plan)
    leaf, output = plan.graph.leaf("state"), plan.graph.outputs[0]
    assert plan.slots[leaf].offset == plan.slots[output].offset
    assert plan.in_place[output.node] == ((0, 0),)


def test_a_donation_whose_leaf_is_read_later_is_refused_and_copied() -> None:
    graph = Graph("late")
    state = graph.param("state", (8,))
    new = ops.exp(state)
    graph.set_outputs([new, ops.reverse(state, axes=(0,))], donated={state: new})
    with pytest.raises(GraphError, match="copy-outputs"):
        plan_memory(graph)
    copied = copy_outputs(graph)
    assert len(copied.nodes) == len(graph.nodes) + 1
    check_plan(plan_memory(copied))


def test_two_leaves_can_swap() -> None:
    graph = Graph("swap")
    a, b = graph.input("a", (4,)), graph.input("b", (4,))
    graph.set_outputs([b, a], donated={a: b, b: a})
    check_plan(plan_memory(copy_outputs(graph)))


def test_what_depends_on_params_alone_is_resident_unless_the_param_is_donated() -> None:
    graph = Graph("setup")
    w, x = graph.param("w", (4, 4)), graph.input("x", (4, 4))
    packed = ops.transpose(w, perm=(1, 0))
    graph.set_outputs([ops.matmul(x, packed)])
    assert packed.node in setup_nodes(graph)
    assert plan_memory(graph).slots[packed].resident
    graph.set_outputs([graph.outputs[0]], donated={w: graph.outputs[0]})
    assert packed.node not in setup_nodes(graph)


def test_symbolic_extents_are_planned_at_their_maximum() -> None:
    graph = Graph("symbolic")
    x = graph.input("x", (Dim("n", max=10), 4))
    graph.set_outputs([ops.exp(x)])
    plan = plan_memory(graph)
    assert plan.slots[x].size == 160
    check_plan(plan)


def test_empty_tensors_take_no_room() -> None:
    graph = Graph("empty")
    x = graph.input("x", (0, 4))
    graph.set_outputs([ops.exp(x), ops.neg(x)])
    plan = plan_memory(graph)
    check_plan(plan)
    assert plan.arena_bytes == plan.header_bytes


def test_sizes_beyond_32_bits_are_exact() -> None:
    graph = Graph("large")
    x = graph.input("x", (1 << 20, 1 << 13))
    graph.set_outputs([ops.reverse(x, axes=(0,))])
    assert plan_memory(graph).arena_bytes == 64 + 2 * (1 << 35)


def test_scratch_overlaps_nothing_live_at_its_node() -> None:
    graph = _chain()
    plan = plan_memory(graph, scratch_bytes=lambda node: 300 if node.index == 2 else 0)
    check_plan(plan)
    assert plan.scratch[graph.nodes[2]].size == 300


def test_the_report_shows_arena_and_live_set_and_a_row_per_value() -> None:
    plan: MemoryPlan = plan_memory(_chain())
    lines = format_plan(plan).splitlines()
    assert f"arena {plan.arena_bytes} bytes" in lines[0]
    assert f"live set {plan.live_bytes}" in lines[0]
    assert len(lines) == 2 + len(plan.slots)


def test_a_body_is_planned_as_a_block_at_its_nodes_step() -> None:
    body = Graph("body")
    y = body.input("y", (64,))
    kept = body.constant(list(range(64)), "f32")
    body.set_outputs([ops.reverse(ops.add(ops.reverse(y, axes=(0,)), kept), axes=(0,))])
    graph = Graph("outer")
    x = graph.input("x", (64,))
    graph.set_outputs(ops.checkpoint(ops.reverse(x, axes=(0,)), body=body))
    plan = plan_memory(graph)
    check_plan(plan)
    node = graph.outputs[0].node
    (inner,) = plan.bodies[node]
    constant = inner.slots[kept]
    assert constant.resident
    assert constant.offset + constant.size <= plan.resident_bytes
    block = [slot for slot in inner.slots.values() if not slot.resident]
    outer = [plan.slots[value] for value in (*node.operands, *node.results)]
    for slot in block:
        assert plan.resident_bytes <= slot.offset
        assert slot.offset + slot.size <= plan.arena_bytes
        for other in outer:
            apart = slot.offset + slot.size <= other.offset
            assert apart or other.offset + other.size <= slot.offset
