"""`InferenceSession`: the face of ONNX Runtime's, stages, and what is kept."""

from __future__ import annotations

import importlib
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

import rlx  # noqa: E402
from rlx.errors import InputError, UnsupportedError  # noqa: E402
from rlx.ir.graph import Graph  # noqa: E402
from rlx.onnx import InferenceSession  # noqa: E402
from tests.onnx.models import FLOAT, INT64, flattening, model, node, perceptron  # noqa: E402

Array = np.ndarray[Any, Any]


def session(made: object) -> InferenceSession:
    return InferenceSession(made, providers=["CPUExecutionProvider"], backend="reference")


def test_it_lists_its_inputs_and_outputs() -> None:
    made = session(perceptron())
    (given,) = made.get_inputs()
    assert (given.name, given.type, given.shape) == ("x", "tensor(float)", ["batch", 4])
    assert [output.name for output in made.get_outputs()] == ["y"]
    assert made.get_modelmeta().graph_name == "small"


def test_each_shape_is_compiled_once() -> None:
    made = session(perceptron())
    for rows in (1, 3, 1, 3):
        (y,) = made.run(["y"], {"x": np.ones((rows, 4), np.float32)})
        assert y.shape == (rows, 3)
    assert len(made._stages) == 2


def test_inputs_are_checked() -> None:
    made = session(perceptron())
    with pytest.raises(InputError, match="inputs missing: x; unknown: z"):
        made.run(None, {"z": np.ones((1, 4), np.float32)})
    with pytest.raises(InputError, match="has dtype float64; it must be float32"):
        made.run(None, {"x": np.ones((1, 4))})
    with pytest.raises(InputError, match=r"has shape \(1, 5\)"):
        made.run(None, {"x": np.ones((1, 5), np.float32)})
    with pytest.raises(InputError, match="has no output 'logits'"):
        made.run(["logits"], {"x": np.ones((1, 4), np.float32)})


def test_shapes_are_folded_for_each_input() -> None:
    made = session(flattening())
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    np.testing.assert_array_equal(made.run(None, {"x": x})[0], x.reshape(2, 6))


def test_shapes_that_depend_on_data_are_run_in_stages() -> None:
    nodes = [
        node("Relu", ["x"], ["positive"]),
        node("NonZero", ["positive"], ["places"]),
        node("Transpose", ["places"], ["rows"]),
        node("GatherND", ["positive", "rows"], ["kept"]),
        node("Exp", ["kept"], ["y"]),
    ]
    made = session(model(nodes, {"x": (FLOAT, ["n"])}, ["y"]))
    for x in ([1, -2, 3, -4], [-1, 2, 3, 4]):
        array = np.asarray(x, np.float32)
        (y,) = made.run(None, {"x": array})
        np.testing.assert_allclose(y, np.exp(array[array > 0]), rtol=1e-6)


@pytest.mark.parametrize("backend", ["reference", "auto"])
def test_result_that_no_machine_holds_is_refused(backend: str) -> None:
    convolution = node("Conv", ["x", "w"], ["y"], pads=[0, 0, 2**40, 0])
    weights = {"w": np.ones((1, 1, 2, 2), np.float32)}
    made = model([convolution], {"x": (FLOAT, [1, 1, 4, 4])}, ["y"], weights)
    with pytest.raises(UnsupportedError, match="this machine"):
        InferenceSession(made, backend=backend).run(None, {"x": np.ones((1, 1, 4, 4), np.float32)})


def picky() -> Any:
    """Return a model of which each branch fits one extent alone."""
    weights: dict[str, Array] = {f"w.{n}": np.full((n, 2), n, np.float32) for n in (2, 3)}
    branches = {
        f"{name}_branch": onnx.helper.make_graph(
            [node("MatMul", ["x", f"w.{n}"], [name])], name, [],
            [onnx.helper.make_empty_tensor_value_info(name)],
        )
        for name, n in (("then", 3), ("else", 2))
    }  # fmt: skip
    nodes = [node("Greater", ["width", "two"], ["wide"]), node("If", ["wide"], ["y"], **branches)]
    inputs = {"x": (FLOAT, [1, "n"]), "width": (INT64, [])}
    weights["two"] = np.asarray(2, np.int64)
    return model(nodes, inputs, ["y"], weights)


