"""Sibling reductions: those that read one value over the same axes share the pass over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.op import Trait
from rlx.ir.reference import evaluate
from rlx.passes.fusion.fuse import fuse
from tests.passes.text import built


def kernels(graph: Graph) -> list[str]:
    """Return what runs after fusion: a fusion as the ops of its body joined by `+`."""
    nodes = [node for node in fuse()(graph).nodes if not node.op.has(Trait.LEAF)]
    return [
        "+".join(_computing(n.attribute("body")) if n.op is ops.fused else [n.op.name])
        for n in nodes
    ]


def _computing(body: Graph) -> list[str]:
    return [node.op.name for node in body.nodes if not node.op.has(Trait.LEAF)]


SHAPE = (6, 10)
ALL, COLUMNS, ROWS = {"axes": (0, 1)}, {"axes": (0,)}, {"axes": (1,)}
KERNELS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "a sum and a sum of squares are one kernel with what follows them": (
        lambda x: ops.reduce_sum(x, **ALL) + ops.reduce_sum(x * x, **ALL),
        ["reduce_sum+mul+reduce_sum+add"],
    ),
    "moments and extremes of columns are one kernel with four results": (
        lambda x: [ops.reduce_mean(x, **COLUMNS), ops.reduce_mean(x * x, **COLUMNS),
                   ops.reduce_max(x, **COLUMNS), ops.reduce_min(x, **COLUMNS)],
        ["reduce_mean+mul+reduce_mean+reduce_max+reduce_min"],
    ),
    "what only siblings read is computed in their pass": (
        lambda x: [ops.reduce_sum(y := ops.exp(x), **ROWS), ops.reduce_sum(y * x, **ROWS)],
        ["exp+reduce_sum+mul+reduce_sum"],
    ),
    "a reduction that needs the other one follows it": (
        lambda x: ops.reduce_mean((y := x - ops.reduce_mean(x, **ALL, keepdims=True)) * y, **ALL),
        ["reduce_mean", "sub+mul+reduce_mean"],
    ),
    "other axes are another kernel": (
        lambda x: [ops.reduce_sum(x, **ROWS), ops.reduce_max(x, **COLUMNS)],
        ["reduce_sum", "reduce_max"],
    ),
    "another shape of the result is another kernel": (
        lambda x: [ops.reduce_sum(x, **ROWS), ops.reduce_max(x, **ROWS, keepdims=True)],
        ["reduce_sum", "reduce_max"],
    ),
    "reductions of unrelated values stay apart": (
        lambda x, y: [ops.reduce_sum(x, **ROWS), ops.reduce_sum(y, **ROWS)],
        ["reduce_sum", "reduce_sum"],
    ),
    "what setup computes joins no run": (
        lambda x, w: [ops.reduce_sum(w * w, **ROWS), ops.reduce_sum(w * x, **ROWS)],
        ["mul+reduce_sum", "mul+reduce_sum"],
    ),
}  # fmt: skip


@pytest.mark.whole
@pytest.mark.parametrize("case", KERNELS)
def test_which_reductions_share_a_kernel(case: str) -> None:
    formula, expected = KERNELS[case]
    assert kernels(built(formula, SHAPE)) == expected


def test_at_most_four_share_a_pass() -> None:
    six = built(lambda x: [ops.reduce_sum(x * float(n), **ROWS) for n in range(2, 8)], SHAPE)
    assert [label.count("reduce_sum") for label in kernels(six)] == [4, 2]


def test_a_fan_of_reductions_is_no_other_program() -> None:
    def fan(x: Value) -> list[Value]:
        folds = [ops.reduce_sum, ops.reduce_max, ops.reduce_prod, ops.reduce_min, ops.reduce_mean]
        found = [fold(x + float(n), **ROWS) for n in range(9) for fold in folds]
        return [found[0] * found[7], *found[1:]]

    graph = built(fan, SHAPE)
    data = {"x": np.random.default_rng(1).standard_normal(SHAPE).astype(np.float32)}
    for fused, plain in zip(evaluate(fuse()(graph), data), evaluate(graph, data), strict=True):
        np.testing.assert_array_equal(fused, plain)
