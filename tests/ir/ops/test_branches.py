"""`cond`, the graph's branch by truth: any dtype, one element or element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlx.errors import GraphError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph, Value
from rlx.ir.parser import parse_graph
from rlx.ir.printer import format_graph
from rlx.passes.autodiff import grad_with_loss
from rlx.passes.rewrites.decompose import decompose
from rlx.passes.vmap import vmap
from tests.loop_programs import everywhere, f64, graph_of

THEN = graph_of("then", {"x": ((4,), "f64")}, lambda x: [x * 2.0, x + 10.0])
ELSE = graph_of("orelse", {"x": ((4,), "f64")}, lambda x: [-x, x * 2.0])
X = f64(1, 2, 3, 4)


def chosen(dtype: str, shape: tuple[int, ...]) -> Graph:
    types = {"p": (shape, dtype), "x": ((4,), "f64")}
    return graph_of("chosen", types, lambda p, x: ops.cond(p, x, then=THEN, orelse=ELSE))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize(
    ("dtype", "value", "holds"),
    [
        ("f32", 0.5, True),
        ("f32", -0.0, False),
        ("f64", np.nan, True),
        ("i32", -3, True),
        ("u8", 0, False),
        ("bool", True, True),
    ],
)
def test_one_element_of_any_dtype_picks_a_branch(
    shape: tuple[int, ...], dtype: str, value: Any, holds: bool
) -> None:
    graph = chosen(dtype, shape)
    predicate = np.full(shape, value, graph.inputs[0].dtype.numpy)
    found = everywhere(graph, {"p": predicate, "x": X})
    np.testing.assert_array_equal(found[0], X * 2 if holds else -X)
    np.testing.assert_array_equal(found[1], X + 10 if holds else X * 2)
    kept = [node.op for node in decompose()(graph).nodes]
    assert ops.switch in kept
    assert ops.where not in kept


@pytest.mark.parametrize("dtype", ["bool", "f32", "i64"])
def test_several_elements_pick_element_by_element(dtype: str) -> None:
    graph = chosen(dtype, (4,))
    predicate = np.array([1, 0, 1, 0], graph.inputs[0].dtype.numpy)
    found = everywhere(graph, {"p": predicate, "x": X})
    np.testing.assert_array_equal(found[0], [2, -2, 6, -4])
    np.testing.assert_array_equal(found[1], [11, 4, 13, 8])


def test_a_predicate_is_broadcast_to_the_results() -> None:
    types = {"x": ((2, 4), "f64")}
    then, orelse = (graph_of(n, types, f) for n, f in
                    (("then", lambda x: x), ("orelse", lambda x: -x)))  # fmt: skip
    graph = graph_of(
        "rows",
        {"p": ((2, 1), "f64")} | types,
        lambda p, x: ops.cond(p, x, then=then, orelse=orelse),
    )
    x = np.ones((2, 4))
    (found,) = everywhere(graph, {"p": f64(0, 3).reshape(2, 1), "x": x})
    np.testing.assert_array_equal(found, [[-1] * 4, [1] * 4])


def loss(p: Value, x: Value) -> Value:
    first, second = ops.cond(p, x, then=THEN, orelse=ELSE)
    return ops.reduce_sum(first * second, axes=(0,))


@pytest.mark.parametrize("shape", [(), (4,)])
def test_derivatives_are_those_of_what_is_picked(shape: tuple[int, ...]) -> None:
    graph = graph_of("loss", {"p": (shape, "f64"), "x": ((4,), "f64")}, loss)
    predicate = np.broadcast_to(f64(1, 0, 2, 0)[: int(np.prod(shape))].reshape(shape), shape)
    feeds = {"p": predicate, "x": X, "d_output": f64(1)}
    _, found = everywhere(grad_with_loss(graph, ["x"]), feeds)
    of_then, of_else = 4 * X + 20, -4 * X
    np.testing.assert_allclose(found, np.where(predicate != 0, of_then, of_else))


def test_a_batch_of_predicates_picks_for_each_example() -> None:
    graph = vmap(chosen("f64", ()), {"p": 0}, size=3)
    first, _ = everywhere(graph, {"p": f64(0, 1, np.nan), "x": X})
    np.testing.assert_array_equal(first, [-X, 2 * X, 2 * X])


def test_params_of_branches_become_operands_and_the_text_is_read_back() -> None:
    then = Graph("then")
    then.set_outputs([then.input("x", (2,), "f64") * then.param("w", (2,), "f64")])
    orelse = graph_of("orelse", {"x": ((2,), "f64")}, lambda x: x)
    graph = Graph("kept")
    x, p = graph.input("x", (2,), "f64"), graph.input("p", (), "f32")
    graph.set_outputs(graph.cond(p, x, then=then, orelse=orelse))
    assert [param.node.name for param in graph.params] == ["w"]
    assert format_graph(parse_graph(format_graph(graph))) == format_graph(graph)


def test_what_does_not_fit_is_refused() -> None:
    other = graph_of("orelse", {"x": ((4,), "f64")}, lambda x: x)
    graph = Graph("g")
    x = graph.input("x", (4,), "f64")
    with pytest.raises(ShapeError, match=r"\(3\).*does not broadcast|3.*does not broadcast"):
        graph.cond(graph.input("p", (3,)), x, then=THEN, orelse=ELSE)
    with pytest.raises(GraphError, match="1 outputs"):
        graph.cond(graph.input("q", ()), x, then=THEN, orelse=other)


@pytest.mark.parametrize("dtype", ["f32", "bool", "i32"])
@pytest.mark.parametrize("shape", [(), (1,), (2,)])
def test_a_condition_of_any_dtype_ends_a_loop(dtype: str, shape: tuple[int, ...]) -> None:
    types = {"c": (shape, "f32")}

    def left(c: Value) -> Value:
        rest = ops.maximum(4.0 - c, 0.0)
        return ops.gt(rest, 0.0) if dtype == "bool" else ops.cast(rest, to=dtype)

    loop = graph_of(
        "loop",
        types,
        lambda c: ops.while_loop(
            c,
            condition=graph_of("left", types, left),
            body=graph_of("trip", types, lambda c: c + 1.0),
        ),
    )
    last, trips = everywhere(loop, {"c": np.full(shape, 1, np.float32)})
    np.testing.assert_array_equal(last, np.full(shape, 4))
    assert trips == 3
