"""Small models for the tests, made with the helpers of the onnx package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Array = np.ndarray[Any, Any]
FLOAT = onnx.TensorProto.FLOAT
INT64 = onnx.TensorProto.INT64


def node(op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name=f"{op}_{outputs[0]}", **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[int, Sequence[Any] | None]],
    outputs: Sequence[str],
    weights: Mapping[str, Array] | None = None,
    *,
    opset: int = 20,
) -> Any:
    """Return a model; inputs are (element type, shape)."""
    declared = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()]
    results = [helper.make_empty_tensor_value_info(n) for n in outputs]
    tensors = [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()]
    graph = helper.make_graph(nodes, "small", declared, results, initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def perceptron() -> Any:
    """Return two layers, of which the batch is left open."""
    rng = np.random.default_rng(0)
    weights = {
        "w.1": rng.normal(size=(4, 8)).astype(np.float32),
        "b.1": rng.normal(size=8).astype(np.float32),
        "w.2": rng.normal(size=(8, 3)).astype(np.float32),
    }
    nodes = [
        node("Gemm", ["x", "w.1", "b.1"], ["hidden"]),
        node("Relu", ["hidden"], ["active"]),
        node("MatMul", ["active", "w.2"], ["y"]),
    ]
    return model(nodes, {"x": (FLOAT, ["batch", 4])}, ["y"], weights)


def flattening() -> Any:
    """Return a model that computes the shape to which it reshapes, as exporters write it."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"], axis=0),
        node("Unsqueeze", ["rows", "axes"], ["first"]),
        node("Concat", ["first", "rest"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
    ]
    weights = {
        "zero": np.asarray(0, np.int64),
        "axes": np.asarray([0], np.int64),
        "rest": np.asarray([-1], np.int64),
    }
    return model(nodes, {"x": (FLOAT, ["n", 2, 3])}, ["y"], weights)


def recurrent() -> Any:
    """Return an LSTM, and a branch on its sum."""
    rng = np.random.default_rng(1)
    weights = {
        "w": rng.normal(size=(1, 12, 2)).astype(np.float32),
        "r": rng.normal(size=(1, 12, 3)).astype(np.float32),
    }
    branches = {
        f"{name}_branch": helper.make_graph(
            [node(op, ["rows"], [name])], name, [], [helper.make_empty_tensor_value_info(name)]
        )
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }
    nodes = [
        node("LSTM", ["x", "w", "r"], ["rows"], hidden_size=3),
        node("ReduceSum", ["rows"], ["total"], keepdims=0),
        node("Greater", ["total", "zero"], ["positive"]),
        node("If", ["positive"], ["y"], **branches),
    ]
    weights["zero"] = np.asarray(0, np.float32)
    return model(nodes, {"x": (FLOAT, [4, 1, 2])}, ["y"], weights)


NODES: tuple[tuple[str, tuple[tuple[int, ...], ...], dict[str, Any]], ...] = (
    ("Conv", ((1, 2, 5, 5), (4, 2, 3, 3)), {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
    ("MaxPool", ((1, 2, 6, 6),), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("Gemm", ((2, 3), (3, 4), (4,)), {"transA": 0, "alpha": 0.5}),
    ("Concat", ((2, 3), (2, 5)), {"axis": 1}),
    ("Transpose", ((2, 3, 4),), {"perm": [2, 0, 1]}),
    ("LSTM", ((4, 1, 2), (1, 12, 2), (1, 12, 3)), {"hidden_size": 3}),
    ("LayerNormalization", ((2, 3, 4), (4,)), {"axis": -1, "epsilon": 1e-5}),
    ("Einsum", ((2, 3), (3, 4)), {"equation": "ij,jk->ik"}),
    ("DepthToSpace", ((1, 8, 2, 3),), {"blocksize": 2, "mode": "CRD"}),
    ("Resize", ((1, 1, 4, 4),), {"mode": "linear"}),
    ("GroupNormalization", ((1, 4, 3), (4,), (4,)), {"num_groups": 2}),
    ("ConvTranspose", ((1, 2, 5), (2, 3, 3)), {"strides": [2], "output_padding": [1]}),
)
"""Operators, shapes of their inputs, attributes: one node each."""


def of_one_node(op: str, shapes: Sequence[Sequence[int]], attributes: Mapping[str, Any]) -> Any:
    names = [f"x{place}" for place in range(len(shapes))]
    types = {name: (FLOAT, shape) for name, shape in zip(names, shapes, strict=True)}
    return model([node(op, names, ["y"], **attributes)], types, ["y"], opset=21)


def indexing() -> Any:
    """Return operators whose shapes follow numbers of the file, and a loop."""
    body = helper.make_graph(
        [node("Add", ["state", "state"], ["next"]), node("Identity", ["go"], ["on"])], "body",
        [helper.make_tensor_value_info("trip", INT64, []),
         helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", FLOAT, None)],
        [helper.make_tensor_value_info("on", onnx.TensorProto.BOOL, []),
         helper.make_tensor_value_info("next", FLOAT, None)],
    )  # fmt: skip
    nodes = [
        node("Slice", ["x", "begin", "end", "axes"], ["part"]),
        node("Pad", ["part", "widths"], ["padded"]),
        node("Tile", ["padded", "repeats"], ["tiled"]),
        node("Gather", ["tiled", "begin"], ["rows"], axis=1),
        node("Expand", ["rows", "shape"], ["wide"]),
        node("TopK", ["wide", "count"], ["best", "places"], axis=-1),
        node("Split", ["best"], ["left", "right"], axis=0, num_outputs=2),
        node("OneHot", ["places", "depth", "ends"], ["hot"]),
        node("Loop", ["trips", "", "left"], ["z"], body=body),
        node("NonZero", ["right"], ["y"]),
    ]
    numbers = {
        "begin": [1], "end": [4], "axes": [1], "widths": [0, 1, 1, 0], "repeats": [2, 1],
        "shape": [2, 6, 3], "count": [2], "depth": [5], "trips": [3],
    }  # fmt: skip
    weights: dict[str, Array] = {name: np.asarray(v, np.int64) for name, v in numbers.items()}
    weights["ends"] = np.asarray([0, 1], np.float32)
    weights["trips"] = weights["trips"].reshape(())
    return model(nodes, {"x": (FLOAT, [2, 5])}, ["y", "z", "hot"], weights)
