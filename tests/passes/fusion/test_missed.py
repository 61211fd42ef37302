"""What is not fused, and the reason that is told."""

from __future__ import annotations

import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.passes.decisions import Decisions
from rlx.passes.fusion.fuse import fuse
from rlx.passes.fusion.policy import FusionPolicy
from rlx.passes.fusion.reasons import MissedFusion, Obstacle, Reason
from rlx.passes.layout.choices import Why
from rlx.passes.pipeline import pipeline
from tests.passes.models import CLAIMED, TARGET, encoder


def missed(graph: Graph, policy: FusionPolicy | None = None) -> dict[tuple[str, str], Obstacle]:
    """Return the obstacles by the ops at both ends."""
    found: list[MissedFusion] = []
    fuse(policy, seen=found.append)(graph)
    return {(each.producer.op.name, each.consumer.op.name): each.obstacle for each in found}


def graph_of(*outputs: Value) -> Graph:
    graph = outputs[0].graph
    graph.set_outputs(outputs)
    return graph


def test_what_is_fused_is_not_missed() -> None:
    g = Graph("g")
    x, w, b = g.input("x", (8, 4)), g.input("w", (4, 8)), g.input("b", (8,))
    assert missed(graph_of(g.relu(g.matmul(x, w) + b))) == {}


def test_two_products_are_no_miss() -> None:
    g = Graph("g")
    x = g.input("x", (8, 8))
    assert missed(graph_of(g.matmul(g.matmul(x, x), x))) == {}


def test_a_product_reads_stored_operands() -> None:
    g = Graph("g")
    x = g.input("x", (8, 8))
    found = missed(graph_of(g.matmul(g.exp(x), x)))
    assert found == {("exp", "matmul"): Reason.STORED_OPERANDS.because("matmul")}
    assert str(found["exp", "matmul"]).startswith("matmul reads stored operands")


def test_a_sort_stores_its_result() -> None:
    g = Graph("g")
    found = missed(graph_of(g.exp(g.sort(g.input("x", (8,))))))
    assert found == {("sort", "exp"): Reason.STORED_RESULT.because("sort")}


def test_shapes_are_reported() -> None:
    g = Graph("g")
    row = g.exp(g.input("x", (8,)))
    found = missed(graph_of(g.sin(g.input("y", (4, 8))) * row))
    assert found == {("exp", "mul"): Reason.SHAPES.because("(8,)", "(4, 8)")}


def test_a_long_body_is_reported_with_its_limit() -> None:
    g = Graph("g")
    x = g.input("x", (8,))
    for _ in range(3):
        x = g.sin(x)
    found = missed(graph_of(x), FusionPolicy(largest_body=2))
    assert found == {("sin", "sin"): Reason.LONG_BODY.because(3, 2)}
    assert str(found["sin", "sin"]) == "the kernel would compute 3 nodes, of 2 at most"


def test_many_operands_are_reported_with_their_limit() -> None:
    g = Graph("g")
    a, b, c = (g.input(name, (8,)) for name in "abc")
    found = missed(graph_of(g.atan2(a, b) * c), FusionPolicy(most_values=3))
    assert found == {("atan2", "mul"): Reason.MANY_VALUES.because(4, 3)}


def test_a_kernel_between_keeps_two_apart() -> None:
    g = Graph("g")
    y = g.exp(g.input("x", (8,)))
    found = missed(graph_of(g.cumsum(g.sin(y), axis=0) * y))
    assert found["exp", "mul"] == Reason.BETWEEN.because()


def test_a_result_read_elsewhere_is_stored_first() -> None:
    g = Graph("g")
    y = g.exp(g.input("x", (8,)))
    found = missed(graph_of(g.reverse(y, axes=(0,)) * y, y))
    assert found == {("exp", "mul"): Reason.MOVED_RESULT.because()}