def test_branches_are_chosen_by_their_condition_alone() -> None:
    made = session(picky())
    x = np.asarray([[1, 2, 3]], np.float32)
    for scale in (1, 2, 3):
        (y,) = made.run(None, {"x": x * scale, "width": np.asarray(3)})
        np.testing.assert_allclose(y, [[18 * scale] * 2])
    assert len(made._stages) == 2
    (y,) = made.run(None, {"x": x[:, :2], "width": np.asarray(2)})
    np.testing.assert_allclose(y, [[6, 6]])
    (y,) = made.run(None, {"x": x, "width": np.asarray(3)})
    np.testing.assert_allclose(y, [[18, 18]])


def striding() -> Any:
    """Return windows that move in steps, and a reshape to what they leave."""
    weights: dict[str, Array] = {
        "w": np.ones((4, 3, 3), np.float32),
        "shape": np.asarray([0, -1], np.int64),
    }
    nodes = [
        node("Conv", ["x", "w"], ["seen"], strides=[2], pads=[1, 1]),
        node("MaxPool", ["seen"], ["most"], kernel_shape=[3], strides=[2], pads=[1, 1]),
        node("Reshape", ["most", "shape"], ["y"]),
    ]
    return model(nodes, {"x": (FLOAT, ["batch", 3, "length"])}, ["y"], weights)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of graphs that sessions compile from now on."""
    names: list[str] = []

    def compile_graph(graph: Graph, **how: Any) -> Any:
        names.append(graph.name)
        return rlx.compile(graph, **how)

    monkeypatch.setattr("rlx.onnx.session.compile", compile_graph)
    return names


def test_bounded_extents_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = counted(monkeypatch)
    dims = {"length": rlx.Dim("length", max=64, min=1)}
    bounded = InferenceSession(striding(), backend="reference", dims=dims)
    plain = InferenceSession(striding(), backend="reference")
    for length in (5, 64, 17):
        x = np.random.default_rng(length).normal(size=(1, 3, length)).astype(np.float32)
        (found,), (expected,) = (each.run(None, {"x": x}) for each in (bounded, plain))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert len(compiled) == 1 + 3
    with pytest.raises(InputError, match="length = 65 is outside its bounds"):
        bounded.run(None, {"x": np.ones((1, 3, 65), np.float32)})


def test_shapes_are_numbers_where_extents_are_bounded() -> None:
    text = """<ir_version: 9, opset_import: ["" : 20]>
    g (float[n] x) => (int64[1] s, float[n] y, int64[k] places)
    { s = Shape(x)  y = Neg(x)  z = NonZero(x)  d = Shape(z)  places = Concat<axis=0>(d, s) }"""
    dims = {"n": rlx.Dim("n", max=9)}
    session = InferenceSession(onnx.parser.parse_model(text), backend="reference", dims=dims)
    for n in (5, 7, 7, 7, 5):
        s, _, places = session.run(None, {"x": np.ones(n, np.float32)})
        assert s.dtype == np.int64
        assert (s.tolist(), places.tolist()) == ([n], [1, n, n])


def test_the_shape_alone_of_a_bounded_input_is_a_number() -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (int64[1] s) { s = Shape(x) }'
    )
    dims = {"n": rlx.Dim("n", max=9)}
    session = InferenceSession(onnx.parser.parse_model(text), backend="reference", dims=dims)
    assert [session.run(None, {"x": np.ones(n, "f4")})[0].tolist() for n in (3, 9)] == [[3], [9]]
    with pytest.raises(InputError, match="sets n = 10"):
        session.run(None, {"x": np.ones(10, np.float32)})


@pytest.mark.parametrize("dims", [{"widths": rlx.Dim("n", max=9)}, {"x": rlx.Dim("n", max=9)}])
def test_dims_that_no_input_has_are_refused(dims: Any) -> None:
    with pytest.raises(InputError, match="which no input has") as caught:
        InferenceSession(striding(), dims=dims)
    assert "batch, length" in str(caught.value)


def test_arrays_keep_to_the_dims_of_a_session() -> None:
    bounded = InferenceSession(striding(), backend="reference", dims={"x": (2, 3, 8)})
    with pytest.raises(InputError, match=r"has shape \(1, 3, 8\); dims= says \(2, 3, 8\)"):
        bounded.run(None, {"x": np.ones((1, 3, 8), np.float32)})


def test_numbers_of_python_take_the_dtype_that_the_model_declares() -> None:
    text = '<ir_version: 9, opset_import: ["" : 20]> g (int32[2] x) => (int32[2] y) { y = Neg(x) }'
    session = InferenceSession(onnx.parser.parse_model(text))
    (y,) = session.run(None, {"x": [1, -2]})
    np.testing.assert_array_equal(y, np.array([-1, 2], np.int32))
    for wrong in ([0.5, 1.5], [2**40, 1], ["1", "2"]):
        with pytest.raises(InputError, match="must be int32"):
            session.run(None, {"x": wrong})


def test_options_that_programs_set_are_there_and_threads_are_taken() -> None:
    options = rlx.onnx.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = rlx.onnx.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    assert "CPUExecutionProvider" in rlx.onnx.get_available_providers()
    session = InferenceSession(perceptron(), options, providers=["CPUExecutionProvider"])
    assert session.get_providers() == ["CPUExecutionProvider"]


def test_keywords_are_those_of_the_two_runtimes() -> None:
    InferenceSession(perceptron(), disabled_optimizers=["ConstantFolding"], enable_fallback=0)
    with pytest.raises(InputError, match=r"(?s)no keyword 'thread'.*threads, dims"):
        InferenceSession(perceptron(), thread=2)


def test_threads_share_the_stages_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlx.onnx.session._STAGES_KEPT", 2)
    made = session(perceptron())

    def calls(seed: int) -> int:
        rng = np.random.default_rng(seed)
        shapes = [(int(rng.integers(1, 6)), 4) for _ in range(40)]
        return sum(
            made.run(None, {"x": np.ones(s, np.float32)})[0].shape == (s[0], 3) for s in shapes
        )

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(calls, range(4))) == [40] * 4
    assert len(made._stages) == 2


def test_memory_of_no_elements_is_bound() -> None:
    made, empty = session(perceptron()), np.zeros((0, 4), np.float32)
    binding = made.io_binding()
    empty = np.zeros((0, 4), np.float32)
    binding.bind_input("x", "cpu", 0, np.float32, empty.shape, empty.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, (0, 3), empty.ctypes.data)
    made.run_with_iobinding(binding)
    assert binding.copy_outputs_to_cpu()[0].shape == (0, 3)


def test_bound_arrays_are_read_and_written_in_place() -> None:
    made = session(perceptron())
    x = np.ones((2, 4), np.float32)
    (expected,) = made.run(None, {"x": x})
    binding = made.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_output("y")
    made.run_with_iobinding(binding, rlx.onnx.RunOptions())
    np.testing.assert_array_equal(binding.copy_outputs_to_cpu()[0], expected)
    y = rlx.onnx.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32, "cpu", 0)
    binding.bind_ortvalue_output("y", y)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(y.numpy(), expected)
    place = np.zeros((2, 3), np.float32)
    twice = 2 * x
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, twice.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, (2, 3), place.ctypes.data)
    made.run_with_iobinding(binding)
    np.testing.assert_array_equal(place, made.run(None, {"x": twice})[0])
    binding.bind_ortvalue_output("y", rlx.onnx.OrtValue(np.zeros((3, 3), np.float32)))
    with pytest.raises(InputError, match=r"float32\[2, 3\] does not fit .* float32\[3, 3\]"):
        made.run_with_iobinding(binding)
    with pytest.raises(UnsupportedError, match="cuda:0"):
        binding.bind_output("y", "cuda")


@pytest.mark.parametrize("backend", ["reference", "llvm"])
def test_results_share_no_memory_with_what_is_bound(backend: str) -> None:
    """Nor with one another: who changes one changes no other."""
    nodes = [
        node("Identity", ["x"], ["y"]), node("Reshape", ["x", "shape"], ["z"]),
        node("Expand", ["x", "shape"], ["w"]),
    ]  # fmt: skip
    shape = {"shape": np.asarray([2, 4], np.int64)}
    made = model(nodes, {"x": (FLOAT, [2, 4])}, ["y", "z", "w", "x"], shape)
    session = InferenceSession(made, backend=backend)
    x = np.ones((2, 4), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    for name in ("y", "z", "w", "x"):
        binding.bind_output(name)
    for _ in range(2):
        session.run_with_iobinding(binding)
        found = [value.numpy() for value in binding.get_outputs()]
        for place, each in enumerate(found):
            others = (x, *found[:place])
            assert not any(np.shares_memory(each, other) for other in others)
            each[...] = 5
    np.testing.assert_array_equal(x, 1)


def test_values_report_their_types() -> None:
    x = np.ones((2, 4), np.float32)
    value = rlx.onnx.OrtValue.ortvalue_from_numpy(x)
    assert (value.shape(), value.data_type(), value.element_type()) == ([2, 4], "tensor(float)", 1)
    assert value.data_ptr() == x.ctypes.data
    value.update_inplace(2 * x)
    np.testing.assert_array_equal(x, 2)
    (y,) = session(perceptron()).run_with_ort_values(["y"], {"x": value})
    assert (y.is_tensor(), y.shape(), y.device_name()) == (True, [2, 3], "cpu")


def test_a_run_in_the_background_calls_back_with_results_or_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Any error: it would be lost elsewhere."""
    made, done, reported = session(perceptron()), Event(), []

    def callback(results: list[Any], data: Any, error: str) -> None:
        reported.append((results, data, error))
        done.set()

    def broken(*_: Any) -> Any:
        raise MemoryError

    for feed in ({"x": np.ones((1, 4), np.float32)}, {}, {"x": np.ones((1, 4), np.float32)}):
        done.clear()
        made.run_async(None, feed, callback, "data")
        assert done.wait(60)
        if len(reported) == 2:
            monkeypatch.setattr(made, "run", broken)
    assert reported[0][0][0].shape == (1, 3)
    assert reported[0][1:] == ("data", "")
    assert "inputs missing: x" in reported[1][2]
    assert reported[2] == ([], "data", "MemoryError: ")


