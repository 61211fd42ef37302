"""Models that need more than a loader should give, and external data that is not what it claims."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import rlx.onnx  # noqa: E402
from rlx.errors import FormatError, LimitError  # noqa: E402
from rlx.limits import LoadLimits  # noqa: E402
from rlx.onnx.operators.sampling import scaled  # noqa: E402
from tests.onnx.models import FLOAT, model, node  # noqa: E402

NAN, INF = float("nan"), float("inf")


def of_constants(op: str, inputs: dict[str, Any], shape: Any = None, **attributes: Any) -> Any:
    """Return a model of one node that reads initializers, after an input of `shape` if given."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    given = {} if shape is None else {"x": (FLOAT, shape)}
    made = model([node(op, [*given, *names], ["y"], **attributes)], given, ["y"])
    made.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in inputs.items()
        if value is not None
    )
    return made


def resized(scale: float) -> Any:
    scales = np.array([1, 1, 1, scale], np.float32)
    return of_constants("Resize", {"roi": None, "scales": scales}, [1, 1, 1, 5], mode="nearest")


@pytest.mark.parametrize(
    ("made", "limit"),
    [
        (resized(1e12), "elements"),
        (of_constants("Range", {"a": 0, "b": 2**62, "c": 1}), "elements"),
        (of_constants("Range", {"a": 0.0, "b": 1e308, "c": 1e-308}), "elements"),
        (of_constants("OneHot", {"d": 2**40, "v": [0.0, 1.0]}, [4]), "elements"),
        (of_constants("EyeLike", {}, [10**9, 10**4]), "elements"),
        (of_constants("HannWindow", {"n": 10**12}), "elements"),
        (of_constants("DFT", {"n": 10**10}, [1, 4, 1]), "elements"),
        (of_constants("MelWeightMatrix", {"a": 10**9, "b": 10**9, "c": 16000,
                                          "d": np.float32(0), "e": np.float32(8e3)}), "elements"),
    ],
)  # fmt: skip
def test_arrays_that_a_node_would_write_out_are_limited(made: Any, limit: str) -> None:
    with pytest.raises(LimitError, match=f"the limit {limit} is") as caught:
        rlx.onnx.load(made)
    assert caught.value.limit == limit
    assert caught.value.source is not None  # the node


@pytest.mark.parametrize(
    ("made", "said"),
    [
        *((resized(scale), "scales") for scale in (NAN, INF, -1.0, 0.0)),
        (resized(1e38), "not an extent"),
        (of_constants("Range", {"a": 0, "b": 5, "c": 0}), "in steps of 0"),
        (of_constants("Range", {"a": 0.0, "b": NAN, "c": 1.0}), "from 0.0 to nan"),
        (of_constants("Split", {}, [4], num_outputs=10**10), "splits into"),
        (of_constants("STFT", {"s": 0, "w": None, "n": 16}, [1, 400, 1]), "step between frames"),
        (of_constants("DFT", {"n": 0}, [1, 4, 1]), "length of the transform"),
        (of_constants("Expand", {"n": [[2], [3]]}, [4]), r"of shape \[2, 1\], not a vector"),
        (of_constants("Reshape", {"n": [[2, 2], [1, 1]]}, [4]), "not a vector"),
        (of_constants("Pad", {"p": [1, 1]}, [4], mode="%s"), "mode is '%s', which is no value"),
        (of_constants("GatherElements", {"i": [0, 1]}, [2, 2]), "indices of rank 1 for data of"),
        (of_constants("ScatterElements", {"i": [[0]], "u": [[1.0]]}, [2]), "indices of rank 2"),
        (of_constants("Trilu", {"k": [1, 2]}, [2, 2]), "must be one number"),
        (
            of_constants(
                "MelWeightMatrix",
                {"a": 4, "b": 8, "c": 100, "d": np.float32(0), "e": np.float32(8e3)},
            ),
            "of a spectrum of 5",
        ),
        (of_constants("InstanceNormalization", {"s": [1.0], "b": [1.0]}, [2]), "InstanceNorm"),
    ],
)
def test_inputs_and_attributes_that_an_operator_does_not_take_are_the_fault_of_the_file(
    made: Any, said: str
) -> None:
    with pytest.raises(FormatError, match=said):
        rlx.onnx.load(made)


