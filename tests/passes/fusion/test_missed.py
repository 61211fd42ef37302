"""What is not fused, and the reason that is reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from tests.passes.text import built


def missed(graph: Graph, policy: FusionPolicy | None = None) -> dict[tuple[str, str], Obstacle]:
    """Return the obstacles by the ops at both ends."""
    found: list[MissedFusion] = []
    fuse(policy, seen=found.append)(graph)
    return {(each.producer.op.name, each.consumer.op.name): each.obstacle for each in found}


ROW, ROWS, COLUMNS, SQUARE = (8,), (8, 4), (4, 8), (8, 8)
Shapes = list[tuple[int, ...]]
MISSED: dict[str, tuple[Callable[..., Any], Shapes, dict[tuple[str, str], Obstacle]]] = {
    "nothing of a product with bias and activation": (
        lambda x, w, b: ops.relu(ops.matmul(x, w) + b), [ROWS, COLUMNS, ROW], {},
    ),
    "nothing between two products": (lambda x: ops.matmul(ops.matmul(x, x), x), [SQUARE], {}),
    "a product reads stored operands": (
        lambda x: ops.matmul(ops.exp(x), x), [SQUARE],
        {("exp", "matmul"): Reason.STORED_OPERANDS.because("matmul")},
    ),
    "a sort stores its result": (
        lambda x: ops.exp(ops.sort(x)), [ROW],
        {("sort", "exp"): Reason.STORED_RESULT.because("sort")},
    ),
    "shapes differ": (
        lambda x, y: ops.sin(y) * ops.exp(x), [ROW, COLUMNS],
        {("exp", "mul"): Reason.SHAPES.because("(8,)", "(4, 8)")},
    ),
    "a result read elsewhere is stored first": (
        lambda x: [ops.reverse(y := ops.exp(x), axes=(0,)) * y, y], [ROW],
        {("exp", "mul"): Reason.MOVED_RESULT.because()},
    ),
    "a product takes no operand from elsewhere": (
        lambda x, w, r: ops.matmul(x, w) * ops.reverse(r, axes=(0,)), [ROWS, COLUMNS, SQUARE],
        {("matmul", "mul"): Reason.MOVED_OPERAND.because("matmul")},
    ),
    "costly work is done once before a softmax": (
        lambda x: ops.softmax(ops.exp(x), axis=-1), [SQUARE],
        {("exp", "softmax"): Reason.COSTLY.because("softmax")},
    ),
    "a norm computes only its first operand": (
        lambda x, s: ops.rms_norm(x, ops.exp(s), axis=-1, eps=1e-6), [SQUARE, ROW],
        {("exp", "rms_norm"): Reason.OTHER_OPERAND.because("rms_norm")},
    ),
    "rows are short": (
        lambda x: ops.exp(ops.reduce_sum(x, axes=(1,))), [(128, 4)],
        {("reduce_sum", "exp"): Reason.SHORT_ROWS.because("reduce_sum")},
    ),
    "a value is left to the reduction that alone reads it": (
        lambda x: [ops.reduce_sum(ops.square(y := ops.softmax(x, axis=-1)), axes=(1,)), y,
                   ops.cumsum(y, axis=0)],
        [(8, 64)], {("softmax", "square"): Reason.LEFT_TO_READER.because("reduce_sum")},
    ),
    "what one product computes is read by the next kernel": (
        lambda x, w: ops.softmax(ops.relu(ops.matmul(x, w)), axis=-1), [ROWS, COLUMNS],
        {("relu", "softmax"): Reason.TWO_ANCHORS.because("matmul", "softmax")},
    ),
    "a reduction of params is computed once": (
        lambda x, w: ops.reduce_sum(w * w, axes=(0,)) * x, [ROW, COLUMNS],
        {("reduce_sum", "mul"): Reason.IN_SETUP.because("reduce_sum")},
    ),
}  # fmt: skip
"""Formulas with one miss at most."""


@pytest.mark.whole
@pytest.mark.parametrize("case", MISSED)
def test_a_missed_fusion_has_its_reason(case: str) -> None:
    formula, shapes, expected = MISSED[case]
    assert missed(built(formula, *shapes)) == expected


def test_one_of_several_misses() -> None:
    def between(x: Value) -> Value:
        return ops.cumsum(ops.sin(y := ops.exp(x)), axis=0) * y

    def read(x: Value) -> list[Value]:
        return [ops.reduce_sum(y := ops.exp(x), axes=(1,)), ops.cumsum(y, axis=0)]

    def searched(x: Value) -> Value:
        return ops.exp(ops.cast(ops.argmax(x, axis=1), to="f32"))

    assert missed(built(between, ROW))["exp", "mul"] == Reason.BETWEEN.because()
    assert missed(built(read, SQUARE))["exp", "reduce_sum"] == Reason.OTHER_READERS.because(2)
    assert ("argmax", "cast") in missed(built(searched, ROWS))


def test_limits_are_reported_with_what_exceeds_them() -> None:
    long = built(lambda x: ops.sin(ops.sin(ops.sin(x))), ROW)
    found = missed(long, FusionPolicy(largest_body=2))
    assert found == {("sin", "sin"): Reason.LONG_BODY.because(3, 2)}
    assert str(found["sin", "sin"]) == "the kernel would compute 3 nodes, of 2 at most"
    wide = built(lambda a, b, c: ops.atan2(a, b) * c, ROW)
    found = missed(wide, FusionPolicy(most_values=3))
    assert found == {("atan2", "mul"): Reason.MANY_VALUES.because(4, 3)}


def test_bodies_of_loops_are_reported() -> None:
    body = Graph("step")
    c = body.input("c", (4, 4))
    body.set_outputs([body.matmul(body.exp(c), c)])
    g = Graph("g")
    g.set_outputs(g.scan(g.input("x", (4, 4)), body=body, length=3, num_carries=1))
    assert ("exp", "matmul") in missed(g)


def test_every_miss_of_a_transformer_has_a_reason_of_its_own() -> None:
    decisions = Decisions()
    pipeline(CLAIMED, TARGET, decisions=decisions).run(encoder(layers=1))
    assert decisions.missed
    assert all(each.obstacle.reason is not Reason.ORDER for each in decisions.missed)
    assert {choice.why for _, choice in decisions.chosen} >= {Why.PACKED_ONCE}


@pytest.mark.whole
@pytest.mark.parametrize("reason", Reason)
def test_every_reason_is_a_sentence(reason: Reason) -> None:
    text = str(reason.because("found", "limit"))
    assert "{" not in text
    assert not text.endswith(".")
