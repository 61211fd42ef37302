"""Rematerialization: the same gradients in a smaller arena."""

from __future__ import annotations

import numpy as np
import pytest

from rlx.errors import GraphError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.memory.planner import plan_memory
from rlx.passes.rewrites.common_subexpressions import common_subexpressions
from rlx.passes.rewrites.dead_code import dead_code
from rlx.passes.rewrites.decompose import decompose
from rlx.passes.rewrites.simplify import simplify
from tests.passes.autodiff.checking import Array, tensors

DEPTH, WIDTH, ROWS = 6, 16, 64


def block(x: Value, w: Value) -> Value:
    result: Value = x
    for _ in range(4):
        result = ops.tanh(result @ w)
    return result


def block_body() -> Graph:
    body = Graph("block")
    x, w = body.input("x", (ROWS, WIDTH), "f64"), body.input("w", (WIDTH, WIDTH), "f64")
    body.set_outputs([block(x, w)])
    return body


def network(*, checkpointed: bool) -> Graph:
    """Six blocks of four layers, each block with one weight."""
    graph = Graph("network")
    hidden = graph.input("x", (ROWS, WIDTH), "f64")
    for layer in range(DEPTH):
        w = graph.param(f"w{layer}", (WIDTH, WIDTH), "f64")
        if checkpointed:
            (hidden,) = ops.checkpoint(hidden, w, body=block_body())
        else:
            hidden = block(hidden, w)
    graph.set_outputs([ops.reduce_sum(hidden * hidden, axes=(0, 1))])
    return graph


WEIGHTS = [f"w{layer}" for layer in range(DEPTH)]


def training_step(*, checkpointed: bool) -> Graph:
    """Return loss and gradients as they are planned: bodies inlined, equal nodes merged."""
    step = grad_with_loss(network(checkpointed=checkpointed), WEIGHTS)
    for run in (decompose(claimed=()), simplify, common_subexpressions, dead_code):
        step = run(step)
    return step


def feeds() -> dict[str, Array]:
    (x,) = tensors(1, (ROWS, WIDTH))
    weights = tensors(2, *[(WIDTH, WIDTH)] * DEPTH)
    return {"x": x, "d_output": np.ones(()), **dict(zip(WEIGHTS, weights, strict=True))}


def test_checkpoint_changes_no_bit_of_loss_or_gradients() -> None:
    plain = evaluate(grad_with_loss(network(checkpointed=False), WEIGHTS), feeds())
    again = evaluate(grad_with_loss(network(checkpointed=True), WEIGHTS), feeds())
    for expected, actual in zip(plain, again, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_recomputation_survives_the_merging_of_equal_nodes() -> None:
    def count(graph: Graph) -> int:
        return sum(node.op is ops.tanh for node in graph.nodes)

    assert count(training_step(checkpointed=False)) == 4 * DEPTH
    assert count(training_step(checkpointed=True)) == 2 * 4 * DEPTH


def test_checkpoint_shrinks_the_planned_arena() -> None:
    """Kept activations: 24 without; with, one per block and four inside one block."""
    plain = plan_memory(training_step(checkpointed=False)).live_bytes
    small = plan_memory(training_step(checkpointed=True)).live_bytes
    assert small < 0.6 * plain


def test_barrier_is_a_view_that_costs_no_memory() -> None:
    graph = Graph()
    x, y = graph.input("x", (4,), "f64"), graph.input("y", (4,), "f64")
    held = ops.barrier(x, ops.sin(y))
    graph.set_outputs([held + 1.0])
    plan = plan_memory(graph)
    assert plan.slots[held].offset == plan.slots[x].offset


def test_nested_checkpoints_recompute_inside_the_recomputation() -> None:
    inner = Graph("inner")
    value = inner.input("x", (), "f64")
    inner.set_outputs([ops.sin(ops.exp(value))])
    outer = Graph("outer")
    value = outer.input("x", (), "f64")
    (middle,) = ops.checkpoint(value, body=inner)
    outer.set_outputs([middle * middle])
    graph = Graph()
    x = graph.input("x", (), "f64")
    graph.set_outputs(ops.checkpoint(x, body=outer))
    _, dx = evaluate(grad_with_loss(graph, [x]), {"x": np.array(0.3), "d_output": np.ones(())})
    slope = 2 * np.sin(np.exp(0.3)) * np.cos(np.exp(0.3)) * np.exp(0.3)
    np.testing.assert_allclose(dx, slope, rtol=1e-14)


def test_body_may_have_symbolic_extents() -> None:
    n = Dim("n", max=8)
    body = Graph("body")
    value = body.input("x", (n, 2), "f64")
    body.set_outputs([ops.exp(value) - ops.expand(body.constant(1.0, "f64"), shape=(n, 2))])
    graph = Graph()
    x = graph.input("x", (n, 2), "f64")
    (y,) = ops.checkpoint(x, body=body)
    graph.set_outputs([ops.reduce_sum(y, axes=(0, 1))])
    (x0,) = tensors(3, (5, 2))
    _, dx = evaluate(grad_with_loss(graph, [x]), {"x": x0, "d_output": np.ones(())})
    np.testing.assert_allclose(dx, np.exp(x0))


def test_operands_must_fit_the_body_and_the_body_has_no_params() -> None:
    graph = Graph()
    x = graph.input("x", (3,), "f64")
    with pytest.raises(GraphError, match=r"f64\[3\].*takes f64\[64, 16\]"):
        ops.checkpoint(x, body=block_body())
    body = Graph("trained")
    value = body.input("x", (3,), "f64")
    body.set_outputs([value * body.param("w", (3,), "f64")])
    with pytest.raises(GraphError, match="has params"):
        ops.checkpoint(x, body=body)
