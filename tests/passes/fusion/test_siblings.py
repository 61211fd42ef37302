"""Sibling reductions: those that read one value over the same axes share the pass over it."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.reference import evaluate
from rlx.passes.fusion.fuse import fuse


def kernels(*outputs: Value) -> list[str]:
    """Return what runs after fusion: a fusion as the ops of its body joined by `+`."""
    graph = outputs[0].graph
    graph.set_outputs(list(outputs))
    nodes = [node for node in fuse()(graph).nodes if not node.op.has(Trait.LEAF)]
    return [
        "+".join(_computing(n.attribute("body")) if n.op is ops.fused else [n.op.name])
        for n in nodes
    ]


def _computing(body: Graph) -> list[str]:
    return [node.op.name for node in body.nodes if not node.op.has(Trait.LEAF)]


def matrix() -> Value:
    return Graph("siblings").input("x", (6, 10))


def test_a_sum_and_a_sum_of_squares_are_one_kernel_with_what_follows_them() -> None:
    x = matrix()
    total = ops.reduce_sum(x, axes=(0, 1)) + ops.reduce_sum(x * x, axes=(0, 1))
    assert kernels(total) == ["reduce_sum+mul+reduce_sum+add"]


def test_moments_and_extremes_of_columns_are_one_kernel_with_four_results() -> None:
    x = matrix()
    found = [
        ops.reduce_mean(x, axes=(0,)),
        ops.reduce_mean(x * x, axes=(0,)),
        ops.reduce_max(x, axes=(0,)),
        ops.reduce_min(x, axes=(0,)),
    ]
    assert kernels(*found) == ["reduce_mean+mul+reduce_mean+reduce_max+reduce_min"]


def test_what_only_siblings_read_is_computed_in_their_pass() -> None:
    x = matrix()
    weights = ops.exp(x)
    assert kernels(ops.reduce_sum(weights, axes=(1,)), ops.reduce_sum(weights * x, axes=(1,))) == [
        "exp+reduce_sum+mul+reduce_sum"
    ]


def test_a_reduction_that_needs_the_other_one_waits_for_it() -> None:
    x = matrix()
    shift = x - ops.reduce_mean(x, axes=(0, 1), keepdims=True)
    variance = ops.reduce_mean(shift * shift, axes=(0, 1), keepdims=True)
    assert kernels(variance) == ["reduce_mean", "sub+mul+reduce_mean"]


@pytest.mark.parametrize(
    "second", [{"axes": (0,)}, {"axes": (1,), "keepdims": True}], ids=["axes", "keepdims"]
)
def test_other_axes_or_another_shape_of_result_is_another_kernel(second: dict[str, object]) -> None:
    x = matrix()
    assert kernels(ops.reduce_sum(x, axes=(1,)), ops.reduce_max(x, **second)) == [
        "reduce_sum",
        "reduce_max",
    ]


def test_reductions_of_unrelated_values_stay_apart() -> None:
    x = matrix()
    y = x.graph.input("y", x.shape)
    assert kernels(ops.reduce_sum(x, axes=(1,)), ops.reduce_sum(y, axes=(1,))) == [
        "reduce_sum",
        "reduce_sum",
    ]


def test_at_most_four_share_a_pass() -> None:
    x = matrix()
    sums = [ops.reduce_sum(x * float(n), axes=(1,)) for n in range(2, 8)]
    found = [label.count("reduce_sum") for label in kernels(*sums)]
    assert found == [4, 2]


def test_what_setup_computes_joins_no_run() -> None:
    x = matrix()
    w = x.graph.param("w", x.shape)
    fixed, changing = ops.reduce_sum(w * w, axes=(1,)), ops.reduce_sum(w * x, axes=(1,))
    assert kernels(fixed, changing) == ["mul+reduce_sum", "mul+reduce_sum"]


def test_a_fan_of_reductions_is_no_other_program() -> None:
    x = matrix()
    folds = [ops.reduce_sum, ops.reduce_max, ops.reduce_prod, ops.reduce_min, ops.reduce_mean]
    found = [fold(x + float(n), axes=(1,)) for n in range(9) for fold in folds]
    x.graph.set_outputs([found[0] * found[7], *found[1:]])
    data = {"x": np.random.default_rng(1).standard_normal((6, 10)).astype(np.float32)}
    for fused, plain in zip(evaluate(fuse()(x.graph), data), evaluate(x.graph, data), strict=True):
        np.testing.assert_array_equal(fused, plain)
