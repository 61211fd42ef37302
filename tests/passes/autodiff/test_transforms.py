"""`grad_with_loss`, `grad`, `jvp` and `hvp`: what their graphs take, give and refuse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from rlx.errors import GraphError, NoRuleError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.autodiff import (
    TRAINING,
    MissingGradientError,
    NoDerivativeError,
    NonDifferentiableError,
    UnknownInputError,
    grad,
    grad_with_loss,
    hvp,
    jvp,
    jvp_in_graph,
    vjp_in_graph,
)
from rlx.passes.autodiff.reverse import differentiate
from rlx.passes.rewrites.dead_code import dead_code
from tests.passes.autodiff.checking import Array, tensors


def ones(*shape: int) -> Array:
    return np.ones(shape)


def names(graph: Graph) -> list[str | None]:
    return [value.node.name for value in graph.inputs]


def product_and_sum() -> Graph:
    """Loss sum(x * w), aux x + w."""
    g = Graph("f")
    x, w = g.input("x", (3,), "f64"), g.param("w", (3,), "f64")
    g.set_outputs([ops.reduce_sum(x * w, axes=(0,)), x + w])
    return g


# Reverse mode


def test_outputs_are_loss_then_auxiliaries_then_gradients_in_wrt_order() -> None:
    x, w = tensors(1, (3,), (3,))
    step = grad_with_loss(product_and_sum(), ["w", "x", "w"])
    loss, aux, dw, dx, dw_again = evaluate(step, {"x": x, "w": w, "d_output": ones()})
    np.testing.assert_allclose(loss, x @ w)
    np.testing.assert_array_equal(aux, x + w)
    np.testing.assert_array_equal(dw, x)
    np.testing.assert_array_equal(dw_again, x)
    np.testing.assert_array_equal(dx, w)
    assert step.name == "f_grad"


def test_grad_gives_the_gradients_alone() -> None:
    assert len(grad(product_and_sum(), ["x"]).outputs) == 1


def test_grad_of_a_sum_of_two_inputs_has_two_outputs_and_with_loss_three() -> None:
    g = Graph()
    x, y = g.input("x", (2,), "f32"), g.input("y", (2,), "f32")
    g.set_outputs([x + y])
    assert len(grad(g, [x, y]).outputs) == 2
    assert len(grad_with_loss(g, [x, y]).outputs) == 3


def test_loss_of_any_shape_gives_a_vector_jacobian_product() -> None:
    g = Graph()
    x = g.input("x", (3,), "f64")
    g.set_outputs([ops.sin(x)])
    (x0, seed) = tensors(2, (3,), (3,))
    _, dx = evaluate(grad_with_loss(g, [x]), {"x": x0, "d_output": seed})
    np.testing.assert_allclose(dx, seed * np.cos(x0))


def test_wrt_the_loss_itself_is_the_seed() -> None:
    g = product_and_sum()
    step = grad_with_loss(g, [g.outputs[0]])
    assert step.outputs[-1] is step.leaf("d_output")


def test_wrt_may_be_an_intermediate_value_and_passes_on_its_cotangent() -> None:
    g = Graph()
    x = g.input("x", (), "f64")
    hidden = ops.sin(x)
    g.set_outputs([hidden * hidden])
    _, d_hidden, dx = evaluate(
        grad_with_loss(g, [hidden, x]), {"x": np.array(0.3), "d_output": ones()}
    )
    np.testing.assert_allclose(d_hidden, 2 * np.sin(0.3))
    np.testing.assert_allclose(dx, 2 * np.sin(0.3) * np.cos(0.3))


def test_wrt_means_the_same_leaf_after_a_fused_op_was_taken_apart() -> None:
    body = Graph("body")
    inner = body.input("x0", (2,), "f64")
    body.set_outputs([ops.exp(ops.sin(inner))])
    g = Graph()
    x = g.input("x", (2,), "f64")
    (fused,) = ops.fused(x, body=body)
    w = g.param("w", (2,), "f64")  # declared after the op that becomes several nodes
    g.set_outputs([ops.reduce_sum(fused * w, axes=(0,))])
    x0, w0 = tensors(3, (2,), (2,))
    step = grad_with_loss(g, [w, x])
    _, dw, dx = evaluate(step, {"x": x0, "w": w0, "d_output": ones()})
    np.testing.assert_allclose(dw, np.exp(np.sin(x0)))
    np.testing.assert_allclose(dx, w0 * np.exp(np.sin(x0)) * np.cos(x0))
    assert all(node.op is not ops.fused for node in step.nodes)


def test_seed_takes_the_first_free_name_and_says_which() -> None:
    g = Graph()
    x, taken = g.input("x", (), "f64"), g.input("d_output", (), "f64")
    g.set_outputs([x * taken])
    gradient = differentiate(g, [x])
    assert gradient.seed == "d_output_1"
    assert names(gradient.graph)[-1] == "d_output_1"
    assert differentiate(gradient.graph, ["x"]).seed == "d_output_2"


def test_contributions_add_from_the_last_consumer_on() -> None:
    g = Graph()
    x = g.input("x", (), "f64")
    g.set_outputs([ops.sin(x) + ops.exp(x)])
    total = grad_with_loss(g, [x]).outputs[1].node
    assert total.op is ops.add
    last_consumer, first_consumer = (operand.node for operand in total.operands)
    assert ops.exp in {operand.op for operand in last_consumer.operands}
    assert ops.cos in {operand.op for operand in first_consumer.operands}


def test_unreached_wrt_is_an_error_that_names_it_or_a_zero_of_its_type() -> None:
    g = Graph()
    x, idle = g.input("x", (), "f64"), g.param("idle", (2, 3), "f64")
    g.set_outputs([ops.sin(x)])
    with pytest.raises(MissingGradientError, match="'idle'") as caught:
        grad_with_loss(g, [x, idle])
    assert caught.value.names == ("idle",)
    *_, zero = evaluate(
        grad_with_loss(g, [x, idle], missing=TRAINING),
        {"x": ones(), "idle": ones(2, 3), "d_output": ones()},
    )
    np.testing.assert_array_equal(zero, np.zeros((2, 3)))
    assert zero.dtype == np.float64


def test_stop_gradient_cuts_the_path() -> None:
    g = Graph()
    x = g.input("x", (), "f64")
    g.set_outputs([ops.stop_gradient(x)])
    with pytest.raises(MissingGradientError):
        grad_with_loss(g, [x])


def test_integer_wrt_and_integer_loss_are_refused() -> None:
    g = Graph()
    x, i = g.input("x", (3,), "f32"), g.input("i", (3,), "i32")
    g.set_outputs([ops.argmax(x, axis=0)])
    with pytest.raises(NonDifferentiableError, match="the loss has dtype i64"):
        grad_with_loss(g, [x])
    g.set_outputs([x])
    with pytest.raises(NonDifferentiableError, match="'i' has dtype i32"):
        grad_with_loss(g, [i])


def test_graph_without_outputs_and_unknown_names_are_errors() -> None:
    g = Graph("empty")
    x = g.input("x", (), "f32")
    with pytest.raises(GraphError, match="no outputs"):
        grad_with_loss(g, [x])
    g.set_outputs([x])
    with pytest.raises(GraphError, match="no input or param 'y'"):
        grad_with_loss(g, ["y"])
    with pytest.raises(UnknownInputError, match="belongs to graph 'other'"):
        grad_with_loss(g, [Graph("other").input("x", (), "f32")])


def test_op_without_a_rule_is_an_error_only_on_the_way_to_wrt() -> None:
    mystery = dataclasses.replace(ops.sin, name="mystery")
    g = Graph()
    x, y = g.input("x", (), "f64"), g.input("y", (), "f64")
    g.set_outputs([x * mystery(y)])
    grad_with_loss(g, [x])
    with pytest.raises(NoDerivativeError, match="mystery has no reverse-mode") as caught:
        grad_with_loss(g, [y])
    assert isinstance(caught.value, NoRuleError)
    assert caught.value.source is not None
    assert caught.value.source.file == __file__
    with pytest.raises(NoDerivativeError, match="forward-mode"):
        jvp(g, [y])


def test_backward_nodes_carry_the_source_line_and_scope_of_their_primal() -> None:
    g = Graph()
    x = g.input("x", (), "f64")
    with g.scope("encoder"):
        g.set_outputs([ops.sin(x)])
    primal, gradient = g.outputs[0].node, grad_with_loss(g, [x]).outputs[1].node
    assert gradient.source == primal.source
    assert gradient.scope == "encoder"


def test_inactive_operands_get_no_backward_nodes() -> None:
    """The logarithm of a negative base is never taken when only the base moves."""
    g = Graph()
    a = g.input("a", (2,), "f64")
    g.set_outputs([a**3.0])
    step = grad_with_loss(g, [a])
    assert all(node.op is not ops.log for node in step.nodes)
    _, da = evaluate(step, {"a": np.array([-2.0, 0.0]), "d_output": ones(2)})
    np.testing.assert_allclose(da, [12.0, 0.0])


def test_donations_survive() -> None:
    g = Graph()
    x, w = g.input("x", (2,), "f64"), g.param("w", (2,), "f64")
    updated = w - x
    g.set_outputs([ops.reduce_sum(updated * w, axes=(0,)), updated], donated={w: updated})
    assert grad_with_loss(g, [x]).donations == {"w": 1}


# A backward program as one would write it


def mlp() -> Graph:
    g = Graph("mlp")
    x, y = g.input("x", (8, 5), "f32"), g.input("y", (8,), "i64")
    w1, b1 = g.param("w1", (5, 6), "f32"), g.param("b1", (6,), "f32")
    w2, b2 = g.param("w2", (6, 3), "f32"), g.param("b2", (3,), "f32")
    hidden = ops.relu(x @ w1 + b1)
    losses = ops.softmax_cross_entropy_with_logits(hidden @ w2 + b2, y)
    g.set_outputs([ops.reduce_mean(losses, axes=(0,))])
    return g


def test_training_step_of_an_mlp_has_the_operations_of_a_hand_written_one() -> None:
    graph = mlp()
    step = grad_with_loss(graph, ["w1", "b1", "w2", "b2"])
    backward = [node.op.name for node in step.nodes[len(graph.nodes) :]]
    mean = ["input", "constant", "mul", "expand"]  # 1/8 of the seed, broadcast
    layer = ["reduce_sum", "transpose", "matmul"]  # bias and weight
    relu = ["transpose", "matmul", "constant", "constant", "gt", "where"]
    loss = ["softmax_cross_entropy_backward"]
    assert sorted(backward) == sorted([*mean, *loss, *layer, *relu, *layer])


def test_backward_program_has_no_dead_code() -> None:
    step = grad_with_loss(mlp(), ["w1", "b1", "w2", "b2"])
    assert dead_code(step) is step


def test_weight_shared_by_a_batch_gets_one_product_and_no_sum() -> None:
    g = Graph()
    x, w = g.input("x", (7, 4, 3), "f32"), g.param("w", (3, 2), "f32")
    g.set_outputs([x @ w])
    step = grad_with_loss(g, [w])
    assert step.outputs[1].op is ops.matmul
    assert all(node.op is not ops.reduce_sum for node in step.nodes)


def test_unbroadcast_is_one_reduction() -> None:
    g = Graph()
    x, b = g.input("x", (4, 3, 2, 5), "f32"), g.param("b", (3, 1, 5), "f32")
    g.set_outputs([x + b])
    sums = [node for node in grad_with_loss(g, [b]).nodes if node.op is ops.reduce_sum]
    assert len(sums) == 1


# Forward mode


def test_jvp_outputs_are_primals_then_tangents() -> None:
    g = product_and_sum()
    x, w, t = tensors(4, (3,), (3,), (3,))
    pushed = jvp(g, ["x"])
    loss, aux, t_loss, t_aux = evaluate(pushed, {"x": x, "w": w, "tangent_x": t})
    np.testing.assert_allclose([loss, t_loss], [x @ w, t @ w])
    np.testing.assert_array_equal(aux, x + w)
    np.testing.assert_array_equal(t_aux, t)
    assert pushed.name == "f_jvp"
    assert names(pushed) == ["x", "tangent_x"]


def test_tangent_of_an_independent_output_is_zero_of_its_type() -> None:
    g = Graph()
    x, y = g.input("x", (2,), "f64"), g.input("y", (2, 2), "f32")
    g.set_outputs([ops.sin(y), ops.argmax(x, axis=0)])
    pushed = jvp(g, [x])
    assert [output.type for output in pushed.outputs[2:]] == [o.type for o in g.outputs]
    feeds = {"x": ones(2), "y": np.ones((2, 2), np.float32), "tangent_x": ones(2)}
    np.testing.assert_array_equal(evaluate(pushed, feeds)[2], np.zeros((2, 2)))


def test_tangent_of_one_operand_has_the_shape_of_the_broadcast_result() -> None:
    g = Graph()
    x, y = g.input("x", (3,), "f64"), g.input("y", (2, 3), "f64")
    g.set_outputs([x + y, x - y, ops.maximum(x, y), ops.where(y > 0.0, x, y)])
    assert {output.shape for output in jvp(g, [x]).outputs[4:]} == {(2, 3)}


def test_tangent_inputs_avoid_taken_names() -> None:
    g = Graph()
    x, taken = g.input("x", (), "f64"), g.input("tangent_x", (), "f64")
    g.set_outputs([x * taken])
    assert names(jvp(g, [x]))[-1] == "tangent_x_1"


def test_tangents_enter_at_floating_leaves_only() -> None:
    g = Graph()
    x, i = g.input("x", (2,), "f32"), g.input("i", (2,), "i32")
    hidden = ops.sin(x)
    g.set_outputs([hidden])
    with pytest.raises(UnknownInputError, match="result of sin"):
        jvp(g, [hidden])
    with pytest.raises(NonDifferentiableError, match="'i' has dtype i32"):
        jvp(g, [i])


# Second order


@pytest.mark.parametrize(
    ("power", "x", "v", "expected"),
    [
        (2, [1, 2, 3, 4], [0.5, -0.25, 1, -1.5], lambda _, v: 2 * v),
        (4, [0.5, -1, 2], [1, 0.25, -0.5], lambda x, v: 12 * x**2 * v),
    ],
)
def test_hvp_gives_loss_gradient_their_tangents_and_the_product(
    power: int, x: list[float], v: list[float], expected: object
) -> None:
    g = Graph()
    value = g.input("x", (len(x),), "f64")
    g.set_outputs([ops.reduce_sum(value ** float(power), axes=(0,))])
    x0, v0 = np.array(x, float), np.array(v)
    feeds = {"x": x0, "tangent_x": v0, "d_output": ones()}
    loss, gradient, t_loss, product = evaluate(hvp(g, [value]), feeds)
    slope = power * x0 ** (power - 1)
    np.testing.assert_allclose(loss, np.sum(x0**power), rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-12)
    np.testing.assert_allclose(t_loss, slope @ v0, rtol=1e-12)
    np.testing.assert_allclose(product, expected(x0, v0), rtol=1e-9)  # type: ignore[operator]


def test_derivatives_nest_to_third_order() -> None:
    g = Graph()
    x = g.input("x", (), "f64")
    g.set_outputs([ops.exp(2.0 * x)])
    third = g
    for _ in range(3):
        third = grad(third, ["x"])
    feeds = {"x": np.array(0.3), "d_output": ones(), "d_output_1": ones(), "d_output_2": ones()}
    np.testing.assert_allclose(evaluate(third, feeds)[0], 8 * np.exp(0.6))


# Inside a graph


def test_sweeps_append_to_the_graph_they_differentiate_and_nest() -> None:
    g = Graph()
    x = g.input("x", (), "f64")
    y = ops.sin(x)
    (dx,) = vjp_in_graph(g, [y], [x], [g.constant(1.0, "f64")])
    assert isinstance(dx, Value)
    (ddx,) = jvp_in_graph(g, [dx], [x], [g.constant(1.0, "f64")])
    assert isinstance(ddx, Value)
    g.set_outputs([dx, ddx])
    first, second = evaluate(g, {"x": np.array(0.4)})
    np.testing.assert_allclose([first, second], [np.cos(0.4), -np.sin(0.4)])


def test_symbolic_extents_are_differentiated_as_they_are() -> None:
    n = Dim("n", max=8)
    g = Graph()
    x, w = g.input("x", (n, 3), "f64"), g.param("w", (3,), "f64")
    product = ops.reduce_prod(x, axes=(0,)) * w
    g.set_outputs([ops.reduce_sum(ops.reduce_mean(ops.sin(x), axes=(0,)) + product, axes=(0,))])
    x0, w0 = tensors(6, (4, 3), (3,))
    _, dx, dw = evaluate(grad_with_loss(g, [x, w]), {"x": x0, "w": w0, "d_output": ones()})
    np.testing.assert_allclose(dx, np.cos(x0) / 4 + x0.prod(axis=0) / x0 * w0)
    np.testing.assert_allclose(dw, x0.prod(axis=0))
