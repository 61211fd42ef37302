"""Batch, group, instance and per-position norms, forward and as steps of training, and resizing.

A step takes the gradients by image, scale and shift of a sum against fixed cotangents, and moves
all three.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from bench.workload import TENSOR_LIBRARIES, Training, Workload
from rlx.ir.graph import Graph, Value

_Shape = tuple[int, ...]
_Mode = Literal["nearest", "linear"]
_Norm: TypeAlias = Callable[[Graph, Value, Value, Value], Value]
_EPS = 1e-5


def _batch(g: Graph, x: Value, gamma: Value, beta: Value) -> Value:
    return g.batch_norm_training(x, gamma, beta, axis=1, eps=_EPS)[0]


def _frozen(g: Graph, x: Value, gamma: Value, beta: Value) -> Value:
    mean = g.param("mean", gamma.shape)
    spread = g.param("spread", gamma.shape)
    return g.batch_norm_inference(x, gamma, beta, mean, spread * spread, axis=1, eps=_EPS)


def _group(g: Graph, x: Value, gamma: Value, beta: Value) -> Value:
    return g.group_norm(x, gamma, beta, num_groups=32, axis=1, eps=_EPS)


def _instance(g: Graph, x: Value, gamma: Value, beta: Value) -> Value:
    return g.instance_norm(x, gamma, beta, axis=1, eps=_EPS)


def _layer2d(g: Graph, x: Value, gamma: Value, beta: Value) -> Value:
    return g.layer_norm2d(x, gamma, beta, eps=_EPS)


_NORMS: dict[str, tuple[_Norm, _Shape, bool, tuple[str, ...]]] = {
    "batch_norm_56_64_batch16": (_batch, (16, 64, 56, 56), True, TENSOR_LIBRARIES),
    "batch_norm_frozen_56_64": (
        _frozen, (1, 64, 56, 56), False, (*TENSOR_LIBRARIES, "onnxruntime", "openvino"),
    ),
    "group_norm_64_320": (
        _group, (1, 320, 64, 64), True, (*TENSOR_LIBRARIES, "onnxruntime", "openvino"),
    ),
    "instance_norm_128_64": (
        _instance, (1, 64, 128, 128), True, (*TENSOR_LIBRARIES, "onnxruntime", "openvino"),
    ),
    "layer_norm2d_56_96": (
        _layer2d, (1, 96, 56, 56), True, (*TENSOR_LIBRARIES, "onnxruntime", "openvino"),
    ),
}  # fmt: skip
"""By name: the norm, the shape of the images, whether it is trained, and who has it."""


def forward(norm: _Norm, shape: _Shape) -> Graph:
    g = Graph("norm")
    channels = (shape[1],)
    g.set_outputs(
        [norm(g, g.input("x", shape), g.param("gamma", channels), g.param("beta", channels))]
    )
    return g


def loss(norm: _Norm, shape: _Shape) -> Graph:
    g = Graph("norm_loss")
    channels = (shape[1],)
    y = norm(g, g.param("x", shape), g.param("gamma", channels), g.param("beta", channels))
    weighted = y * g.input("cotangent", shape)
    g.set_outputs([g.reduce_mean(weighted, axes=(0, 1, 2, 3), keepdims=False)])
    return g


def resized(mode: _Mode, size: tuple[int, int]) -> Graph:
    g = Graph("resized")
    g.set_outputs([g.resize(g.input("x", (1, 64, 56, 56)), size=size, mode=mode)])
    return g


_RESIZED: dict[str, tuple[_Mode, tuple[int, int]]] = {
    "resize_nearest_2x_56_64": ("nearest", (112, 112)),
    "resize_linear_2x_56_64": ("linear", (112, 112)),
    "resize_linear_56_to_90_64": ("linear", (90, 90)),
    "resize_linear_56_to_40_64": ("linear", (40, 40)),
}


def _norm_rows(
    name: str, norm: _Norm, shape: _Shape, trained: bool, peers: tuple[str, ...]
) -> list[Workload]:
    size = 4.0 * math.prod(shape)
    rows = [
        Workload(name, functools.partial(forward, norm, shape), peers, bytes=2 * size, aim="< 0.9x")
    ]
    if trained:
        rows.append(
            Workload(
                f"train_{name}",
                functools.partial(loss, norm, shape),
                TENSOR_LIBRARIES,
                bytes=4 * size,
                training=Training("sgd", 0.1),
                aim="< 0.9x",
            )
        )
    return rows


NORMALIZATION = (
    *(row for name, norm in _NORMS.items() for row in _norm_rows(name, *norm)),
    *(
        Workload(
            name,
            functools.partial(resized, *how),
            bytes=4.0 * 64 * (56 * 56 + math.prod(how[1])),
            aim="< 0.9x",
        )
        for name, how in _RESIZED.items()
    ),
)