def test_options_give_extents_and_refuse_what_is_not_there() -> None:
    options = rlx.onnx.SessionOptions()
    options.add_free_dimension_override_by_name("batch", 2)
    options.add_free_dimension_override_by_name("elsewhere", 5)
    made = InferenceSession(perceptron(), options, backend="reference")
    assert made.run(None, {"x": np.ones((2, 4), np.float32)})[0].shape == (2, 3)
    with pytest.raises(InputError, match=r"dims= says \(2, None\)"):
        made.run(None, {"x": np.ones((3, 4), np.float32)})
    for name, value in (("enable_profiling", True), ("optimized_model_filepath", "y.onnx")):
        options = rlx.onnx.SessionOptions()
        setattr(options, name, value)
        with pytest.raises(UnsupportedError, match=name):
            InferenceSession(perceptron(), options)
    with pytest.raises(AttributeError):
        rlx.onnx.SessionOptions().intra_op_threads = 2  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedError, match="compiled against ONNX Runtime"):
        rlx.onnx.SessionOptions().register_custom_ops_library("ops.so")


def test_a_provider_that_is_not_there_is_reported() -> None:
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not available"):
        InferenceSession(perceptron(), providers=["CUDAExecutionProvider", "CPUExecutionProvider"])


def test_errors_have_the_names_that_programs_catch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", rlx.onnx)
    for name in ("onnxruntime.capi", "onnxruntime.capi.onnxruntime_pybind11_state"):
        monkeypatch.setitem(sys.modules, name, rlx.onnx)  # so that what was there comes back
        del sys.modules[name]
    state = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
    for error, made in (
        (state.NoSuchFile, "nowhere.onnx"),
        (state.InvalidProtobuf, b"no model"),
        (state.Fail, b"no model"),
    ):
        with pytest.raises(error):
            InferenceSession(made)
    with pytest.raises(state.InvalidArgument):
        InferenceSession(perceptron()).run(None, {})


