"""Reshapes move below elementwise ops where these can then join a product."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Shape
from rlx.passes.fusion.propagate_reshapes import propagate_reshapes, reshaped_broadcast
from rlx.passes.rewrites.dead_code import dead_code
from tests.passes.text import assert_becomes
from tests.properties.typed_graphs import f32_graphs, typed_feeds

RESIDUAL = """
          %0: f32[2, 3, 4] = input "x"
          %1: f32[4, 4] = input "w"
          %2: f32[4] = input "bias"
          %3: f32[6, 4] = reshape %0 {shape = (6, 4)}
          %4: f32[6, 4] = matmul %3, %1
"""
VECTOR = """
          %0: f32[4] = input "x"
          %1: f32[4, 3] = input "w"
          %2: f32[3] = input "bias"
          %3: f32[3] = input "residual"
          %4: f32[1, 4] = reshape %0 {shape = (1, 4)}
          %5: f32[1, 3] = matmul %4, %1
"""


@pytest.mark.parametrize(
    ("product", "before", "after"),
    [
        pytest.param(
            RESIDUAL,
            """
          %5: f32[2, 3, 4] = reshape %4 {shape = (2, 3, 4)}
          %6: f32[2, 3, 4] = add %5, %2
          %7: f32[2, 3, 4] = add %6, %0
          return %7
            """,
            """
          %5: f32[6, 4] = add %4, %2
          %6: f32[6, 4] = reshape %0 {shape = (6, 4)}
          %7: f32[6, 4] = add %5, %6
          %8: f32[2, 3, 4] = reshape %7 {shape = (2, 3, 4)}
          return %8
            """,
            id="bias and residual",
        ),
        pytest.param(
            VECTOR,
            """
          %6: f32[3] = reshape %5 {shape = (3,)}
          %7: f32[3] = add %6, %2
          %8: f32[3] = exp %3
          %9: f32[3] = add %7, %8
          return %9
            """,
            """
          %6: f32[1, 3] = reshape %2 {shape = (1, 3)}
          %7: f32[1, 3] = add %5, %6
          %8: f32[3] = exp %3
          %9: f32[1, 3] = reshape %8 {shape = (1, 3)}
          %10: f32[1, 3] = add %7, %9
          %11: f32[3] = reshape %10 {shape = (3,)}
          return %11
            """,
            id="bias and activation of a vector",
        ),
    ],
)
def test_elementwise_work_is_done_at_the_rank_of_the_product(
    product: str, before: str, after: str
) -> None:
    assert_becomes(propagate_reshapes, product + before, product + after)


@pytest.mark.parametrize(
    ("operand", "full", "target", "expected"),
    [
        ((2, 3, 4), (2, 3, 4), (6, 4), (6, 4)),
        ((4,), (2, 3, 4), (6, 4), (4,)),
        ((1, 1, 1), (2, 3, 4), (6, 4), ()),
        ((3, 1), (1, 3, 4), (3, 4), (3, 1)),
        ((3, 1), (2, 3, 4), (6, 4), None),
        ((2, 1, 1), (2, 3, 4), (6, 4), None),
        ((5, 1, 1), (2, 5, 3, 4), (2, 5, 12), (1, 5, 1)),
        ((5, 3, 4), (2, 5, 3, 4), (2, 5, 12), (1, 5, 12)),
        ((5, 3, 1), (2, 5, 3, 4), (2, 5, 12), None),
        ((1, 3), (0, 3), (0,), None),
        ((1, 1), (0, 3), (0,), ()),
    ],
)
def test_a_broadcast_operand_fits_or_is_refused(
    operand: Shape, full: Shape, target: Shape, expected: Shape | None
) -> None:
    assert reshaped_broadcast(operand, full, target) == expected


@given(f32_graphs())
@settings(max_examples=80, deadline=None, derandomize=True)
def test_values_of_f32_graphs_stay_bit_for_bit(graph: Graph) -> None:
    whole = dead_code(graph)
    once = propagate_reshapes(whole)
    assert propagate_reshapes(once) == once
    feeds = typed_feeds(graph)
    for wanted, got in zip(evaluate(whole, feeds), evaluate(once, feeds), strict=True):
        assert wanted.tobytes() == got.tobytes()


def test_a_reshape_of_an_input_stays_above() -> None:
    graph = Graph("leaf")
    x = graph.input("x", (6,))
    graph.set_outputs([ops.exp(ops.reshape(x, shape=(2, 3)))])
    assert propagate_reshapes(graph) is graph
