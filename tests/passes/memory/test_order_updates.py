"""Updates move after the readers of what they replace."""

from __future__ import annotations

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.passes.memory.check import check_plan
from rlx.passes.memory.copy_outputs import copy_outputs
from rlx.passes.memory.order_updates import order_updates
from rlx.passes.memory.planner import plan_memory


def test_an_update_moves_behind_the_last_reader_of_its_leaf() -> None:
    graph = Graph("train")
    w, g = graph.param("w", (4,)), graph.input("g", (4,))
    new = ops.sub(w, g)
    graph.set_outputs([new, ops.mul(w, g)], donated={w: new})
    after = order_updates(graph)
    assert [node.op.name for node in after.nodes] == ["param", "input", "mul", "sub"]
    assert copy_outputs(after) is after
    check_plan(plan_memory(after))


def test_a_reader_that_needs_the_update_stays_behind_it() -> None:
    graph = Graph("dependent")
    w, g = graph.param("w", (4,)), graph.input("g", (4,))
    new = ops.sub(w, g)
    graph.set_outputs([new, ops.mul(w, new)], donated={w: new})
    assert order_updates(graph) is graph


def test_two_updates_that_read_each_others_leaf_do_not_wait_for_each_other() -> None:
    graph = Graph("pair")
    a, b = graph.param("a", (4,)), graph.param("b", (4,))
    new_a, new_b = ops.add(a, b), ops.sub(a, b)
    graph.set_outputs([new_a, new_b], donated={a: new_a, b: new_b})
    after = copy_outputs(order_updates(graph))
    check_plan(plan_memory(after))
    assert sum(node.op is ops.expand for node in after.nodes) == 1


def test_a_graph_without_donations_is_left_alone() -> None:
    graph = Graph("plain")
    graph.set_outputs([ops.exp(graph.input("x", (4,)))])
    assert order_updates(graph) is graph