@pytest.mark.parametrize(
    ("extent", "factor", "expected"), [(5, 1.4, 7), (10, 1.1, 11), (3, 0.5, 1)]
)
def test_an_extent_is_scaled_in_f32_as_onnx_runtime_does(
    extent: int, factor: float, expected: int
) -> None:
    rounded = float(np.float32(factor))
    assert scaled(extent, rounded) == expected
    symbolic = scaled(rlx.Dim("n", max=100), rounded)
    assert isinstance(symbolic, rlx.Dim)
    assert symbolic.evaluate({"n": extent}) == expected


def functions(count: int, calls: int) -> Any:
    """Return a model of functions of which each calls the one before `calls` times."""
    made = [helper.make_function("f", "f0", ["x"], ["y"], [node("Neg", ["x"], ["y"])],
                                 [helper.make_opsetid("", 18)])]  # fmt: skip
    for number in range(1, count):
        names = ["x", *(f"v{call}" for call in range(1, calls)), "y"]
        body = [
            helper.make_node(f"f{number - 1}", [a], [b], domain="f")
            for a, b in itertools.pairwise(names)
        ]
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
        made.append(helper.make_function("f", f"f{number}", ["x"], ["y"], body, opsets))
    call = helper.make_node(f"f{count - 1}", ["x"], ["y"], domain="f")
    whole = model([call], {"x": (FLOAT, [3])}, ["y"])
    whole.opset_import.append(helper.make_opsetid("f", 1))
    whole.functions.extend(made)
    return whole


def test_functions_that_multiply_are_limited_by_their_nodes() -> None:
    with pytest.raises(LimitError, match="at least 3001 nodes; the limit nodes is 3000"):
        rlx.onnx.load(functions(30, 2), limits=LoadLimits(nodes=3000))
    assert len(rlx.onnx.load(functions(4, 2), limits=LoadLimits(nodes=23)).nodes) == 9


@pytest.mark.parametrize("nesting", [32, 100_000])
def test_functions_that_nest_are_limited_by_their_depth(nesting: int) -> None:
    with pytest.raises(LimitError, match="nest"):
        rlx.onnx.load(functions(900, 1), limits=LoadLimits(nesting=nesting))


def test_a_loop_without_an_end_is_limited_by_its_trips() -> None:
    """Its body has no nodes, and its numbers are known."""
    body = helper.make_graph([], "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.STRING, [])],
        [helper.make_tensor_value_info("c", TensorProto.BOOL, []),
         helper.make_tensor_value_info("v", TensorProto.STRING, [])])  # fmt: skip
    made = model([node("SequenceConstruct", ["w"], ["s"]),
                  node("Loop", ["", "yes", "s"], ["y"], body=body)], {}, ["y"])  # fmt: skip
    made.graph.initializer.extend(
        [numpy_helper.from_array(np.array(True), "yes"),
         numpy_helper.from_array(np.zeros(2, np.float32), "w")])  # fmt: skip
    session = rlx.onnx.InferenceSession(made, limits=LoadLimits(nodes=500))
    with pytest.raises(LimitError, match="the limit nodes is 500"):
        session.run(None, {})


@pytest.mark.parametrize(
    ("nodes", "inputs", "outputs", "what"),
    [
        (1, ["x"], ["y", "y"], "its outputs"),
        (2, ["x"], ["y"], "inputs and results of nodes"),
        (1, ["x", "x"], ["y"], "its inputs"),
    ],
)
def test_names_are_unique(nodes: int, inputs: list[str], outputs: list[str], what: str) -> None:
    graph = helper.make_graph(
        [node("Neg", ["x"], ["y"]) for _ in range(nodes)], "g",
        [helper.make_tensor_value_info(name, FLOAT, [2]) for name in inputs],
        [helper.make_tensor_value_info(name, FLOAT, [2]) for name in outputs],
    )  # fmt: skip
    with pytest.raises(FormatError, match=f"twice among .*{what}"):
        rlx.onnx.load(helper.make_model(graph))


