"""Models as graphs: names, params, dims, folded shapes, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
ml_dtypes = pytest.importorskip("ml_dtypes")

from onnx import numpy_helper  # noqa: E402

import rlx  # noqa: E402
from rlx.errors import FormatError, InputError, RlxError, UnsupportedError  # noqa: E402
from tests.onnx.models import FLOAT, INT64, flattening, model, node, perceptron  # noqa: E402


def run(graph: rlx.Graph, *arrays: Any) -> Any:
    return rlx.compile(graph, backend="reference")(*arrays)[0]


def test_names_params_and_sources_are_those_of_the_model() -> None:
    graph = rlx.onnx.load(perceptron(), dims={"batch": 2})
    assert [p.node.name for p in graph.params] == ["w.1", "b.1", "w.2"]
    assert [i.node.name for i in graph.inputs] == ["x"]
    assert graph.output_names == ("y",)
    products = [n for n in graph.nodes if n.op.name == "matmul"]
    assert [str(n.source) for n in products] == ["small:0 in Gemm_hidden", "small:2 in MatMul_y"]


def test_params_are_bound() -> None:
    x = np.ones((2, 4), np.float32)
    values = rlx.onnx.load(perceptron(), dims={"batch": 2}).param_values
    expected = np.maximum(x @ values["w.1"] + values["b.1"], 0) @ values["w.2"]
    y = run(rlx.onnx.load(perceptron(), dims={"batch": 2}), x)
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_a_bounded_dim_is_one_program_for_all_extents() -> None:
    graph = rlx.onnx.load(perceptron(), dims={"batch": rlx.Dim("batch", max=8)})
    run_any = rlx.compile(graph, backend="reference")
    assert [run_any(np.ones((n, 4), np.float32))[0].shape for n in (1, 5, 8)] == [
        (1, 3),
        (5, 3),
        (8, 3),
    ]


def test_an_open_dimension_without_extent_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"'x' leaves dimension 'batch' open"):
        rlx.onnx.load(perceptron())


@pytest.mark.parametrize("extent", [4, rlx.Dim("n", max=6)])
def test_arithmetic_of_shapes_leaves_no_nodes(extent: Any) -> None:
    graph = rlx.onnx.load(flattening(), dims={"n": extent})
    assert [n.op.name for n in graph.nodes] == ["input", "reshape"]
    assert run(graph, np.zeros((4, 2, 3), np.float32)).shape == (4, 6)


def comparing(extent: int) -> Any:
    """Return a model that gives one element where its input has `extent`, else two."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Equal", ["shape", "extent"], ["is_it"]),
        node("Where", ["is_it", "one", "two"], ["wanted"]),
        node("Expand", ["zero", "wanted"], ["y"]),
    ]
    weights = {"extent": np.asarray([extent]), "one": np.asarray([1]), "two": np.asarray([2])}
    weights["zero"] = np.zeros(1, np.float32)
    return model(nodes, {"x": (FLOAT, ["n"])}, ["y"], weights)


@pytest.mark.parametrize(
    ("extent", "n", "elements"),
    [(3, 3, 1), (3, 4, 2), (-1, rlx.Dim("n"), 2), (1, rlx.Dim("n", min=2, max=4), 2)],
)
def test_extents_are_compared(extent: int, n: Any, elements: int) -> None:
    assert rlx.onnx.load(comparing(extent), dims={"n": n}).outputs[0].shape == (elements,)


def test_a_shape_that_the_comparison_of_a_symbol_decides_is_a_typed_error() -> None:
    said = r"(?s)'wanted' decides the shape of the result.*load it with numbers for its extents"
    with pytest.raises(UnsupportedError, match=said):
        rlx.onnx.load(comparing(1), dims={"n": rlx.Dim("n", max=4)})


def test_a_shape_that_depends_on_data_is_a_typed_error_in_a_graph() -> None:
    nodes = [node("Reshape", ["x", "shape"], ["y"])]
    made = model(nodes, {"x": (FLOAT, [4]), "shape": (INT64, [2])}, ["y"])
    with pytest.raises(UnsupportedError, match="'shape' decides the shape of the result"):
        rlx.onnx.load(made)