def test_a_session_has_the_methods_of_onnx_runtime() -> None:
    """But for those of other devices, profiles and what is compiled there."""
    peer = pytest.importorskip("onnxruntime")
    elsewhere = re.compile("ep_?device|tuning|captured|assignment|memory_info|ep_dynamic|profil")
    for theirs, ours in (
        (peer.InferenceSession, InferenceSession),
        (peer.IOBinding, rlx.onnx.IOBinding),
        (peer.OrtValue, rlx.onnx.OrtValue),
        (peer.RunOptions, rlx.onnx.RunOptions),
    ):
        public = {n for n in dir(theirs) if n[0] != "_" and not elsewhere.search(n)}
        assert public - set(dir(ours)) == _NOT_HERE.get(theirs.__name__, set())


_NOT_HERE = {
    "InferenceSession": {"run_with_ortvaluevector", "create_ortvalue_from_shape_and_type"},
    "OrtValue": {
        "as_sparse_tensor", "ort_value_from_sparse_tensor", "ortvalue_from_numpy_with_onnx_type",
        "from_dlpack",
    },
    "RunOptions": {"add_active_adapter"},
}  # fmt: skip
"""What takes vectors of C++, sparse tensors, device memory or adapters."""


def products(path: Path, scale: float) -> np.ndarray[Any, Any]:
    """Write a model of one product to `path`; return its weights."""
    weights = np.linspace(-scale, scale, 64 * 64, dtype=np.float32).reshape(64, 64)
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (float[n, 64] x) => (y) { y = MatMul(x, w) }'
    )
    made.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(made, path)
    return weights