def test_tensors_have_no_negative_extents() -> None:
    made = of_constants("Add", {"w": np.ones(4, np.float32)}, [4])
    made.graph.initializer[0].dims[0] = -1
    with pytest.raises(FormatError, match=r"'w' has shape \(-1,\), with a negative extent"):
        rlx.onnx.load(made)


# External data


def external(folder: Path, dims: tuple[int, ...] = (4,), **entries: Any) -> Path:
    made = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [4])}, ["y"])
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    made.graph.initializer.append(tensor)
    path = folder / "m.onnx"
    path.write_bytes(made.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"location": "pipe"}, "is a pipe, not a file"),
        ({"location": "folder"}, "is a directory, not a file"),
        ({"location": "."}, "is a directory, not a file"),
        ({"location": "link"}, "outside of the model's folder"),
        ({"location": "/dev/zero"}, "outside of the model's folder"),
        ({"location": "../data"}, "outside of the model's folder"),
        ({"location": ""}, "outside of the model's folder"),
        ({"location": "around"}, "which is not a path"),
        ({"location": "a\0b"}, "which is not a path"),
        ({"location": "x" * 5000}, "cannot be read|not a path"),
        ({"location": "nothing"}, "cannot be read"),
        ({"location": "data", "length": 4}, "takes 16 bytes of 'data'; its length is 4"),
        ({"location": "data", "length": -1}, "the length of its external data is '-1'"),
        ({"location": "data", "offset": -4}, "the offset of its external data is '-4'"),
        ({"location": "data", "offset": "1_0"}, "the offset of its external data is '1_0'"),
        ({"location": "data", "offset": 10**30}, "the offset of its external data"),
        ({"location": "data", "offset": 52}, "ends at byte 68 of .*, which has 64"),
        ({"location": "data", "dims": (-1,)}, "negative extent"),
        ({"location": "data", "dims": (2**20, 2**20)}, "ends at byte"),
        ({"location": "data", "dims": (0, 2**62)}, "cannot be read from 'data': array is too big"),
    ],
)
def test_external_data_is_a_file_of_the_folder_that_fits(
    entries: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "folder").mkdir(parents=True)
    (tmp_path / "data").write_bytes(bytes(64))
    (folder / "data").write_bytes(bytes(64))
    (folder / "link").symlink_to(tmp_path / "data")
    (folder / "around").symlink_to("around")
    os.mkfifo(folder / "pipe")
    with pytest.raises(FormatError, match=said):
        rlx.onnx.load(external(folder, **entries))


def test_location_of_external_data_is_text(tmp_path: Path) -> None:
    path = external(tmp_path, location="not text")
    path.write_bytes(path.read_bytes().replace(b"not text", b"not\xff\xfe\x80xt"))
    with pytest.raises(FormatError):
        rlx.onnx.load(path)


@pytest.mark.parametrize("offset", [0, 2, 48])
def test_external_data_is_read_at_its_offset(offset: int, tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(64)
    (tmp_path / "data").write_bytes(content)
    path = external(tmp_path, location="data", offset=offset, length=16)
    expected = np.frombuffer(content[offset : offset + 16], np.float32)
    found = rlx.onnx.load(path).param_values["w"]
    assert np.array_equal(found, expected, equal_nan=True)


@pytest.mark.parametrize("targets", [2**40, -1, 3])
def test_coefficients_are_as_many_as_results_and_features(targets: int) -> None:
    made = model(
        [helper.make_node("LinearRegressor", ["x"], ["y"], domain="ai.onnx.ml",
                          coefficients=[1.0, 2.0], targets=targets)],
        {"x": (FLOAT, [3, 2])}, ["y"],
    )  # fmt: skip
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    with pytest.raises(FormatError, match="2 coefficients for"):
        rlx.onnx.load(made)
