"""Loops and branches over a batch: each example goes its own way, results are a loop's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.reference import evaluate
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.vmap import vmap
from rlx.passes.vmap.whole import for_examples
from tests.loop_programs import everywhere
from tests.passes.vmap.checking import Feeds, assert_is_loop, looped, tensors

SIZE = 3


def subset_feeds(feeds: Feeds, names: tuple[str, ...]) -> Feeds:
    """Return the first example of what is not in `names`."""
    return {name: array if name in names else array[0] for name, array in feeds.items()}


def subsets(names: str) -> list[tuple[str, ...]]:
    return [c for n in range(1, len(names) + 1) for c in itertools.combinations(names, n)]


def scanned(*, reverse: bool = False) -> Graph:
    """Two carries, one of which only counts; a weight; rows in and two kinds of rows out."""
    body = Graph("step")
    c, n = body.input("c", (2,), "f64"), body.input("n", (), "f64")
    w, x = body.input("w", (2,), "f64"), body.input("x", (2,), "f64")
    moved = ops.sin(c * w + x)
    body.set_outputs([moved, n + 1.0, moved * n, ops.exp(w)])
    graph = Graph("scanned")
    c, w = graph.input("c", (2,), "f64"), graph.input("w", (2,), "f64")
    x = graph.input("x", (4, 2), "f64")
    zero = graph.constant(0.0, "f64")
    results = ops.scan(
        c, zero, w, x, body=body, length=4, num_carries=2, num_consts=1, reverse=reverse,
        checkpoints=2,
    )  # fmt: skip
    graph.set_outputs(results)
    return graph


@pytest.mark.parametrize("names", subsets("cwx"))
@pytest.mark.parametrize("reverse", [False, True])
def test_batched_scan_is_a_loop(names: tuple[str, ...], reverse: bool) -> None:
    feeds = dict(zip("cwx", tensors(1, (SIZE, 2), (SIZE, 2), (SIZE, 4, 2)), strict=True))
    graph = scanned(reverse=reverse)
    assert_is_loop(graph, subset_feeds(feeds, names), dict.fromkeys(names, 0), SIZE)


def test_batched_scan_keeps_its_checkpoints_and_what_examples_share() -> None:
    result = vmap(scanned(), {"x": 0}, size=SIZE)
    (node,) = [node for node in result.nodes if node.op is ops.scan]
    assert node.attribute("checkpoints") == 2
    assert [r.shape for r in node.results] == [(SIZE, 2), (), (4, SIZE, 2), (4, 2)]


def doubling(*, max_trips: int | None = None) -> Graph:
    """Double x while all its elements are below the limit; count down next to it."""
    types = [("x", (2,)), ("n", ()), ("limit", ())]
    body, condition = Graph("body"), Graph("condition")
    x, n, _ = (body.input(name, shape, "f64") for name, shape in types)
    body.set_outputs([x * 2.0, n - 1.0])
    x, _, limit = (condition.input(name, shape, "f64") for name, shape in types)
    condition.set_outputs([x < limit])
    graph = Graph("doubling")
    operands = [graph.input(name, shape, "f64") for name, shape in types]
    graph.set_outputs(
        ops.while_loop(*operands, condition=condition, body=body, num_consts=1, max_trips=max_trips)
    )
    return graph


@pytest.mark.parametrize("names", subsets("xnl"))
@pytest.mark.parametrize("max_trips", [None, 3])
def test_batched_while_loop_is_a_loop(names: tuple[str, ...], max_trips: int | None) -> None:
    full = {"x": "x", "n": "n", "l": "limit"}
    feeds = {
        "x": np.array([[1.0, 1.5], [9.0, 1.0], [0.1, 0.2]]),
        "n": np.array([5.0, 6.0, 7.0]),
        "limit": np.array([8.0, 3.0, 11.0]),
    }
    chosen = tuple(full[name] for name in names)
    graph = doubling(max_trips=max_trips)
    assert_is_loop(graph, subset_feeds(feeds, chosen), dict.fromkeys(chosen, 0), SIZE)


def test_examples_that_loop_alike_share_the_condition_and_the_count() -> None:
    result = vmap(doubling(), {"n": 0}, [None, 0, None], size=SIZE)
    (node,) = [node for node in result.nodes if node.op is ops.while_loop]
    assert [r.shape for r in node.results] == [(2,), (SIZE,), ()]


def test_while_loop_over_no_examples_ends_at_once() -> None:
    feeds: Feeds = {"x": np.ones((0, 2)), "n": np.array(1.0), "limit": np.array(5.0)}
    results = evaluate(vmap(doubling(), {"x": 0}, size=0), feeds)
    assert [array.shape for array in results] == [(0, 2), (0,), (0,)]


def branching() -> Graph:
    def branch(name: str) -> tuple[Graph, Value, Value]:
        graph = Graph(name)
        return graph, graph.input("x", (2,), "f64"), graph.input("w", (2,), "f64")

    one, x, w = branch("one")
    one.set_outputs([x * w, ops.exp(w)])
    two, x, w = branch("two")
    two.set_outputs([ops.sin(w), w])
    three, x, w = branch("three")
    three.set_outputs([x - w, ops.cos(w)])
    graph = Graph("branching")
    s, x, w = graph.input("s", (), "i64"), *branch_inputs(graph)
    graph.set_outputs(ops.switch(s, x, w, branches=(one, two, three)))
    return graph


def branch_inputs(graph: Graph) -> tuple[Value, Value]:
    return graph.input("x", (2,), "f64"), graph.input("w", (2,), "f64")


@pytest.mark.parametrize("names", subsets("sxw"))
@pytest.mark.parametrize("selectors", [(0, 1, 2), (-4, 7, 1), (2, 2, 0)])
def test_batched_switch_is_a_loop(names: tuple[str, ...], selectors: tuple[int, ...]) -> None:
    x, w = tensors(2, (SIZE, 2), (SIZE, 2))
    feeds = {"s": np.array(selectors), "x": x, "w": w}
    assert_is_loop(branching(), subset_feeds(feeds, names), dict.fromkeys(names, 0), SIZE)


def test_switch_with_a_shared_selector_stays_one() -> None:
    result = vmap(branching(), {"x": 0}, size=SIZE)
    (node,) = [node for node in result.nodes if node.op is ops.switch]
    assert [r.shape for r in node.results] == [(SIZE, 2), (2,)]


def test_custom_call_keeps_its_derivatives_for_every_example() -> None:
    graph = custom_square()
    result = vmap(graph, {"x": 0}, size=SIZE)
    (node,) = [node for node in result.nodes if node.op is ops.custom_call]
    assert [v.shape for v in node.attribute("vjp_body").inputs] == [(2,)] * 4
    pulled = for_examples(*(node.attribute(n) for n in ("vjp_body", "examples", "example_axes")))
    assert [v.shape for v in pulled.inputs] == [(SIZE, 2)] * 4
    assert [v.shape for v in pulled.outputs] == [(SIZE, 2)] * 2
    x, w = tensors(3, (SIZE, 2), (2,))
    assert_is_loop(graph, {"x": x, "w": w}, {"x": 0}, SIZE)
    x0, w0, _, d = tensors(4, *[(SIZE, 2)] * 4)
    names = [str(value.node.name) for value in pulled.inputs]
    dx, dw = evaluate(pulled, dict(zip(names, (x0, w0, x0, d), strict=True)))
    np.testing.assert_allclose(dx, 7.0 * d)
    np.testing.assert_array_equal(dw, np.zeros((SIZE, 2)))


def custom_square() -> Graph:
    """`x * x * w`, whose derivative by x is said to be 7."""
    body = Graph("body")
    x, w = branch_inputs(body)
    body.set_outputs([x * x * w])
    pulled = Graph("pulled")
    _, w, _, d = (pulled.input(name, (2,), "f64") for name in ("x", "w", "y", "d"))
    pulled.set_outputs([d * 7.0, pulled.constant(np.zeros(2))])
    graph = Graph("custom")
    graph.set_outputs(ops.custom_call(*branch_inputs(graph), body=body, vjp_body=pulled))
    return graph


# What an example does not do alone may have no value


def walking(*, max_trips: int | None = None) -> Graph:
    """Follow `x = steps[i]` from row `first` on as long as there are rows: `x / (n - i)`, too."""
    body, condition = Graph("walk"), Graph("inside")
    for graph in (body, condition):
        graph.input("i", (), "i64")
        graph.input("x", (), "f64")
        graph.input("n", (), "i64")
        graph.input("steps", (4,), "f64")
    i, x, n, steps = body.inputs
    left = ops.cast(n - i, to="f64")
    body.set_outputs([i + 1, x * ops.gather(steps, i) + ops.log(left) / left])
    i, _, n, _ = condition.inputs
    condition.set_outputs([ops.lt(i, n)])
    graph = Graph("walking")
    operands = [
        graph.input("i", (), "i64"),
        graph.input("x", (), "f64"),
        graph.input("n", (), "i64"),
        graph.input("steps", (4,), "f64"),
    ]
    results = ops.while_loop(
        *operands, condition=condition, body=body, num_consts=2, max_trips=max_trips
    )
    graph.set_outputs([results[1], results[0], results[2]])
    return graph


WALKS: Feeds = {
    "i": np.array([0, 2, 4, 7, 3]),
    "x": np.array([0.3, 0.7, 0.1, 0.4, 1.5]),
    "n": np.array([4, 4, 4, 4, 4]),
    "steps": tensors(6, (5, 4))[0],
}


@pytest.mark.parametrize("names", [("i",), ("i", "x"), ("i", "steps"), ("i", "x", "n", "steps")])
def test_an_example_that_has_ended_reads_nothing_out_of_range(names: tuple[str, ...]) -> None:
    """Two examples never start: their first index is outside already."""
    assert_is_loop(walking(), subset_feeds(WALKS, names), dict.fromkeys(names, 0), 5)


def test_only_examples_that_have_ended() -> None:
    feeds = WALKS | {"i": np.array([4, 9, 5, 4, 4])}
    assert_is_loop(walking(), feeds, dict.fromkeys(feeds, 0), 5)


@pytest.mark.parametrize("order", ["gradient of batch", "batch of gradient"])
def test_examples_that_have_ended_leave_gradients_finite(order: str) -> None:
    names = ["x", "steps"]
    one = grad_with_loss(walking(max_trips=6), names)
    seeds = {"d_output": np.linspace(0.5, 1.5, 5)}
    if order == "batch of gradient":
        assert_is_loop(one, WALKS | seeds, dict.fromkeys([*WALKS, "d_output"], 0), 5)
        return
    batch = vmap(walking(max_trips=6), dict.fromkeys(WALKS, 0), size=5)
    found = evaluate(grad_with_loss(batch, names), WALKS | seeds)
    expected = looped(one, WALKS | seeds, dict.fromkeys([*WALKS, "d_output"], 0), 5)
    for array, wanted in zip(found, expected, strict=True):
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(array, wanted, rtol=1e-12)


def test_a_batched_loop_runs_natively_without_an_error_status() -> None:
    graph = vmap(walking(max_trips=6), dict.fromkeys(WALKS, 0), size=5)
    everywhere(graph, WALKS)
    everywhere(grad_with_loss(graph, ["x"]), WALKS | {"d_output": np.ones(5)})


@pytest.mark.parametrize("selectors", [(0, 1, 1), (1, 1, 5), (-1, 0, 0)])
def test_a_branch_that_may_fail_sees_only_examples_that_take_it(
    selectors: tuple[int, ...],
) -> None:
    def branch(name: str) -> tuple[Graph, Value, Value]:
        graph = Graph(name)
        return graph, graph.input("i", (), "i64"), graph.input("table", (4,), "f64")

    outside, i, table = branch("outside")
    outside.set_outputs([ops.cast(i, to="f64")])
    inside, i, table = branch("inside")
    inside.set_outputs([ops.gather(table, i)])
    graph = Graph("choosing")
    s = graph.input("s", (), "i64")
    given = graph.input("i", (), "i64"), graph.input("table", (4,), "f64")
    graph.set_outputs(ops.switch(s, *given, branches=(outside, inside)))
    taken = np.clip(selectors, 0, 1)
    feeds: Feeds = {
        "s": np.array(selectors),
        "i": np.where(taken == 1, [0, 2, 3], [9, -7, 4]),
        "table": tensors(7, (3, 4))[0],
    }
    assert_is_loop(graph, feeds, dict.fromkeys(feeds, 0), 3)
    everywhere(vmap(graph, dict.fromkeys(feeds, 0), size=3), feeds)
