"""Sums move up to where their operands are there."""

from __future__ import annotations

from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.passes.communication.hoist_collectives import hoist_collectives
from rlx.passes.communication.start_collectives import start_collectives
from tests.passes.communication.test_bundle_collectives import graph_of
from tests.passes.communication.test_start_collectives import names

X = np.random.default_rng(0).normal(size=(72, 64)).astype(np.float32)


def test_a_sum_follows_its_operand() -> None:
    def step(x: Any) -> Any:
        first = x @ x.T
        second = x.T @ x
        return rlx.distributed.psum(first, "ranks"), rlx.distributed.psum(second, "ranks")

    assert names(hoist_collectives(graph_of(step, X))) == [
        "matmul", "all_reduce", "matmul", "all_reduce",
    ]  # fmt: skip


def test_reductions_of_one_value_and_of_each_other_keep_their_order() -> None:
    def step(x: Any) -> Any:
        product = rnp.tanh(x) @ x.T
        twice = rlx.distributed.psum(rlx.distributed.psum(x, "ranks"), "ranks")
        return product, twice, rlx.distributed.pmax(x, "ranks"), rlx.distributed.pmin(x, "ranks")

    graph = hoist_collectives(graph_of(step, X))
    assert names(graph) == ["all_reduce"] * 4 + ["matmul"]
    reductions = [node for node in graph.nodes if node.op.name == "all_reduce"]
    assert [node.attribute("reduction") for node in reductions] == ["sum", "sum", "max", "min"]
    assert hoist_collectives(graph) is graph


def test_a_graph_without_sums_is_the_same_object() -> None:
    graph = graph_of(lambda x: rnp.tanh(x) @ x.T, X)
    assert hoist_collectives(graph) is graph


def test_gradients_of_the_last_layer_are_under_way_while_those_of_the_first_are_computed() -> None:
    def step(u: Any, v: Any, x: Any) -> Any:
        def loss(u: Any, v: Any) -> Any:
            return rnp.sum(rnp.tanh(rnp.tanh(rlx.distributed.pvary(x, "ranks") @ u) @ v))

        return [gradient * 0.5 for gradient in rlx.grad(loss, argnums=(0, 1))(u, v)]

    weights = np.ones((64, 64), np.float32)
    graph = start_collectives(hoist_collectives(graph_of(step, weights, weights, X)))
    order = names(graph)
    first = order.index("all_reduce_start")
    assert "matmul" in order[first : order.index("all_reduce_start", first + 1)]
    assert order[-4:].count("all_reduce_done") == 2
    waits = [node for node in graph.nodes if node.op.name == "all_reduce_done"]
    starts = [node for node in graph.nodes if node.op.name == "all_reduce_start"]
    assert [wait.operands[1].node for wait in waits] == starts
