"""Where the batch axis comes in and goes out, what is shared, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rlx.errors import GraphError, ShapeError
from rlx.ir import ops
from rlx.ir.graph import Graph
from rlx.ir.reference import evaluate
from rlx.ir.shape import Dim
from rlx.passes.vmap import AxisError, DonationError, UnknownInputError, VmapError, vmap
from tests.passes.vmap.checking import Array, looped, tensors

SIZE = 4


def layer() -> Graph:
    """`softmax(tanh(x @ w + b))` over the first axis, and the sum of `b`, for x [2, 3]."""
    graph = Graph("layer")
    x = graph.input("x", (2, 3), "f64")
    w = graph.input("w", (3, 5), "f64")
    b = graph.input("b", (5,), "f64")
    hidden = ops.softmax(ops.tanh(x @ w + b), axis=0)
    graph.set_outputs([hidden, ops.reduce_sum(b, axes=(0,))])
    return graph


def widened(array: Array, axis: int | None) -> Array:
    """Return SIZE different examples of `array`, stacked at `axis`."""
    if axis is None:
        return array
    return np.stack([array + 0.3 * i for i in range(SIZE)], axis=axis)


@pytest.mark.whole
@pytest.mark.parametrize("x_axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("w_axis", [None, 0, 2, -2])
@pytest.mark.parametrize("b_axis", [None, 0, 1])
def test_inputs_take_the_batch_axis_anywhere(
    x_axis: int, w_axis: int | None, b_axis: int | None
) -> None:
    graph, axes = layer(), {"x": x_axis, "w": w_axis, "b": b_axis}
    plain = dict(zip("xwb", tensors(1, (2, 3), (3, 5), (5,)), strict=True))
    feeds = {name: widened(array, axes[name]) for name, array in plain.items()}
    given = evaluate(vmap(graph, [x_axis, w_axis, b_axis], size=SIZE), feeds)
    mapped = {name: axis for name, axis in axes.items() if axis is not None}
    for array, expected in zip(given, looped(graph, feeds, mapped, SIZE), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("out_axes", [0, 1, 2, -1, -2])
def test_output_carries_the_batch_axis_where_asked(out_axes: int) -> None:
    graph = layer()
    graph.set_outputs(graph.outputs[:1])
    x, w, b = tensors(2, (SIZE, 2, 3), (3, 5), (5,))
    feeds = {"x": x, "w": w, "b": b}
    batched = vmap(graph, {"x": 0}, out_axes, size=SIZE)
    (expected,) = looped(graph, feeds, {"x": 0}, SIZE)
    np.testing.assert_allclose(
        evaluate(batched, feeds)[0], np.moveaxis(expected, 0, out_axes), rtol=1e-12
    )


@pytest.mark.parametrize(("axis", "shape"), [(0, (4, 5)), (1, (5, 4)), (-1, (5, 4))])
def test_output_that_no_example_differs_in_is_repeated(axis: int, shape: tuple[int, ...]) -> None:
    graph = Graph("shared")
    x, b = graph.input("x", (3,), "f64"), graph.input("b", (5,), "f64")
    graph.set_outputs([x, ops.exp(b)])
    batched = vmap(graph, [0, None], [0, axis], size=SIZE)
    x_data, b_data = tensors(3, (SIZE, 3), (5,))
    _, repeated = evaluate(batched, {"x": x_data, "b": b_data})
    assert repeated.shape == shape
    np.testing.assert_allclose(np.moveaxis(repeated, axis, 0), [np.exp(b_data)] * SIZE)


def test_shared_output_stays_as_it_is_if_its_axis_is_none() -> None:
    batched = vmap(layer(), {"x": 0}, [0, None], size=SIZE)
    assert [output.shape for output in batched.outputs] == [(SIZE, 2, 5), ()]


def test_names_stay_and_unmapped_inputs_keep_their_types() -> None:
    graph = layer()
    graph.param("scale", (7,), "f32")
    batched = vmap(graph, {"x": 1}, size=SIZE)
    assert batched.name == "layer_vmap"
    assert [(leaf.node.name, leaf.shape) for leaf in (*batched.inputs, *batched.params)] == [
        ("x", (2, SIZE, 3)),
        ("w", (3, 5)),
        ("b", (5,)),
        ("scale", (7,)),
    ]


def test_rows_are_not_confused_with_the_batch_axis_where_extents_agree() -> None:
    """`[B, n]` next to `[B, m, n]` with m == B: alignment by rank alone would mix examples."""
    graph = Graph("mixed")
    row, block = graph.input("row", (3,), "f64"), graph.input("block", (SIZE, 3), "f64")
    graph.set_outputs([row * block])
    r, k = tensors(5, (SIZE, 3), (SIZE, SIZE, 3))
    (given,) = evaluate(vmap(graph, [0, 0], size=SIZE), {"row": r, "block": k})
    np.testing.assert_array_equal(given, r[:, None, :] * k)


def test_symbolic_extents_and_sizes_stay_symbolic() -> None:
    graph, n, examples = Graph("symbolic"), Dim("n", max=8), Dim("examples", max=16)
    x, w = graph.input("x", (n, 3), "f64"), graph.input("w", (3,), "f64")
    graph.set_outputs([ops.softmax(x * w, axis=0), ops.gather(x, graph.constant([0]), axis=1)])
    batched = vmap(graph, {"x": 0}, size=examples)
    assert [output.shape for output in batched.outputs] == [(examples, n, 3), (examples, n, 1)]
    x_data, w_data = tensors(6, (4, 2, 3), (3,))
    given = evaluate(batched, {"x": x_data, "w": w_data})
    for array, expected in zip(
        given, looped(graph, {"x": x_data, "w": w_data}, {"x": 0}, 4), strict=True
    ):
        np.testing.assert_allclose(array, expected, rtol=1e-12)


def symbolic_gather(x: Any, i: Any) -> Any:
    return ops.gather(x, i, axis=1)


def symbolic_slice(x: Any, i: Any) -> Any:
    return ops.dynamic_slice(x, i, sizes=(1, 2))


def symbolic_update(x: Any, i: Any) -> Any:
    return ops.dynamic_update_slice(x, x.graph.constant(np.ones((1, 2))), i)


@pytest.mark.parametrize("build", [symbolic_gather, symbolic_slice, symbolic_update])
def test_batched_indices_into_symbolic_extents_are_a_loop(build: Callable[..., Any]) -> None:
    graph, n = Graph("symbolic"), Dim("n", max=8, min=2)
    x, i = graph.input("x", (n, n), "f64"), graph.input("i", (2,), "i64")
    graph.set_outputs([build(x, i)])
    (x_data,) = tensors(7, (3, 5, 5))
    feeds = {"x": x_data, "i": np.array([[0, 4], [2, 1], [3, 3]])}
    (given,) = evaluate(vmap(graph, [0, 0], size=3), feeds)
    np.testing.assert_array_equal(given, looped(graph, feeds, {"x": 0, "i": 0}, 3)[0])


def accumulator() -> Graph:
    """A state and a weight that are replaced in place."""
    graph = Graph("accumulator")
    state, w, x = graph.input("state", (3,)), graph.param("w", (3,)), graph.input("x", (3,))
    moved, trained = state + x, w * 0.5
    graph.set_outputs([moved, trained], donated={state: moved, w: trained})
    return graph


def test_donations_stay_where_leaf_and_output_still_fit() -> None:
    batched = vmap(accumulator(), [0, 0], [0, None], size=SIZE)
    assert batched.donations == {"state": 0, "w": 1}


def test_donated_param_refuses_a_batch_of_replacements() -> None:
    with pytest.raises(DonationError, match=r"output 1 .*f32\[4, 3\].*'w'.*f32\[3\]"):
        vmap(accumulator(), [0, 0], size=SIZE)


def test_donated_state_refuses_replacements_laid_out_differently() -> None:
    with pytest.raises(DonationError, match="'state'"):
        vmap(accumulator(), [1, 0], [0, None], size=SIZE)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0, None],), UnknownInputError, "names 2 axes .* has 3 inputs"),
        (({"y": 0},), UnknownInputError, r"no input 'y' \(has: x, w, b\)"),
        (({"scale": 0},), UnknownInputError, "'scale' is a param"),
        (({"x": 3},), AxisError, r"axis 3 .* 'x' of shape \(2, 3\)"),
        (({"b": -3},), AxisError, "axis -3 is out of range"),
        (({"x": 0}, [0]), AxisError, "out_axes names 1 axes and the graph has 2 outputs"),
        (({"x": 0}, [3, 0]), AxisError, "axis 3 is out of range for output 0"),
        (({"x": 0}, None), AxisError, "depends on the batch"),
    ],
)
def test_request_that_does_not_fit_the_graph_is_refused(
    arguments: tuple[Any, ...], error: type[VmapError], message: str
) -> None:
    graph = layer()
    graph.param("scale", (7,))
    with pytest.raises(error, match=message) as caught:
        vmap(graph, *arguments, size=SIZE)
    assert isinstance(caught.value, (GraphError, ShapeError))


@pytest.mark.parametrize(("size", "message"), [(None, "no batch size"), (-1, "is -1; it must not")])
def test_size_must_be_given_and_not_negative(size: int | None, message: str) -> None:
    with pytest.raises(AxisError, match=message):
        vmap(layer(), {"x": 0}, size=size)