def test_errors_name_node_and_operator() -> None:
    made = model([node("Conjure", ["x"], ["y"])], {"x": (FLOAT, [4])}, ["y"])
    with pytest.raises(UnsupportedError, match="Conjure_y"):
        rlx.onnx.load(made)
    nodes = [node("MatMul", ["x", "x"], ["y"])]
    with pytest.raises(RlxError, match=r"(?s)shape.*small:0 in MatMul_y \(MatMul\)"):
        rlx.onnx.load(model(nodes, {"x": (FLOAT, [4, 3])}, ["y"]))


@pytest.mark.parametrize(
    ("op_type", "inputs", "number"),
    [("Conv", ["x", ""], 2), ("MatMul", ["", "x"], 1), ("Add", ["x", ""], 2), ("Relu", [""], 1)],
)
def test_a_required_input_that_is_left_out_is_a_format_error(
    op_type: str, inputs: list[str], number: int
) -> None:
    proto = model([node(op_type, inputs, ["y"])], {"x": (FLOAT, [2, 2])}, ["y"])
    with pytest.raises(FormatError, match=f"{op_type} needs its input number {number}") as caught:
        rlx.onnx.load(proto)
    assert f"small:0 in {op_type}_y ({op_type})" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_subnormal_weights_of_products_are_zeros_and_all_others_stay(dtype: Any) -> None:
    least = np.finfo(dtype).smallest_normal
    w = np.array([[1, least / 2, -least], [-least / 8, 0, 2]], dtype)
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["y"])]
    element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = model(nodes, {"x": (element, [3, 2])}, ["y"], {"w": w, "b": w[0]})
    values = rlx.onnx.load(proto).param_values
    np.testing.assert_array_equal(values["w"], np.array([[1, 0, -least], [0, 0, 2]], dtype))
    np.testing.assert_array_equal(values["b"], w[0])


def test_subnormal_weights_with_small_ones_stay() -> None:
    w = np.array([[1e-38, 1e-39], [1e-30, 0]], np.float32)
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [3, 2])}, ["y"], {"w": w})
    np.testing.assert_array_equal(rlx.onnx.load(proto).param_values["w"], w)


@pytest.mark.parametrize(("spoiled", "ops"), [(1.0, 0), (np.nan, 1), (np.inf, 1), (-0.0, 1)])
def test_a_product_of_one_hot_vectors_looks_rows_up_where_that_is_the_same(
    spoiled: float, ops: int
) -> None:
    w = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    w[1, 2] = spoiled
    nodes = [
        node("Equal", ["x", "classes"], ["hits"]),
        node("Cast", ["hits"], ["hot"], to=FLOAT),
        node("MatMul", ["hot", "w"], ["y"]),
    ]
    classes: Any = np.arange(5, dtype=np.int64).reshape(1, 5)
    weights = {"classes": classes, "w": w}
    graph = rlx.onnx.load(model(nodes, {"x": (INT64, [8, 1])}, ["y"], weights))
    assert sum(n.op.name == "matmul" for n in graph.nodes) == ops
    places = np.array([0, 1, 4, 5, -1, -5, 2**40, 3])
    hot = (places[:, None] == np.arange(5)).astype(np.float32)
    with np.errstate(invalid="ignore"):
        expected = hot @ w
    np.testing.assert_array_equal(run(graph, places[:, None]), expected)


def test_a_cycle_is_a_format_error() -> None:
    nodes = [node("Relu", ["b"], ["a"]), node("Relu", ["a"], ["b"])]
    with pytest.raises(FormatError, match="'b' is read before any node makes it"):
        rlx.onnx.load(model(nodes, {"x": (FLOAT, [4])}, ["b"]))


