"""Axis maps: which axis of an operand is which axis of the result, or is folded away."""

from __future__ import annotations

from rlx.ir.axis_maps import axis_of_operand, axis_of_result, folded_axis, reads_along
from rlx.ir.graph import Graph, Value


def kept_axes(value: Value, operand: int) -> dict[int, int]:
    """Return the axes of the result by those of an operand, found from both sides."""
    rank = value.node.operands[operand].rank
    there = {axis: axis_of_result(value.node, operand, axis) for axis in range(rank)}
    back = {at: axis_of_operand(value.node, operand, at) for at in range(value.rank)}
    kept = {axis: at for axis, at in there.items() if at is not None}
    assert kept == {axis: at for at, axis in back.items() if axis is not None}
    return kept


def test_axes_that_are_kept_are_found_from_both_sides() -> None:
    g = Graph("g")
    x = g.input("x", (2, 3, 4))
    cases = [
        (g.transpose(x, perm=(2, 0, 1)), {0: 1, 1: 2, 2: 0}),
        (g.pad(x, low=(1, 0, 0), high=(0, 0, 0)), {1: 1, 2: 2}),
        (g.concat(x, x, axis=1), {0: 0, 2: 2}),
        (g.reshape(x, shape=(6, 4)), {2: 1}),
        (g.reshape(x, shape=(2, 1, 12)), {0: 0}),
        (g.add(x, x), {0: 0, 1: 1, 2: 2}),
        (g.slice(x, start=(0, 0, 1), stop=(2, 3, 4), step=(1, 2, 1)), {0: 0}),
        (g.reduce_sum(x, axes=(1,)), {0: 0, 2: 1}),
        (g.reduce_max(x, axes=(0, 2), keepdims=True), {1: 1}),
        (g.argmax(x, axis=-1), {0: 0, 1: 1}),
        (g.matmul(x, g.input("m", (4, 5))), {0: 0, 1: 1}),
        (g.cumsum(x, axis=0), {}),
    ]
    for value, kept in cases:
        assert kept_axes(value, 0) == kept


def test_a_product_keeps_the_columns_and_batch_axes_of_its_second_operand() -> None:
    g = Graph("g")
    a, b = g.input("a", (6, 1, 2, 3)), g.input("b", (7, 3, 4))
    product = g.matmul(a, b)
    assert kept_axes(product, 0) == {0: 0, 2: 2}
    assert kept_axes(product, 1) == {0: 1, 2: 3}
    assert [reads_along(product.node, 0, axis) for axis in range(4)] == [True, False, True, False]
    assert [reads_along(product.node, 1, axis) for axis in range(4)] == [False, True, False, True]


def test_folded_axes_are_paired_by_their_numbers() -> None:
    g = Graph("g")
    a, b = g.input("a", (2, 3, 4)), g.input("b", (4, 5, 3))
    contracted = g.dot_general(a, b, lhs_contracting=(1, 2), rhs_contracting=(2, 0))
    assert [folded_axis(contracted.node, 0, axis) for axis in range(3)] == [None, 0, 1]
    assert [folded_axis(contracted.node, 1, axis) for axis in range(3)] == [1, None, 0]
    assert folded_axis(g.exp(a).node, 0, 1) is None
