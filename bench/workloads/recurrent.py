"""Recurrent networks, from ONNX's operators for these."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.workload import Workload
from rlx.ir.graph import Graph

_STEPS, _INPUTS, _HIDDEN = 64, 64, 128


def gru_model() -> Any:
    """Return a GRU in both directions over a sequence, as a model whose weights are zeros."""
    from onnx import TensorProto, helper, numpy_helper

    shapes = {
        "w": (2, 3 * _HIDDEN, _INPUTS),
        "r": (2, 3 * _HIDDEN, _HIDDEN),
        "b": (2, 6 * _HIDDEN),
    }
    weights = [numpy_helper.from_array(np.zeros(s, np.float32), n) for n, s in shapes.items()]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", (_STEPS, 1, _INPUTS)), ("y", (_STEPS, 2, 1, _HIDDEN)))
    )
    node = helper.make_node(
        "GRU", ["x", *shapes], ["y"],
        hidden_size=_HIDDEN, direction="bidirectional", linear_before_reset=1,
    )  # fmt: skip
    body = helper.make_graph([node], "gru_encoder", [x], [y], weights)
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def gru_encoder() -> Graph:
    from rlx.onnx import load

    return load(gru_model())


RECURRENT = (Workload("gru_encoder", gru_encoder, ("onnxruntime", "openvino"), model=gru_model),)
