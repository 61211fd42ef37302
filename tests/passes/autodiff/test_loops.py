"""Derivatives of loops, branches and custom functions, against JAX and finite differences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import NoDerivativeError, grad_with_loss, hvp, jvp
from rlx.passes.memory.planner import plan_memory
from rlx.runtime.compile import compile as compile_graph
from rlx.runtime.lower import lower_for
from rlx.target import detect_target
from tests.loop_programs import (
    Types,
    everywhere,
    f64,
    graph_of,
    growing,
    recurrent,
    recurrent_feeds,
)

ONE = {"d_output": f64(1.0)}
NAMES = ["c", "w", "xs"]


def jax_loss(*, reverse: bool = False) -> Any:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    jnp = jax.numpy

    def step(c: Any, w: Any, x: Any) -> Any:
        following = jnp.tanh(c @ w + x)
        return following, following * c

    def loss(c: Any, w: Any, xs: Any) -> Any:
        last, rows = jax.lax.scan(lambda c, x: step(c, w, x), c, xs, reverse=reverse)
        return (last * last).sum() + (rows * rows).sum()

    return loss


@pytest.mark.parametrize("size", [3, 70])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoints", [None, 1, 4, 11])
def test_gradients_of_a_scan_are_those_of_jax(
    size: int, reverse: bool, checkpoints: int | None
) -> None:
    loss = jax_loss(reverse=reverse)
    jax = pytest.importorskip("jax")
    feeds = recurrent_feeds(size)
    wanted = jax.value_and_grad(loss, argnums=(0, 1, 2))(*feeds.values())
    graph = recurrent(size, checkpoints=checkpoints, reverse=reverse)
    found = everywhere(grad_with_loss(graph, NAMES), feeds | ONE, rtol=1e-9)
    for a, b in zip(found, (wanted[0], *wanted[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("checkpoints", list(range(1, 12)))
def test_checkpoints_change_no_bit_of_the_gradients_of_carries_and_rows(checkpoints: int) -> None:
    feeds = recurrent_feeds() | ONE
    plain = evaluate(grad_with_loss(recurrent(), NAMES), feeds)
    again = evaluate(grad_with_loss(recurrent(checkpoints=checkpoints), NAMES), feeds)
    for position in (0, 1, 3):
        np.testing.assert_array_equal(plain[position], again[position])
    np.testing.assert_allclose(plain[2], again[2], rtol=1e-13)


@pytest.mark.parametrize("checkpoints", [1, 2, 3, 4, 6, 12])
def test_equal_segments_add_the_gradients_of_consts_in_the_same_order(checkpoints: int) -> None:
    feeds = recurrent_feeds(3, 12) | ONE
    plain = evaluate(grad_with_loss(recurrent(3, 12), NAMES), feeds)
    graph = grad_with_loss(recurrent(3, 12, checkpoints=checkpoints), NAMES)
    for a, b in zip(plain, evaluate(graph, feeds), strict=True):
        np.testing.assert_array_equal(a, b)


def arena(length: int, checkpoints: int | None) -> int:
    graph = grad_with_loss(recurrent(3, length, checkpoints=checkpoints), ["c", "w"])
    plan = lower_for(graph, detect_target()).plan
    given = plan_memory(recurrent(3, length)).arena_bytes
    return plan.arena_bytes - given


def test_checkpoints_bound_the_memory_of_the_gradient() -> None:
    """All steps are stored without them; with sqrt(L), memory grows like the root."""
    everything = arena(10_000, None)
    assert everything > 10_000 * 3 * 8
    few, more = arena(2_500, 50), arena(10_000, 100)
    assert more < everything / 10
    assert more < 3 * few


def planned(length: int, checkpoints: int | None, *, body_again: bool = False) -> int:
    """Return the bytes that the gradient of a scan without rows takes."""
    types: Types = {"c": ((8,), "f64")}
    turn = graph_of("turn", types, lambda c: ops.tanh(ops.sin(c) * 1.1))
    again = graph_of("again", types, lambda c: ops.checkpoint(c, body=turn))
    step = again if body_again else turn

    def loss(c: Value) -> Value:
        last: Value = ops.scan(c, body=step, length=length, num_carries=1, checkpoints=checkpoints)[
            0
        ]
        return ops.reduce_sum(last, axes=(0,))

    graph = grad_with_loss(graph_of("loss", types, loss), ["c"])
    return lower_for(graph, detect_target()).plan.arena_bytes


def test_the_arena_of_a_checkpointed_gradient_grows_like_the_root_of_the_length() -> None:
    sizes = [planned(length, math.isqrt(length)) for length in (100, 400, 1600, 6400, 10_000)]
    shares = [size / root for size, root in zip(sizes, (10, 20, 40, 80, 100), strict=True)]
    assert max(shares) / min(shares) < 2
    assert sizes[-1] < planned(10_000, None) / 30


def test_the_arena_follows_the_number_of_checkpoints() -> None:
    """`K` carries, and the residuals of one segment of `L / K` steps."""
    per_carry = 8 * 8
    for checkpoints in (10, 100, 1000):
        size = planned(10_000, checkpoints)
        stored = per_carry * (checkpoints + 3 * 10_000 // checkpoints)
        assert per_carry * checkpoints < size < 2 * stored


def test_a_checkpointed_body_leaves_its_carries_to_store() -> None:
    assert planned(1000, None, body_again=True) < 1.2 * 1000 * 8 * 8 < planned(1000, None)


def test_forward_mode_follows_carries_rows_and_consts() -> None:
    jax = pytest.importorskip("jax")
    feeds = recurrent_feeds()
    tangents = {f"tangent_{n}": np.cos(x) for n, x in feeds.items()}
    _, wanted = jax.jvp(jax_loss(), tuple(feeds.values()), tuple(tangents.values()))
    found = everywhere(jvp(recurrent(), NAMES), feeds | tangents, rtol=1e-10)
    np.testing.assert_allclose(found[1], wanted, rtol=1e-10)


def test_a_carry_gets_a_tangent_from_the_rows_alone() -> None:
    body = graph_of("add", {"c": ((), "f64"), "x": ((), "f64")}, lambda c, x: c + x * x)
    graph = graph_of(
        "sum",
        {"c": ((), "f64"), "xs": ((3,), "f64")},
        lambda c, xs: ops.scan(c, xs, body=body, length=3, num_carries=1),
    )
    feeds = {"c": f64(1.0), "xs": f64(1, 2, 3), "tangent_xs": f64(1, 0, 1)}
    assert everywhere(jvp(graph, ["xs"]), feeds)[1] == 8


@pytest.mark.parametrize("checkpoints", [None, 3])
def test_hessian_products_through_a_scan_are_those_of_jax(checkpoints: int | None) -> None:
    jax = pytest.importorskip("jax")
    feeds = recurrent_feeds()
    tangents = {f"tangent_{n}": np.cos(x) for n, x in feeds.items()}
    gradient = jax.grad(jax_loss(), argnums=(0, 1, 2))
    _, wanted = jax.jvp(gradient, tuple(feeds.values()), tuple(tangents.values()))
    graph = hvp(recurrent(checkpoints=checkpoints), NAMES)
    found = everywhere(graph, feeds | tangents | ONE, rtol=1e-8)
    for a, b in zip(found[-3:], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_reverse_over_reverse_through_a_scan_is_that_of_jax() -> None:
    jax = pytest.importorskip("jax")
    feeds = recurrent_feeds()
    first = grad_with_loss(recurrent(), ["w"])
    square = ops.reduce_sum(first.outputs[1] * first.outputs[1], axes=(0, 1))
    first.set_outputs([square])
    second = grad_with_loss(first, ["c", "w"])
    found = everywhere(second, feeds | ONE | {"d_output_1": f64(1.0)}, rtol=1e-8)
    loss = jax_loss()

    def norm(c: Any, w: Any) -> Any:
        return (jax.grad(loss, argnums=1)(c, w, feeds["xs"]) ** 2).sum()

    wanted = jax.grad(norm, argnums=(0, 1))(feeds["c"], feeds["w"])
    for a, b in zip(found[1:], wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def test_a_row_of_integers_is_scanned_with_differentiable_ones() -> None:
    types: Types = {"c": ((2,), "f64"), "n": ((), "i32")}
    body = graph_of("scale", types, lambda c, n: c * ops.cast(n, to="f64"))

    def loss(c: Value, ns: Value) -> Value:
        (last,) = ops.scan(c, ns, body=body, length=3, num_carries=1)
        return ops.reduce_sum(last, axes=(0,))

    graph = grad_with_loss(
        graph_of("scaled", {"c": ((2,), "f64"), "ns": ((3,), "i32")}, loss), ["c"]
    )
    feeds = {"c": f64(1, 2), "ns": np.array([2, 3, 4], np.int32)}
    np.testing.assert_array_equal(everywhere(graph, feeds | ONE)[1], [24, 24])


def test_forward_and_reverse_mode_agree_on_a_while_loop() -> None:
    feeds = {"a": f64(0.7), "k": f64(1.3)}
    reverse = evaluate(grad_with_loss(growing(), ["a", "k"]), feeds | ONE)
    for name, wanted in zip(("a", "k"), reverse[2:], strict=True):
        pushed = everywhere(jvp(growing(None), [name]), feeds | {f"tangent_{name}": f64(1.0)})
        np.testing.assert_allclose(pushed[2], wanted, rtol=1e-12)


def test_an_unbounded_while_loop_has_no_reverse_derivative() -> None:
    with pytest.raises(NoDerivativeError, match=r"'grow' runs an unbounded number") as caught:
        grad_with_loss(growing(None), ["a"])
    assert caught.value.source is None or "loop_programs" in caught.value.source.file
    assert "max_trips" in (caught.value.remedy or "")


def choice() -> Graph:
    types: Types = {"x": ((4,), "f64"), "y": ((4,), "f64")}
    branches = (
        graph_of("square", types, lambda x, _: x * x),
        graph_of("log", types, lambda x, y: ops.log(x) * y),
    )

    def loss(s: Value, x: Value, y: Value) -> Value:
        (result,) = ops.switch(s, x, y, branches=branches)
        return ops.reduce_sum(result, axes=(0,))

    return graph_of("choice", {"s": ((), "bool")} | types, loss)


def test_a_nan_of_the_other_branch_never_reaches_the_gradient() -> None:
    feeds = {"s": np.bool_(False), "x": f64(-1, 0, 2, 3), "y": np.ones(4)}
    step = grad_with_loss(choice(), ["x", "y"])
    _, dx, dy = everywhere(step, feeds | ONE)
    np.testing.assert_array_equal(dx, [-2, 0, 4, 6])
    np.testing.assert_array_equal(dy, np.zeros(4))


def test_forward_mode_pushes_through_the_branch_taken() -> None:
    feeds = {"s": np.bool_(True), "x": f64(1, 2, 3, 4), "y": np.ones(4)}
    found = everywhere(jvp(choice(), ["x"]), feeds | {"tangent_x": np.ones(4)})
    np.testing.assert_allclose(found[1], 1 + 1 / 2 + 1 / 3 + 1 / 4)


# Custom functions


def identity_with(**bodies: Graph) -> Graph:
    types: Types = {"x": ((), "f32")}
    body = graph_of("identity", types, lambda x: x)
    return graph_of("custom", types, lambda x: ops.custom_call(x, body=body, **bodies))


def test_a_stated_vjp_replaces_that_of_the_body() -> None:
    types = dict.fromkeys(("x", "y", "d"), ((), "f32"))
    graph = identity_with(vjp_body=graph_of("twice", types, lambda *given: given[2] * 2.0))
    step = grad_with_loss(graph, ["x"])
    feeds = {"x": np.float32(7), "d_output": np.float32(1)}
    assert [float(x) for x in everywhere(step, feeds)] == [7, 2]


def test_a_stated_jvp_replaces_that_of_the_body() -> None:
    types = dict.fromkeys(("x", "y", "t"), ((), "f32"))
    graph = identity_with(jvp_body=graph_of("twice", types, lambda *given: given[2] * 2.0))
    feeds = {"x": np.float32(7), "tangent_x": np.float32(1)}
    assert [float(x) for x in everywhere(jvp(graph, ["x"]), feeds)] == [7, 2]


def test_the_mode_without_a_stated_rule_differentiates_the_body() -> None:
    types = dict.fromkeys(("x", "y", "t"), ((), "f32"))
    graph = identity_with(jvp_body=graph_of("twice", types, lambda *given: given[2] * 2.0))
    feeds = {"x": np.float32(7), "d_output": np.float32(1)}
    assert everywhere(grad_with_loss(graph, ["x"]), feeds)[1] == 1


def test_a_custom_function_has_several_results() -> None:
    types: Types = {"x": ((3,), "f32")}
    body = graph_of("pair", types, lambda x: [x * x, x * 2.0])
    graph = graph_of("custom", types, lambda x: ops.custom_call(x, body=body))
    square, double = everywhere(graph, {"x": np.array([1, 2, 3], np.float32)})
    assert (square.tolist(), double.tolist()) == ([1, 4, 9], [2, 4, 6])


def test_the_checkpointed_program_runs_natively_with_few_kernels() -> None:
    graph = grad_with_loss(recurrent(3, 1000, checkpoints=30), ["c", "w"])
    program = lower_for(graph, detect_target())
    assert len(program.kernels) < 40
    compile_graph(graph, backend="llvm", threads=1).run(recurrent_feeds(3, 1000) | ONE)
