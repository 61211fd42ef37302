"""Wrong uses of quantization: typed errors that say what to give instead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.errors import DTypeError, GraphError, InputError, RlxError, ShapeError
from rlx.ir.graph import Graph, Value
from rlx.quantization import (
    CalibrationEntry,
    calibrate,
    freeze_fake_quant,
    insert_q_dq,
    integer_graph,
)

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(5, 16)).astype(np.float32)
W = RANDOM.normal(size=(16, 4)).astype(np.float32)
NAN = np.where(X > 1, np.float32(np.nan), X)
INF = np.float32(np.inf)
ANY: Any = None


def predict(w: Any, x: Any) -> Any:
    return x @ w


def product() -> Graph:
    graph = Graph("product")
    x, w = graph.input("x", (5, 16), "f32"), graph.param("w", (16, 4), "f32")
    graph.set_outputs([graph.matmul(x, w)])
    return graph


def tapped() -> tuple[Graph, Value]:
    graph = Graph("tapped")
    y = graph.relu(graph.input("x", (4, 6), "f32"))
    graph.set_outputs([graph.add(y, y)])
    return graph, y


def quantized(batches: Any = (X,), function: Any = predict, params: Any = W, **choice: Any) -> Any:
    return rlx.quantize(function, batches, params=params, **choice)


def seen(batches: Any = ({"x": X[:4, :6]},), **options: Any) -> Any:
    graph, y = tapped()
    return calibrate(graph, [y], batches, params={}, **options)


def inserted(entry: Any) -> Graph:
    graph, y = tapped()
    return insert_q_dq(graph, {y: entry})


CALLS: dict[str, tuple[type[RlxError], str, Callable[[], Any]]] = {
    "no function": (InputError, "was given a NoneType", lambda: quantized(function=None)),
    "a path": (InputError, "was given a str", lambda: quantized(function="model.onnx")),
    "twice": (InputError, "was given a QuantizedFunction", lambda: quantized(function=quantized())),
    "no set": (InputError, "calibration set is a NoneType", lambda: quantized(None)),
    "a mapping": (InputError, "calibration set is a dict", lambda: quantized({"x": X})),
    "a text": (InputError, "calibration set is a str", lambda: quantized("batches.npy")),
    "NaN": (InputError, "batch 2: %1: an activation is not finite", lambda: quantized([X, NAN])),
    "no rows": (InputError, "calibration set has no element", lambda: quantized([X[:0]])),
    "weights": (InputError, "weights are not finite", lambda: quantized(params=W * INF)),
    "params of a graph": (
        InputError, "params of a graph are a list",
        lambda: quantized(function=product(), params=[W])),
    "method": (InputError, "method is 'kl'", lambda: quantized([0 * X], method="kl")),
    "percentile": (InputError, "percentile is -4", lambda: quantized(percentile=-4)),
    "percentile a text": (InputError, "percentile is '99'", lambda: quantized(percentile="99")),
    "error a text": (InputError, "largest_error is '0.1'", lambda: quantized(largest_error="0.1")),
    "no error": (InputError, "largest_error is None", lambda: quantized(largest_error=None)),
    "keep": (InputError, "keep is 5", lambda: quantized(keep=5)),
    "keep numbers": (InputError, r"keep is \[0\]", lambda: quantized(keep=[0])),
    "keep, read once": (
        InputError, "keep names other", lambda: quantized(keep=(name for name in ["other"]))),
    "progress numbers": (InputError, "progress is array", lambda: quantized(progress=np.ones(2))),
    "progress": (InputError, "progress is 'yes'", lambda: quantized(progress="yes")),
    "an input twice": (
        InputError, "x was given in order and by name",
        lambda: quantized(function=product(), params={"w": W})(X, x=X)),
    "static arguments": (
        InputError, "the function has static arguments",
        lambda: quantized([(X, 2)], rlx.jit(lambda w, x, n: x @ w * n, static_argnums=2))),
    "no weights": (
        GraphError, "has no product or convolution", lambda: quantized([X], params=W[:, :0])),
    "no terms": (
        GraphError, "has no product or convolution", lambda: quantized([X[:, :0]], params=W[:0])),
    "entry": (InputError, "is recorded with a float", lambda: inserted(0.1)),
    "no entry": (InputError, "is recorded with a NoneType", lambda: inserted(None)),
    "entry of 0": (
        GraphError, r"scale 0.0 is not finite and above 0",
        lambda: inserted(CalibrationEntry.per_tensor(0.0))),
    "scales of channels": (
        InputError, "scales is 0.1", lambda: CalibrationEntry.per_channel(1, 0.1)),  # type: ignore[arg-type]
    "axis of an entry": (
        ShapeError, "axis 2 is out of range",
        lambda: inserted(CalibrationEntry.per_channel(2, (0.1,)))),
    "zero points of an entry": (
        ShapeError, "1 scales and 2 zero points",
        lambda: inserted(CalibrationEntry((0.1,), None, (1, 2)))),
    "a tap by name": (
        GraphError, "'y' is not a value of the graph",
        lambda: insert_q_dq(tapped()[0], {"y": CalibrationEntry.per_tensor(0.1)})),  # type: ignore[dict-item]
    "no graph to insert": (InputError, "insert_q_dq takes a graph", lambda: insert_q_dq(ANY, {})),
    "no graph to freeze": (
        InputError, "freeze_fake_quant takes a graph", lambda: freeze_fake_quant(ANY)),
    "no graph of integers": (InputError, "integer_graph takes a graph", lambda: integer_graph(ANY)),
    "calibrated axis": (ShapeError, "axis 5 is out of range for rank 2", lambda: seen(axes=[5])),
    "calibrated axes": (ShapeError, "2 axes for 1 taps", lambda: seen(axes=[0, 1])),
    "no axes": (ShapeError, "0 axes for 1 taps", lambda: seen(axes=[])),
    "a calibrated name": (
        GraphError, "'x' is not a value of this graph",
        lambda: calibrate(product(), ["x"], [{"x": X}], params={"w": W})),  # type: ignore[list-item]
    "calibrated NaN": (
        InputError, "batch 1: %1: .* not finite", lambda: seen([{"x": X[:4, :6] * INF}])),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_a_typed_error_with_a_remedy(name: str) -> None:
    kind, message, call = CALLS[name]
    with pytest.raises(kind, match=message) as caught:
        call()
    assert caught.value.remedy


def test_a_number_that_is_not_finite_is_reported_with_its_batch_and_line() -> None:
    with pytest.raises(InputError) as caught:
        quantized([X, X, NAN])
    assert re.match("batch 3: ", str(caught.value))
    assert caught.value.source is not None


def test_batches_of_a_function_may_have_any_size() -> None:
    """The last batch of a set is often shorter, or empty."""
    whole = quantized([X])
    parts = quantized([X[:3], X[3:], X[:0]])
    scales = [done.report.layers[0].scale for done in (whole, parts)]
    assert scales[0] == pytest.approx(scales[1], rel=1e-6)
    np.testing.assert_allclose(parts(X), X @ W, atol=0.1)


def product_of_codes(**attributes: Any) -> Value:
    graph = Graph("codes")
    x, w = graph.input("x", (3, 4), "i8"), graph.input("w", (4, 5), "i8")
    attributes.setdefault("multiplier", (0.1,))
    return graph.qmatmul(x, w, graph.input("b", (5,), "i32"), **attributes)


def convolution_of_codes(**attributes: Any) -> Value:
    graph = Graph("codes")
    x, w = graph.input("x", (1, 4, 5, 5), "i8"), graph.input("w", (6, 4, 3, 3), "i8")
    attributes.setdefault("multiplier", (0.1,))
    return graph.qconv(x, w, graph.input("b", (6,), "i32"), **attributes)


@pytest.mark.parametrize("product_of", [product_of_codes, convolution_of_codes])
@pytest.mark.parametrize(
    ("attributes", "kind", "message"),
    [
        ({"multiplier": (0.0,)}, GraphError, "multiplier 0.0 is not finite and above 0"),
        ({"multiplier": (-0.1,)}, GraphError, "multiplier -0.1"),
        ({"multiplier": (float("nan"),)}, GraphError, "multiplier nan"),
        ({"multiplier": ()}, ShapeError, "0 multipliers"),
        ({"multiplier": (0.1, 0.1)}, ShapeError, "2 multipliers and 2 zero points for"),
        ({"multiplier": 0.1}, GraphError, "attribute multiplier is 0.1"),
        ({"x_zero_point": 2**40}, GraphError, "zero points .* are out of range"),
        ({"w_zero_point": 2**31}, GraphError, "zero points .* are out of range"),
        ({"out_zero_point": 2**31 - 1}, GraphError, "zero points .* are out of range"),
        ({"x_zero_point": 0.5}, GraphError, "attribute x_zero_point is 0.5"),
    ],
)
def test_attributes_of_integer_products_are_checked(
    product_of: Callable[..., Value], attributes: Any, kind: Any, message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        product_of(**attributes)
    assert caught.value.remedy


@pytest.mark.parametrize("op", ["qmatmul", "qconv"])
@pytest.mark.parametrize(
    ("index", "dtype", "shape", "kind", "message"),
    [
        (0, "u8", None, DTypeError, "x has dtype u8"),
        (1, "f32", None, DTypeError, "w has dtype f32"),
        (2, "f32", None, DTypeError, "bias has dtype f32"),
        (2, "i32", (4,), ShapeError, r"bias has shape \(4,\)"),
        (2, "i32", (1, 5), ShapeError, r"bias has shape \(1, 5\)"),
    ],
)
def test_operands_of_integer_products_are_checked(
    op: str, index: int, dtype: str, shape: Any, kind: Any, message: str
) -> None:
    graph = Graph("codes")
    shapes = [(3, 4), (4, 5), (5,)] if op == "qmatmul" else [(1, 4, 5, 5), (5, 4, 3, 3), (5,)]
    types = [[s, t] for s, t in zip(shapes, ("i8", "i8", "i32"), strict=True)]
    types[index] = [shape or shapes[index], dtype]
    operands = [graph.input(f"x{i}", s, t) for i, (s, t) in enumerate(types)]  # type: ignore[arg-type]
    with pytest.raises(kind, match=message):
        getattr(graph, op)(*operands, multiplier=(0.1,))


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_scales_of_training_are_f32(dtype: Any) -> None:
    """Else activations would grow to f64 in silence."""
    scale = np.ones(1, dtype)
    with pytest.raises(DTypeError, match=r"scale has dtype .* computed in f32"):
        rlx.nn.fake_quantize(X, scale)
    with pytest.raises(DTypeError, match=r"scale has dtype .* computed in f32"):
        rlx.nn.fake_quantize_lsq(X, scale)
    with pytest.raises(DTypeError, match=r"state has dtype .* computed in f32"):
        rlx.nn.fake_quantize_ema(X, scale, decay=0.9)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_learned_scale_that_left_the_positive_numbers_counts_as_the_smallest(
    scale: float,
) -> None:
    """Training may step over 0: the scale has a floor, and there is no error."""
    made = rlx.nn.fake_quantize_lsq(X, np.array([scale], np.float32))
    assert np.isfinite(made).all()
    assert np.abs(made).max() <= 127 * 1.001e-12


def test_scales_whose_reciprocal_is_infinite_are_refused() -> None:
    graph = Graph("tiny")
    with pytest.raises(GraphError, match="among the normal numbers"):
        graph.quantize(graph.input("x", (3,), "f32"), scales=(1e-40,))


def test_numbers_of_numpy_are_numbers() -> None:
    done = quantized(largest_error=np.float32(0.1), percentile=np.array(99.0))
    assert done.report.layers[0].is_quantized


@pytest.mark.parametrize("size", [1e-8, 1e-30, 1e-42])
def test_activations_that_all_round_to_zero_leave_their_layer_in_floats(size: float) -> None:
    """Their squares vanish in f32: the error seemed to be none."""
    (layer,) = quantized([X * np.float32(size)], keep=()).report.layers
    assert layer.is_quantized == (layer.error < 0.1)
    close, exact = quantized([X * np.float32(size)])(X * np.float32(size)), X @ W * size
    assert np.linalg.norm(close - exact) <= 0.1 * np.linalg.norm(exact)