def test_large_weights_are_mapped_from_the_file_and_kept_once(tmp_path: Path) -> None:
    weights = products(tmp_path / "model.onnx", 1.0)
    session = InferenceSession(tmp_path / "model.onnx")
    model = session._model
    assert isinstance(model.arrays["w"], np.memmap)
    assert not model.graph.initializer[0].raw_data
    x = np.ones((2, 64), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ weights, rtol=1e-4, atol=1e-4)
    (tmp_path / "model.onnx").unlink()  # what was removed stays mapped
    x = np.ones((3, 64), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ weights, rtol=1e-4, atol=1e-4)


def test_a_file_that_is_overwritten_under_a_session_is_an_error_when_it_compiles(
    tmp_path: Path,
) -> None:
    path = tmp_path / "model.onnx"
    weights = products(path, 1.0)
    session = InferenceSession(path)
    x = np.ones((2, 64), np.float32)
    session.run(None, {"x": x})
    graph = rlx.onnx.load(path, dims={"n": 2})
    products(path, 2.0)
    os.utime(path, ns=(0, 0))  # clocks of files may be coarse
    np.testing.assert_allclose(session.run(None, {"x": x})[0], x @ weights, rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="was overwritten while a session"):
        session.run(None, {"x": np.ones((3, 64), np.float32)})
    np.testing.assert_array_equal(graph.param_values["w"], weights)  # graphs have their own
