"""Derivatives of conditional loops, against the same trips written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss, hvp
from rlx.passes.vmap import vmap
from tests.loop_programs import Array, Feeds, Types, everywhere, f64, graph_of

TYPES: Types = {"n": ((), "i64"), "x": ((2,), "f64"), "w": ((2,), "f64")}


def body() -> Graph:
    """Divide by what is left, which is 0 after the last trip; `log` has no value there either."""

    def step(n: Value, x: Value, w: Value) -> list[Value]:
        left = ops.cast(n, to="f64")
        return [n - 1, ops.sin(x * w) / left + ops.log(left) * x]

    return graph_of("countdown", TYPES, step)


def looped(most: int | None) -> Graph:
    condition = graph_of("left", TYPES, lambda n, *_: ops.gt(n, 0))

    def loss(n: Value, x: Value, w: Value) -> list[Value]:
        _, last, trips = ops.while_loop(
            n, x, w, condition=condition, body=body(), num_consts=1, max_trips=most
        )
        return [ops.reduce_sum(last * last, axes=(0,)), trips]

    return graph_of("looped", TYPES, loss)


def written_out(trips: int) -> Graph:
    def loss(n: Value, x: Value, w: Value) -> Value:
        for _ in range(trips):
            n, x = n.graph.inline(body(), (n, x, w))
        return ops.reduce_sum(x * x, axes=(0,))

    return graph_of("written_out", TYPES, loss)


def feeds(trips: int) -> dict[str, Any]:
    return {"n": np.int64(trips), "x": f64(0.7, -0.4), "w": f64(1.1, 0.6)}


ONE = {"d_output": f64(1.0)}


@pytest.mark.parametrize(
    ("most", "trips"),
    [(5, 0), (5, 1), (5, 5), (128, 7), (300, 0), (300, 1), (300, 17), (300, 18), (300, 19),
     (150, 12), (150, 13)],
)  # fmt: skip
def test_the_gradient_is_that_of_the_trips_taken(most: int, trips: int) -> None:
    """Of none, of some, of all; with the last one inside a block and at its ends."""
    found = evaluate(grad_with_loss(looped(most), ["x", "w"]), feeds(trips) | ONE)
    assert found[1] == trips
    wanted = evaluate(
        grad_with_loss(written_out(trips), ["x", "w"], missing="zero"), feeds(trips) | ONE
    )
    for a, b in zip((found[0], *found[2:]), wanted, strict=True):
        assert np.isfinite(a).all()
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("most", [9, 200])
def test_the_bound_ends_a_loop_and_its_gradient(most: int) -> None:
    given = feeds(most + 40)
    found = evaluate(grad_with_loss(looped(most), ["x"]), given | ONE)
    wanted = evaluate(grad_with_loss(written_out(most), ["x"]), given | ONE)
    np.testing.assert_allclose(found[2], wanted[1], rtol=1e-9)


@pytest.mark.parametrize("most", [16, 300])
def test_the_gradient_runs_natively(most: int) -> None:
    everywhere(grad_with_loss(looped(most), ["x", "w"]), feeds(11) | ONE, rtol=1e-10)


@pytest.mark.parametrize("most", [16, 300])
def test_second_derivatives_follow_the_trips_taken(most: int) -> None:
    tangents = {"tangent_x": f64(0.3, 1.0), "tangent_w": f64(-1.0, 0.2)}
    given = feeds(6) | tangents | ONE
    found = evaluate(hvp(looped(most), ["x", "w"]), given)
    wanted = evaluate(hvp(written_out(6), ["x", "w"]), given)
    for a, b in zip(found[-2:], wanted[-2:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_reverse_over_reverse_follows_the_trips_taken() -> None:
    def squared(graph: Graph) -> Array:
        first = grad_with_loss(graph, ["x", "w"])
        dx, dw = first.outputs[-2:]
        first.set_outputs([ops.reduce_sum(dx * dw, axes=(0,))])
        given: Feeds = feeds(6) | ONE | {"d_output_1": f64(1.0)}
        found: Array = np.stack(evaluate(grad_with_loss(first, ["x", "w"]), given)[1:])
        return found

    np.testing.assert_allclose(squared(looped(300)), squared(written_out(6)), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("most", [16, 300])
def test_a_batch_of_gradients_has_none_of_steps_that_an_example_did_not_take(most: int) -> None:
    graph = vmap(grad_with_loss(looped(most), ["x", "w"]), {"n": 0}, size=4)
    trips = [0, 3, 11, 1]
    given = feeds(0) | {"n": np.array(trips)} | ONE
    found = everywhere(graph, given, rtol=1e-10)
    for index, count in enumerate(trips):
        wanted = evaluate(grad_with_loss(looped(most), ["x", "w"]), feeds(count) | ONE)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a[index], b, rtol=1e-12)


def test_steps_behind_the_last_trip_are_not_run() -> None:
    """Blocks are skipped: of 300 steps, those of one block at most are looked at in vain."""
    graph = grad_with_loss(looped(300), ["x"])
    lengths = sorted({n.attribute("length") for n in graph.nodes if n.op is ops.scan})
    assert lengths == [17]


@pytest.mark.slow
def test_names_of_carries_may_be_those_of_derivatives() -> None:
    def step(*carries: Value) -> list[Value]:
        c, *rest = carries
        return [ops.sin(c * rest[0]), *rest, c]

    def derivatives(*names: str) -> list[Array]:
        """Return gradient and Hessian product by the first two carries."""
        types: Types = dict.fromkeys(names, ((), "f64"))
        inner = graph_of("named", types, step)

        def loss(*given: Value) -> Value:
            last, *_, rows = ops.scan(*given, body=inner, length=3, num_carries=4)
            return ops.reduce_sum(rows, axes=(0,)) + last

        graph, wrt = graph_of("loss", types, loss), list(names[:2])
        given: Feeds = {name: f64(0.2 + index) for index, name in enumerate(names)} | ONE
        tangents = {f"tangent_{name}": f64(1.0) for name in wrt}
        gradient = everywhere(grad_with_loss(graph, wrt), given)
        return [*gradient, *everywhere(hvp(graph, wrt), {**given, **tangents})]

    found, plain = derivatives("c", "d_c", "t_c", "d_row0"), derivatives("p", "q", "r", "s")
    np.testing.assert_array_equal(found, plain)