def test_a_file_that_is_no_model_is_a_format_error(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(perceptron().SerializeToString()[:-40])
    with pytest.raises(FormatError, match=r"broken\.onnx"):
        rlx.onnx.load(path)
    with pytest.raises(InputError, match="cannot read"):
        rlx.onnx.load(tmp_path / "missing.onnx")


def save_external(folder: Path, location: str) -> Path:
    made = perceptron()
    path = folder / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    for tensor in made.graph.initializer:
        next(e for e in tensor.external_data if e.key == "location").value = location
    path.write_bytes(made.SerializeToString())
    return path


def test_external_data_is_mapped(tmp_path: Path) -> None:
    graph = rlx.onnx.load(save_external(tmp_path, "weights.bin"), dims={"batch": 1})
    mapped = graph.param_values["w.1"]
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(
        mapped, rlx.onnx.load(perceptron(), dims={"batch": 1}).param_values["w.1"]
    )


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/hostname", ""])
def test_external_data_outside_of_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    with pytest.raises(FormatError, match="outside of the model's folder"):
        rlx.onnx.load(save_external(folder, location), dims={"batch": 1})


def test_external_data_that_is_too_short_is_a_format_error(tmp_path: Path) -> None:
    path = save_external(tmp_path, "weights.bin")
    (tmp_path / "weights.bin").write_bytes(b"1234")
    with pytest.raises(FormatError, match=r"weights\.bin"):
        rlx.onnx.load(path, dims={"batch": 1})


def unpacking(dtype: Any, opset: int) -> tuple[Any, Any]:
    """Return a model that gives its packed weights in f32, and these."""
    weights = np.asarray([0, 1, 1, 0, 1], np.float32).astype(dtype)
    nodes = [node("Cast", ["w"], ["wide"], to=FLOAT), node("Mul", ["x", "wide"], ["y"])]
    return model(nodes, {"x": (FLOAT, [5])}, ["y"], {"w": weights}, opset=opset), weights


@pytest.mark.parametrize(
    ("name", "opset"), [("int4", 21), ("uint4", 21), ("float4_e2m1fn", 23), ("uint2", 25)]
)
def test_external_data_of_less_than_a_byte_is_unpacked(
    tmp_path: Path, name: str, opset: int
) -> None:
    made, weights = unpacking(np.dtype(getattr(ml_dtypes, name)), opset)
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    with (tmp_path / "w.bin").open("ab") as file:
        file.write(bytes(16))  # the data of another tensor
    (y,) = rlx.onnx.InferenceSession(path, backend="reference").run(
        None, {"x": np.ones(5, np.float32)}
    )
    np.testing.assert_array_equal(y, weights.astype(np.float32))


def test_external_data_of_an_unknown_type_is_a_format_error(tmp_path: Path) -> None:
    path = save_external(tmp_path, "weights.bin")
    made = onnx.load(path, load_external_data=False)
    made.graph.initializer[0].data_type = 999
    path.write_bytes(made.SerializeToString())
    with pytest.raises(FormatError, match="element type 999"):
        rlx.onnx.load(path, dims={"batch": 1})


@pytest.mark.parametrize(
    ("indices", "shape"),
    [([0, 50], [4, 4]), ([-1, 2], [4, 4]), ([0, 1], [-4, 4]), ([0, 1], [1 << 30, 1 << 10])],
)
def test_a_sparse_tensor_that_does_not_fit_its_shape_is_a_format_error(
    indices: list[int], shape: list[int]
) -> None:
    made = model([node("Relu", ["w"], ["y"])], {}, ["y"])
    values = onnx.numpy_helper.from_array(np.ones(2, np.float32), "w")
    places = onnx.numpy_helper.from_array(np.asarray(indices, np.int64))
    sparse = onnx.helper.make_sparse_tensor(values, places, shape)
    made.graph.sparse_initializer.append(sparse)
    with pytest.raises(FormatError, match="sparse tensor 'w'"):
        rlx.onnx.load(made)


def test_large_constants_are_params_and_live_through_stages() -> None:
    """Exporters of PaddlePaddle write all weights as Constant nodes."""
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    nodes = [
        node("Constant", [], ["w"], value=numpy_helper.from_array(weight)),
        node("Constant", [], ["one"], value=numpy_helper.from_array(np.asarray([1], np.int64))),
        node("NonZero", ["x"], ["places"]),
        node("Gather", ["w", "places"], ["rows"], axis=0),
        node("Add", ["rows", "w"], ["y"]),
    ]
    made = model([*nodes[:1], node("MatMul", ["x", "w"], ["y"])], {"x": (FLOAT, [2, 3])}, ["y"])
    graph = rlx.onnx.load(made)
    assert list(graph.param_values) == ["w"]
    np.testing.assert_array_equal(graph.param_values["w"], weight)
    staged = model(nodes, {"x": (FLOAT, [3])}, ["y"])
    session = rlx.onnx.InferenceSession(staged, backend="reference")
    (y,) = session.run(None, {"x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(y, (weight + weight)[None])
