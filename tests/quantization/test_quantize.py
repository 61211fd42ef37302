"""Whole graphs in eight bits: close to the float ones, exact on both back ends."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import rlx
from rlx import quantize
from rlx.errors import GraphError, InputError
from rlx.ir.graph import Graph

RANDOM = np.random.default_rng(0)
SHAPES = {"taps": (6, 3, 3, 3), "first": (216, 32), "second": (32, 10)}


def network() -> tuple[Graph, dict[str, Any], list[dict[str, Any]]]:
    """A convolution and two products, their params, and a calibration set."""
    graph = Graph("network")
    x = graph.input("x", (4, 3, 8, 8), "f32")
    taps, first, second = (graph.param(name, shape, "f32") for name, shape in SHAPES.items())
    h = graph.relu(graph.conv(x, taps))
    h = graph.relu(graph.matmul(graph.reshape(h, shape=(4, 216)), first))
    graph.set_outputs([graph.matmul(h, second)])
    params = {
        name: (RANDOM.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    batches = [{"x": RANDOM.normal(size=(4, 3, 8, 8)).astype(np.float32)} for _ in range(32)]
    return graph, params, batches


@pytest.mark.parametrize("method", ["max", "percentile", "entropy"])
def test_results_stay_close(method: Any) -> None:
    graph, params, batches = network()
    done = quantize(graph, batches, params=params, method=method)
    assert [layer.is_quantized for layer in done.report.layers] == [True, True, True]
    assert all(str(p.dtype) == "i8" for p in done.graph.params)
    exact = rlx.compile(graph, params=params).run(batches[0])[0]
    close = rlx.compile(done.graph, params=done.params).run(batches[0])[0]
    assert np.linalg.norm(close - exact) < 0.03 * np.linalg.norm(exact)


def test_integers_are_equal_on_every_back_end() -> None:
    graph, params, batches = network()
    done = quantize(graph, batches, params=params)
    results = [
        rlx.compile(done.graph, params=done.params, backend=backend).run(batches[1])[0]
        for backend in ("reference", "c", "llvm")
    ]
    for result in results[1:]:
        np.testing.assert_allclose(result, results[0], rtol=1e-6, atol=1e-6)


def test_a_layer_that_loses_too_much_stays_in_floats() -> None:
    graph, params, batches = network()
    params["first"] = params["first"].copy()
    done = quantize(graph, batches, params=params, largest_error=1e-4, keep=("taps",))
    assert [layer.is_quantized for layer in done.report.layers] == [False] * 3
    assert "float: kept" in str(done.report)
    assert "float: error above 0%" in str(done.report)
    assert done.report.quantized_bytes == done.report.float_bytes


def test_one_name_to_keep_needs_no_list() -> None:
    w, x = np.linspace(-1, 1, 32, dtype="f4").reshape(8, 4), np.ones((2, 8), "f4")
    done = quantize(lambda w, x: x @ w, [x], params=w, keep="w")
    assert [layer.reason for layer in done.report.layers] == ["kept"]


def test_weights_of_a_traced_function_are_its_params() -> None:
    w = RANDOM.normal(size=(16, 8)).astype(np.float32)
    x = RANDOM.normal(size=(4, 16)).astype(np.float32)
    graph = rlx.jit(lambda w, x: x @ w).graph(w, x)
    done = quantize(graph, [{"x": x}], params={"w": w})
    (result,) = rlx.compile(done.graph, params=done.params).run({"x": x})
    assert np.linalg.norm(result - x @ w) < 0.03 * np.linalg.norm(x @ w)


def test_the_report_counts_bytes() -> None:
    graph, params, batches = network()
    report = quantize(graph, batches, params=params).report
    assert report.quantized_bytes * 4 == report.float_bytes


def test_wrong_uses_are_errors() -> None:
    graph, params, batches = network()
    with pytest.raises(InputError, match="keep names other, which are weights of no product"):
        quantize(graph, batches, params=params, keep=("other",))
    with pytest.raises(InputError, match="the calibration set has no batch"):
        quantize(graph, [], params=params)
    for wrong in (-0.1, float("nan")):
        with pytest.raises(InputError, match="largest_error is"):
            quantize(graph, batches, params=params, largest_error=wrong)
    infinite = params | {"taps": params["taps"] * np.float32(np.inf)}
    with pytest.raises(InputError, match="not finite"):
        quantize(graph, batches, params=infinite)
    with pytest.raises(InputError, match="the calibration set is a int"):
        quantize(graph, 5, params=params)  # type: ignore[arg-type]
    bare = Graph("bare")
    bare.set_outputs([bare.relu(bare.input("x", (2,), "f32"))])
    with pytest.raises(GraphError, match="has no product or convolution"):
        quantize(bare, [{"x": np.zeros(2, np.float32)}], params={})


def test_sums_that_i32_cannot_hold_stay_in_floats() -> None:
    graph = Graph("long")
    x, w = graph.input("x", (1, 1 << 18), "f32"), graph.param("w", (1 << 18, 2), "f32")
    graph.set_outputs([graph.matmul(x, w)])
    ones = {"x": np.ones((1, 1 << 18), np.float32)}
    done = quantize(graph, [ones], params={"w": np.ones((1 << 18, 2), np.float32)})
    assert [layer.reason for layer in done.report.layers] == ["its sums are beyond i32"]
    (result,) = rlx.compile(done.graph, params=done.params).run(ones)
    np.testing.assert_allclose(result, 1 << 18)


def test_a_layer_whose_input_was_always_zero_stays_in_floats() -> None:
    w, x = np.linspace(-1, 1, 32, dtype="f4").reshape(8, 4), np.ones((2, 8), "f4")
    done = quantize(lambda w, x: x @ w, [0 * x], params=w)
    assert [layer.reason for layer in done.report.layers] == ["its input was always zero"]
    np.testing.assert_allclose(done(x), x @ w, rtol=1e-5, atol=1e-6)


def test_a_graph_without_products_is_refused_before_it_is_measured() -> None:
    graph = Graph("none")
    graph.set_outputs([graph.relu(graph.input("x", (2,), "f32"))])
    with pytest.raises(GraphError, match="has no product or convolution"):
        quantize(graph, iter([{"never": "run"}]), params={})


def test_channels_of_outliers_do_not_set_the_scale_of_all() -> None:
    graph = Graph("outliers")
    x, w = graph.input("x", (16, 64), "f32"), graph.param("w", (64, 32), "f32")
    graph.set_outputs([graph.matmul(x, w)])
    array = RANDOM.normal(size=(16, 64)).astype(np.float32)
    array[:, 3] *= 100
    done = quantize(graph, [{"x": array}], params={"w": RANDOM.normal(size=(64, 32)).astype("f4")})
    (layer,) = done.report.layers
    assert layer.is_quantized
    assert layer.error < 0.02


def test_layers_that_read_one_input_round_it_once() -> None:
    graph, random = Graph("shared"), np.random.default_rng(1)
    x = graph.input("x", (16, 64), "f32")
    weights = {f"w{i}": random.normal(size=(64, 32)).astype("f4") * 3.0**i for i in range(3)}
    made = [graph.matmul(x, graph.param(name, (64, 32), "f32")) for name in weights]
    graph.set_outputs(made)
    array = random.normal(size=(16, 64)).astype(np.float32)
    array[:, 3] *= 100
    done = quantize(graph, [{"x": array}], params=weights)
    assert [layer.is_quantized for layer in done.report.layers] == [True] * 3
    assert all(layer.error < 0.02 for layer in done.report.layers)
    rounded = [node for node in done.graph.nodes if node.op.name == "quantize"]
    assert len({(node.operands[0], node.attrs) for node in rounded}) == 1
    for close, w in zip(done(array), weights.values(), strict=True):
        assert np.linalg.norm(close - array @ w) < 0.03 * np.linalg.norm(array @ w)


def test_activations_of_one_sign_get_all_codes() -> None:
    graph = Graph("positive")
    x, w = graph.input("x", (16, 64), "f32"), graph.param("w", (64, 32), "f32")
    graph.set_outputs([graph.matmul(x, w)])
    array = RANDOM.uniform(0, 1, size=(16, 64)).astype(np.float32)
    params = {"w": RANDOM.normal(size=(64, 32)).astype("f4")}
    done = quantize(graph, [{"x": array}], params=params)
    (rounding,) = [node for node in done.graph.nodes if node.op.name == "quantize"]
    assert set(rounding.attribute("zero_points")) == {-128}
    (close,) = rlx.compile(done.graph, params=done.params).run({"x": array})
    exact = array @ params["w"]
    assert np.linalg.norm(close - exact) < 0.01 * np.linalg.norm(exact)


def test_calibration_shows_its_progress() -> None:
    graph, params, batches = network()
    stream = io.StringIO()
    quantize(graph, batches[:2], params=params, progress=stream)
    assert stream.getvalue().endswith(f"[{'#' * 30}] 2/2\n")
    quantize(graph, iter(batches[:2]), params=params, progress=stream)
    assert stream.getvalue().endswith("calibrating 2 batches\n")


def predict(params: Any, x: Any) -> Any:
    """Two layers, and a dictionary for a result."""
    hidden = rlx.nn.relu(x @ params["w0"] + params["b0"])
    return {"logits": hidden @ params["w1"]}


PARAMS = {
    "w0": RANDOM.normal(size=(32, 24)).astype(np.float32) / 6,
    "b0": RANDOM.normal(size=24).astype(np.float32),
    "w1": RANDOM.normal(size=(24, 10)).astype(np.float32) / 5,
}


def rows(count: int, random: np.random.Generator = RANDOM) -> Any:
    return random.normal(size=(count, 32)).astype(np.float32)


@pytest.mark.parametrize("jitted", [False, True])
def test_a_function_is_quantized_in_one_call_and_called_as_before(jitted: bool) -> None:
    function = rlx.jit(predict) if jitted else predict
    random = np.random.default_rng(0)  # rows beyond those of the calibration are clipped
    done = rlx.quantize(function, [rows(16, random) for _ in range(4)], params=PARAMS)
    assert [layer.name for layer in done.report.layers] == ["params_w0", "params_w1"]
    assert [str(done.params[name].dtype) for name in ("params_w0", "params_w1")] == ["int8"] * 2
    for count in (16, 3):  # other shapes are traced again
        x = rows(count, random)
        expected, made = predict(PARAMS, x)["logits"], done(x)["logits"]
        assert np.linalg.norm(made - expected) < 0.03 * np.linalg.norm(expected)


def test_weights_that_a_function_closes_over_are_quantized() -> None:
    x = rows(8)
    sets = iter([(x, np.float32(2.0)), (rows(8), np.float32(3.0))])  # can be read once
    done = rlx.quantize(lambda x, scale: scale * (x @ PARAMS["w0"]), sets)
    assert [layer.is_quantized for layer in done.report.layers] == [True]
    expected = np.float32(2.0) * (x @ PARAMS["w0"])
    made = done(x, np.float32(2.0))
    assert np.linalg.norm(made - expected) < 0.03 * np.linalg.norm(expected)


def test_a_graph_is_called_with_its_inputs() -> None:
    graph, params, batches = network()
    done = rlx.quantize(graph, [batch["x"] for batch in batches[:4]], params=params)
    x = batches[0]["x"]
    np.testing.assert_array_equal(done(x)[0], done(x=x)[0])
    np.testing.assert_array_equal(done(x)[0], done({"x": x})[0])
    with pytest.raises(InputError, match="was given 2 inputs and takes 1"):
        done(x, x)


def test_frozen_batch_norms_are_rounded_with_the_weights_before_them() -> None:
    graph, random = Graph("norm"), np.random.default_rng(1)
    x, w = graph.input("x", (2, 8, 9, 9), "f32"), graph.param("w", (16, 8, 3, 3), "f32")
    names = ("gamma", "beta", "mean", "variance")
    vectors = [graph.param(name, (16,), "f32") for name in names]
    y = graph.batch_norm_inference(graph.conv(x, w), *vectors, axis=1, eps=1e-5)
    graph.set_outputs([graph.relu(y)])
    values = {name: random.uniform(0.5, 2, 16).astype("f4") for name in names}
    values["w"] = random.normal(size=(16, 8, 3, 3)).astype("f4")
    image = random.normal(size=(2, 8, 9, 9)).astype("f4")
    done = quantize(graph, [image], params=values)
    assert [(layer.name, layer.is_quantized) for layer in done.report.layers] == [("w", True)]
    assert "batch_norm_inference" not in {node.op.name for node in done.graph.nodes}
    (exact,) = rlx.compile(graph, params=values).run({"x": image})
    assert np.linalg.norm(done(image)[0] - exact) < 0.02 * np.linalg.norm(exact)


def test_weights_that_are_computed_from_params_are_quantized() -> None:
    graph, random = Graph("masked"), np.random.default_rng(1)
    x, w = graph.input("x", (16, 32), "f32"), graph.param("w", (8, 32), "f32")
    gain = graph.param("gain", (8, 1), "f32")
    graph.set_outputs(
        [graph.matmul(x, graph.transpose(gain * w, perm=(1, 0))) + graph.reshape(gain, shape=(8,))]
    )
    shapes = {"w": (8, 32), "gain": (8, 1)}
    values = {name: random.normal(size=shape).astype("f4") for name, shape in shapes.items()}
    array = random.normal(size=(16, 32)).astype("f4")
    done = quantize(graph, [array], params=values)
    assert done.params["w"].shape == (32, 8)
    exact = array @ (values["gain"] * values["w"]).T + values["gain"][:, 0]
    assert np.linalg.norm(done(array)[0] - exact) < 0.02 * np.linalg.norm(exact)


def test_transposed_weights_are_laid_out_as_they_are_read() -> None:
    graph = Graph("transposed")
    x, w = graph.input("x", (4, 32), "f32"), graph.param("w", (8, 32), "f32")
    graph.set_outputs([graph.matmul(x, graph.transpose(w, perm=(1, 0)))])
    array = {"w": RANDOM.normal(size=(8, 32)).astype(np.float32)}
    sample = rows(4)  # what it is calibrated on: others may lie outside and be cut off
    done = rlx.quantize(graph, [sample], params=array)
    assert done.params["w"].shape == (32, 8)
    exact = sample @ array["w"].T
    assert np.linalg.norm(done(sample)[0] - exact) < 0.03 * np.linalg.norm(exact)


def test_the_report_says_why_products_have_no_weights() -> None:
    graph = Graph("attention")
    x, w = graph.input("x", (8, 32), "f32"), graph.param("w", (32, 32), "f32")
    tied = graph.param("tied", (32, 32), "f32")
    q = graph.matmul(x, w)
    scores = graph.matmul(q, graph.transpose(x, perm=(1, 0)))
    graph.set_outputs([scores, graph.matmul(graph.matmul(x, tied), tied)])
    weights = {"w": rows(32), "tied": rows(32)}
    report = rlx.quantize(graph, [rows(8)], params=weights).report
    reasons = {layer.reason for layer in report.layers if not layer.is_quantized}
    assert reasons == {"both operands are activations", "its weights are read elsewhere too"}
    assert "float: both operands are activations" in str(report)


def test_wrong_calls_of_a_quantized_function_are_errors() -> None:
    with pytest.raises(InputError, match="the calibration set has no batch"):
        rlx.quantize(predict, [], params=PARAMS)
    done = rlx.quantize(predict, [rows(2)], params=PARAMS)
    with pytest.raises(InputError, match="was given x by name"):
        done(x=rows(2))
