"""vmap with grad, jvp, itself, fusion and rematerialization."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss, hvp, jvp
from rlx.passes.vmap import vmap
from tests.passes.vmap.checking import Array, Feeds, assert_is_loop, looped, tensors
from tests.properties.typed_graphs import f32_graphs, typed_feeds

SIZE = 3


def attention_block(x: Value, w: Value, gain: Value) -> Value:
    """One head of attention between a product and a norm, on x [4, 6]."""
    hidden = ops.tanh(x @ w)
    mixed = ops.attention(
        hidden, hidden, hidden, num_heads=2, head_dim=3, mask_kind="causal", softcap=2.0
    )
    return ops.layer_norm(hidden + mixed, gain, gain, axis=-1, eps=1e-5)


def loss() -> Graph:
    """Cross-entropy of one example's rows, with a lookup in a table of classes."""
    graph = Graph("loss")
    x, labels = graph.input("x", (4, 6), "f64"), graph.input("labels", (4,), "i64")
    w, gain = graph.input("w", (6, 6), "f64"), graph.input("gain", (6,), "f64")
    hidden = attention_block(x, w, gain) + ops.gather(w, labels, axis=0)
    rows = ops.softmax_cross_entropy_with_logits(hidden, labels)
    graph.set_outputs([ops.reduce_mean(rows, axes=(0,))])
    return graph


def loss_feeds() -> Feeds:
    x, w, gain = tensors(11, (SIZE, 4, 6), (6, 6), (6,))
    labels = np.array([[0, 1, 1, 5], [2, 2, 2, 2], [4, 0, 3, 1]])
    return {"x": x, "labels": labels, "w": w, "gain": gain, "d_output": np.ones(())}


def assert_close(given: list[Array], expected: list[Array], bound: float = 1e-10) -> None:
    assert len(given) == len(expected)
    for array, reference in zip(given, expected, strict=True):
        np.testing.assert_allclose(array, reference, rtol=bound, atol=bound)


def test_gradient_per_example_of_shared_weights_is_a_loop() -> None:
    gradient = grad_with_loss(loss(), ["x", "w", "gain"])
    assert_is_loop(gradient, loss_feeds(), {"x": 0, "labels": 0}, SIZE, rtol=1e-10, atol=1e-10)


def test_gradient_of_a_batched_loss_is_the_gradients_of_its_examples() -> None:
    feeds = loss_feeds()
    per_example = looped(grad_with_loss(loss(), ["x", "w"]), feeds, {"x": 0, "labels": 0}, SIZE)
    whole = grad_with_loss(vmap(loss(), {"x": 0, "labels": 0}, size=SIZE), ["x", "w"])
    losses, dx, dw = evaluate(whole, {**feeds, "d_output": np.ones(SIZE)})
    assert_close([losses, dx, dw], [per_example[0], per_example[1], per_example[2].sum(0)])


def test_second_derivative_of_a_batched_loss_is_that_of_its_examples() -> None:
    feeds = loss_feeds()
    (direction,) = tensors(12, (6, 6))
    moving = {**feeds, "tangent_w": direction}
    axes = {"x": 0, "labels": 0}
    per_example = looped(hvp(loss(), ["w"]), moving, axes, SIZE)
    batched = jvp(grad_with_loss(vmap(loss(), axes, size=SIZE), ["w"]), ["w"])
    *_, product = evaluate(batched, {**moving, "d_output": np.ones(SIZE)})
    assert_close([product], [per_example[-1].sum(0)])


def test_hessian_is_hvp_batched_over_unit_tangents() -> None:
    graph = Graph("quartic")
    x, a = graph.input("x", (4,), "f64"), graph.input("a", (4, 4), "f64")
    column = ops.reshape(x, shape=(4, 1))
    form = ops.reduce_sum(column * (a @ column), axes=(0, 1))
    graph.set_outputs([form + ops.reduce_sum(x * x * x * x, axes=(0,))])
    point, matrix = tensors(13, (4,), (4, 4))
    feeds = {"x": point, "a": matrix, "d_output": np.ones(()), "tangent_x": np.eye(4)}
    rows = vmap(hvp(graph, ["x"]), {"tangent_x": 0}, size=4)
    *_, hessian = evaluate(rows, feeds)
    assert_close([hessian], [matrix + matrix.T + np.diag(12 * point**2)])


