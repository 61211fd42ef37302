"""Operators: every attribute of the standard is known, and results are those of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from rlx.errors import IndexOutOfRangeError  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from rlx.onnx.registry import find_operator  # noqa: E402
from rlx.onnx.versions import DROPPED, MOVED  # noqa: E402
from tests.onnx.models import FLOAT, model, node  # noqa: E402

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)


def floats(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def bytes_(*shape: int) -> Array:
    return RNG.integers(0, 255, shape).astype(np.uint8)


def unknown_attributes(schema: Any) -> list[str]:
    """Return attributes of an operator's version that its translator does not take."""
    found = find_operator(schema.domain, schema.name, schema.since_version)
    if found is None:
        return []
    moves = () if schema.domain else MOVED.get(schema.name, ())
    taken = {*found.attributes, *DROPPED}
    taken |= {move.attribute for move in moves if schema.since_version < move.below}
    return [name for name in schema.attributes if name not in taken]


def test_every_attribute_of_the_standard_is_known() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    unknown = {(s.name, s.since_version): unknown_attributes(s) for s in schemas}
    assert {key: names for key, names in unknown.items() if names} == {}


def has_translation(schema: Any) -> bool:
    if find_operator(schema.domain, schema.name, schema.since_version) is not None:
        return True
    return bool(schema.has_function or schema.has_context_dependent_function)


def test_every_version_of_every_operator_is_translated_or_has_a_body() -> None:
    schemas = onnx.defs.get_all_schemas_with_history()
    missing = [(s.domain, s.name, s.since_version) for s in schemas if not has_translation(s)]
    assert len(schemas) > 500
    assert missing == []