def test_a_product_takes_no_operand_from_elsewhere() -> None:
    g = Graph("g")
    x, w, r = g.input("x", (8, 4)), g.input("w", (4, 8)), g.input("r", (8, 8))
    found = missed(graph_of(g.matmul(x, w) * g.reverse(r, axes=(0,))))
    assert found == {("matmul", "mul"): Reason.MOVED_OPERAND.because("matmul")}


def test_what_others_read_is_stored_before_a_reduction() -> None:
    g = Graph("g")
    y = g.exp(g.input("x", (8, 8)))
    found = missed(graph_of(g.reduce_sum(y, axes=(1,)), g.cumsum(y, axis=0)))
    assert found["exp", "reduce_sum"] == Reason.OTHER_READERS.because(2)


def test_costly_work_is_done_once_before_a_softmax() -> None:
    g = Graph("g")
    found = missed(graph_of(g.softmax(g.exp(g.input("x", (8, 8))), axis=-1)))
    assert found == {("exp", "softmax"): Reason.COSTLY.because("softmax")}


def test_a_norm_computes_only_its_first_operand() -> None:
    g = Graph("g")
    x, scale = g.input("x", (8, 8)), g.exp(g.input("s", (8,)))
    found = missed(graph_of(g.rms_norm(x, scale, axis=-1, eps=1e-6)))
    assert found == {("exp", "rms_norm"): Reason.OTHER_OPERAND.because("rms_norm")}


def test_short_rows_are_reported() -> None:
    g = Graph("g")
    total = g.reduce_sum(g.input("x", (128, 4)), axes=(1,))
    found = missed(graph_of(g.exp(total)))
    assert found == {("reduce_sum", "exp"): Reason.SHORT_ROWS.because("reduce_sum")}


def test_a_value_is_left_to_the_reduction_that_alone_reads_it() -> None:
    g = Graph("g")
    y = g.softmax(g.input("x", (8, 64)), axis=-1)
    found = missed(graph_of(g.reduce_sum(ops.square(y), axes=(1,)), y, g.cumsum(y, axis=0)))
    assert found == {("softmax", "square"): Reason.LEFT_TO_READER.because("reduce_sum")}


def test_what_one_product_computes_is_read_by_the_next_kernel() -> None:
    g = Graph("g")
    x, w = g.input("x", (8, 4)), g.input("w", (4, 8))
    y = g.relu(g.matmul(x, w))
    found = missed(graph_of(g.softmax(y, axis=-1)))
    assert found == {("relu", "softmax"): Reason.TWO_ANCHORS.because("matmul", "softmax")}


def test_bodies_of_loops_are_reported() -> None:
    body = Graph("step")
    c = body.input("c", (4, 4))
    body.set_outputs([body.matmul(body.exp(c), c)])
    g = Graph("g")
    (last,) = g.scan(g.input("x", (4, 4)), body=body, length=3, num_carries=1, num_consts=0)
    assert ("exp", "matmul") in missed(graph_of(last))


def test_every_miss_of_a_transformer_has_a_reason_of_its_own() -> None:
    decisions = Decisions()
    pipeline(CLAIMED, TARGET, decisions=decisions).run(encoder(layers=1))
    assert decisions.missed
    assert all(each.obstacle.reason is not Reason.ORDER for each in decisions.missed)
    assert {choice.why for _, choice in decisions.chosen} >= {Why.PACKED_ONCE}


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_a_sentence(reason: Reason) -> None:
    text = str(reason.because("found", "limit"))
    assert "{" not in text
    assert not text.endswith(".")


def test_a_search_is_reported_by_the_axis_that_it_searches() -> None:
    g = Graph("g")
    found = missed(graph_of(g.exp(g.cast(g.argmax(g.input("x", (8, 4)), axis=1), to="f32"))))
    assert ("argmax", "cast") in found


def test_a_reduction_of_params_is_computed_once() -> None:
    g = Graph("g")
    x, w = g.input("x", (8,)), g.param("w", (4, 8))
    total = g.reduce_sum(w * w, axes=(0,))
    found = missed(graph_of(total * x))
    assert found == {("reduce_sum", "mul"): Reason.IN_SETUP.because("reduce_sum")}