def test_vmap_of_vmap_is_a_loop_of_loops() -> None:
    graph = Graph("pairs")
    x, table = graph.input("x", (3,), "f64"), graph.input("table", (5, 3), "f64")
    index = graph.input("index", (), "i64")
    graph.set_outputs([ops.softmax(x * ops.gather(table, index, axis=0), axis=0)])
    inner = vmap(graph, {"x": 0, "index": 0}, size=2)
    outer = vmap(inner, {"x": 1, "table": 0}, 2, size=4)
    x_data, tables = tensors(14, (2, 4, 3), (4, 5, 3))
    index_data = np.array([4, 1])
    (given,) = evaluate(outer, {"x": x_data, "table": tables, "index": index_data})
    products = x_data * np.stack([tables[:, i] for i in index_data])
    weights = np.exp(products) / np.exp(products).sum(-1, keepdims=True)
    np.testing.assert_allclose(given, weights.transpose(0, 2, 1), rtol=1e-12)


def fused_graph() -> Graph:
    """A fused softmax with work before and after it, on a batched and a shared operand."""
    body = Graph("body")
    a, b = body.input("x0", (2, 5), "f64"), body.input("x1", (5,), "f64")
    body.set_outputs([ops.softmax(a * b, axis=-1) + b])
    graph = Graph("fused")
    x, w = graph.input("x", (2, 5), "f64"), graph.input("w", (5,), "f64")
    graph.set_outputs(ops.fused(x, w, body=body))
    return graph


def test_fused_op_is_batched_through_its_body() -> None:
    x, w = tensors(15, (SIZE, 2, 5), (5,))
    assert_is_loop(fused_graph(), {"x": x, "w": w}, {"x": 0}, SIZE)
    batched = vmap(fused_graph(), {"x": 0}, size=SIZE)
    assert all(node.op is not ops.fused for node in batched.nodes)


def test_fused_op_that_all_examples_share_stays_fused() -> None:
    batched = vmap(fused_graph(), {}, None, size=SIZE)
    assert [node.op.name for node in batched.nodes] == ["input", "input", "fused"]


def checkpointed() -> Graph:
    """A checkpoint with one result that depends on x and one that depends on w alone."""
    body = Graph("body")
    a, b = body.input("a", (2, 3), "f64"), body.input("b", (3, 3), "f64")
    body.set_outputs([ops.sin(a @ b), ops.exp(b)])
    graph = Graph("checkpointed")
    x, w = graph.input("x", (2, 3), "f64"), graph.input("w", (3, 3), "f64")
    mixed, scale = ops.checkpoint(x, w, body=body)
    graph.set_outputs([ops.reduce_sum(mixed @ scale, axes=(0, 1))])
    return graph


def test_checkpoint_stays_one_and_its_shared_results_stay_shared() -> None:
    x, w = tensors(16, (SIZE, 2, 3), (3, 3))
    assert_is_loop(checkpointed(), {"x": x, "w": w}, {"x": 0}, SIZE)
    batched = vmap(checkpointed(), {"x": 0}, size=SIZE)
    (node,) = [node for node in batched.nodes if node.op is ops.checkpoint]
    assert [result.shape for result in node.results] == [(SIZE, 2, 3), (3, 3)]


def test_recomputed_gradient_per_example_is_a_loop() -> None:
    gradient = grad_with_loss(checkpointed(), ["x", "w"])
    x, w = tensors(17, (SIZE, 2, 3), (3, 3))
    feeds = {"x": x, "w": w, "d_output": np.ones(())}
    assert_is_loop(gradient, feeds, {"x": 0}, SIZE)


def test_weights_that_wait_for_batched_cotangents_are_not_repeated() -> None:
    batched = vmap(grad_with_loss(checkpointed(), ["x", "w"]), {"x": 0}, size=SIZE)
    waiting = [node for node in batched.nodes if node.op is ops.barrier]
    assert {node.result.shape for node in waiting} == {(SIZE, 2, 3), (3, 3)}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(f32_graphs(donations=False, most_steps=10), st.integers(0, 7))
def test_random_program_batched_over_some_inputs_is_a_loop(graph: Graph, choice: int) -> None:
    names = [str(leaf.node.name) for leaf in graph.inputs]
    mapped = {name: 0 for bit, name in enumerate(names) if choice >> bit & 1}
    draws = [typed_feeds(graph, seed) for seed in range(SIZE)]
    feeds = {n: np.stack([d[n] for d in draws]) if n in mapped else a for n, a in draws[0].items()}
    with np.errstate(all="ignore"):
        assert_is_loop(graph, feeds, mapped, SIZE, rtol=1e-4, atol=1e-4)


def test_batched_program_has_the_source_lines_and_scopes_of_its_example() -> None:
    graph = Graph("scoped")
    x = graph.input("x", (2, 3), "f64")
    with graph.scope("head"):
        y: Any = ops.softmax(x, axis=-1)
    graph.set_outputs([y])
    (result,) = vmap(graph, [1], size=SIZE).outputs
    assert result.node.scope == "head"
    assert result.node.source == y.node.source