def one_node(op: str, inputs: list[Array], known: list[Array], opset: int, **how: Any) -> Any:
    """Return a model of one node, whose last inputs are initializers."""
    arrays = {f"x{place}": array for place, array in enumerate([*inputs, *known])}
    weights = {name: arrays[name] for name in list(arrays)[len(inputs) :]}
    types = {
        name: (onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in arrays.items()
        if name not in weights
    }
    return model([node(op, list(arrays), ["y"], **how)], types, ["y"], weights, opset=opset)


def ours(made: Any, inputs: list[Array]) -> Array:
    feed = {f"x{place}": array for place, array in enumerate(inputs)}
    found: Array = InferenceSession(made, backend="reference").run(None, feed)[0]
    return found


QUANTIZED: list[Any] = [
    bytes_(1, 2, 5, 5), np.float32(0.1), np.uint8(100), bytes_(4, 1, 3, 3),
    np.asarray([0.1, 0.2, 0.3, 0.4], np.float32), np.full(4, 10, np.uint8), np.float32(4),
    np.uint8(50), np.arange(-2, 2, dtype=np.int32),
]  # fmt: skip
LINE, TAPS, IMAGE = floats(1, 1, 3), floats(1, 1, 3), floats(1, 1, 5, 4)
SCALES = np.asarray([1, 1, 0.6, 1.7], np.float32)
CASES: dict[str, tuple[str, list[Any], list[Any], int, dict[str, Any]]] = {
    "a quantized convolution with attributes": (
        "QLinearConv", [], QUANTIZED, 20,
        {"pads": [1, 0, 1, 2], "strides": [2, 1], "group": 2},
    ),
    **{
        f"a transposed convolution of {extent} elements, {auto_pad}": (
            "ConvTranspose", [LINE, TAPS], [], 20,
            {"strides": [2], "output_shape": [extent], "auto_pad": auto_pad},
        )
        for extent in (4, 6, 8)
        for auto_pad in ("NOTSET", "SAME_UPPER", "SAME_LOWER")
    },
    **{f"resize of opset 10, {mode}": ("Resize", [IMAGE], [SCALES], 10, {"mode": mode})
       for mode in ("nearest", "linear")},
    **{
        f"a backward slice from {start} to {end}": (
            "Slice", [floats(5)],
            [np.asarray([start]), np.asarray([end]), np.asarray([0]), np.asarray([-1])], 20, {},
        )
        for start, end in ((-7, -9), (-2, -9), (100, -3), (3, 0))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnx_runtime(name: str) -> None:
    peer = pytest.importorskip("onnxruntime")
    op, inputs, known, opset, how = CASES[name]
    made = one_node(op, inputs, known, opset, **how)
    session = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {f"x{place}": array for place, array in enumerate(inputs)}
    expected = session.run(None, feed)[0]
    np.testing.assert_allclose(ours(made, inputs), expected, rtol=1e-5, atol=1e-6)


def test_the_slopes_of_old_models_are_one_per_channel() -> None:
    x, slope = floats(1, 3, 2, 3), floats(3)
    y = ours(one_node("PRelu", [x], [slope], 6), [x])
    np.testing.assert_allclose(y, np.where(x < 0, x * slope[:, None, None], x), rtol=1e-6)


def test_the_first_upsample_has_its_scales_as_attributes() -> None:
    x = floats(1, 1, 2, 2)
    y = ours(one_node("Upsample", [x], [], 1, height_scale=2.0, width_scale=3.0), [x])
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_old_softmax_takes_a_symbolic_batch(op: str) -> None:
    import rlx

    made = model([node(op, ["x"], ["y"])], {"x": (FLOAT, ["n", 3, 4])}, ["y"], opset=11)
    run = rlx.compile(rlx.onnx.load(made, dims={"n": rlx.Dim("n", max=4)}), backend="reference")
    x = floats(2, 3, 4)
    expected = InferenceSession(made, backend="reference").run(None, {"x": x})[0]
    np.testing.assert_allclose(run(x)[0], expected, rtol=1e-6)


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(("extent", "count", "lengths"), [(5, 2, [3, 2]), (7, 4, [2, 2, 2, 1])])
def test_the_last_part_of_a_split_is_the_smaller_one(
    extent: int, count: int, lengths: list[int], bounded: bool
) -> None:
    """Also where one program is for all extents."""
    import rlx

    names = [f"y{number}" for number in range(count)]
    split = node("Split", ["x"], names, axis=0, num_outputs=count)
    made = model([split], {"x": (FLOAT, ["n"])}, names)
    dims = {"n": rlx.Dim("n", max=9) if bounded else extent}
    run = rlx.compile(rlx.onnx.load(made, dims=dims), backend="reference")
    parts = run(np.arange(extent, dtype=np.float32))
    assert [len(part) for part in parts] == lengths
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(extent))


def test_maxima_of_boxes_are_those_of_onnx_runtime() -> None:
    peer = pytest.importorskip("onnxruntime")
    x = floats(2, 3, 9, 7)
    rois = np.asarray(
        [[0, 0, 0, 6, 8], [1, 1.4, 2.6, 4.5, 3.5], [1, 5, 5, 2, 2], [0, 6, 8, 12, 14]], np.float32
    )
    made = one_node("MaxRoiPool", [x, rois], [], 20, pooled_shape=[3, 2], spatial_scale=0.9)
    session = peer.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x0": x, "x1": rois})[0]
    np.testing.assert_array_equal(ours(made, [x, rois]), expected)


def test_classes_are_drawn_as_often_as_is_likely() -> None:
    logits = np.log(np.asarray([[1, 2, 1], [0, 1, 3]], np.float32) / 4 + 1e-12)
    made = one_node("Multinomial", [logits], [], 20, sample_size=4000, seed=1.0)
    drawn = ours(made, [logits])
    assert (drawn.shape, drawn.dtype) == ((2, 4000), np.int32)
    shares = np.stack([np.bincount(row, minlength=3) / 4000 for row in drawn])
    np.testing.assert_allclose(shares, [[0.25, 0.5, 0.25], [0, 0.25, 0.75]], atol=0.03)


def test_gradients_of_a_tensor_and_of_gradients() -> None:
    training = "ai.onnx.preview.training"
    nodes = [
        node("Mul", ["x", "w"], ["product"]),
        node("Tanh", ["product"], ["h"]),
        node("ReduceSum", ["h"], ["y"], keepdims=0),
        node("Gradient", ["w", "x"], ["dw"], domain=training, xs=["w"], zs=["x"], y="y"),
        node("ReduceSum", ["dw"], ["total"], keepdims=0),
        node("Gradient", ["w", "x"], ["ddw"], domain=training, xs=["w"], zs=["x"], y="total"),
        node("Gradient", ["h"], ["dh"], domain=training, xs=["h"], y="y"),
    ]
    made = model(nodes, {"x": (FLOAT, [5]), "w": (FLOAT, [5])}, ["dw", "ddw", "dh"])
    made.opset_import.append(onnx.helper.make_opsetid(training, 1))
    x, w = floats(5), floats(5)
    dw, ddw, dh = InferenceSession(made, backend="reference").run(None, {"x": x, "w": w})
    h = np.tanh(x * w)
    np.testing.assert_allclose(dw, x * (1 - h**2), rtol=1e-5)
    np.testing.assert_allclose(ddw, -2 * x**2 * h * (1 - h**2), rtol=1e-4)
    np.testing.assert_array_equal(dh, np.ones(5, np.float32))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    "op", ["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"]
)
def test_an_index_below_the_extent_is_refused(op: str, known: bool) -> None:
    x, index = floats(3, 2), np.array([[0, 0], [-4, 0]])
    shapes = {"ScatterElements": (2, 2), "ScatterND": (2,)}
    updates = [floats(*shapes[op])] if op in shapes else []
    inputs, weights = ([x], [index, *updates]) if known else ([x, index, *updates], [])
    with pytest.raises(IndexOutOfRangeError):
        ours(one_node(op, inputs, weights, 20), inputs)


@pytest.mark.parametrize("padding", ["border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "cubic", "nearest"])
def test_weights_of_far_samples_sum_to_one(mode: str, padding: str) -> None:
    """From 2^24 on, neighbors of a place are no f32 of their own."""
    grid = np.array([[[[1e8, 0.0], [-1e10, 1e10], [3e7, -4e7], [0.2, 1e30]]]], np.float32)
    image = np.full((1, 1, 3, 4), 3.0, np.float32)
    inputs = [image, grid]
    made = one_node("GridSample", inputs, [], 20, mode=mode, padding_mode=padding)
    found = ours(made, inputs)
    np.testing.assert_allclose(found, np.full((1, 1, 1, 4), 3.0), rtol=1e-6)
