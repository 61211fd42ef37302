"""A workload's graph as an ONNX model, with the fused operators that runtimes look for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from bench.peers.session import translate
from bench.workload import Array, Workload
from rlx.ir.dtype import DType

_OPSET, _IR_VERSION = 20, 10
_TYPES = {
    DType.F32: TensorProto.FLOAT,
    DType.F64: TensorProto.DOUBLE,
    DType.I32: TensorProto.INT32,
}
Emit: TypeAlias = Callable[..., str]


def onnx_model(workload: Workload) -> ModelProto:
    """Return the model; params are initializers, inputs and outputs keep names and order."""
    graph = workload.build()
    if workload.model is not None:
        return _with_weights(workload.model(), workload.params(graph))
    writer = _Writer()
    for name, array in workload.params(graph).items():
        writer.initializer(array, name)
    names = {str(leaf.node.name): str(leaf.node.name) for leaf in (*graph.inputs, *graph.params)}
    results = translate(graph, writer.table(), names)
    inputs = [
        helper.make_tensor_value_info(str(leaf.node.name), _TYPES[leaf.dtype], list(leaf.shape))
        for leaf in graph.inputs
    ]
    outputs = [
        helper.make_tensor_value_info(name, _TYPES[value.dtype], list(value.shape))
        for name, value in zip(results, graph.outputs, strict=True)
    ]
    body = helper.make_graph(writer.nodes, graph.name, inputs, outputs, writer.initializers)
    opset = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(body, opset_imports=opset, ir_version=_IR_VERSION)


def _with_weights(model: ModelProto, weights: Mapping[str, Array]) -> ModelProto:
    for initializer in model.graph.initializer:
        initializer.CopyFrom(numpy_helper.from_array(weights[initializer.name], initializer.name))
    return model


class _Writer:
    """Collects nodes; every value is its name."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def initializer(self, array: Array, name: str = "") -> str:
        name = name or f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def table(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "constant": self.initializer,
            **{name: self._plain(kind) for name, kind in _PLAIN.items()},
            "conv": self._conv,
            "conv_transpose": self._conv_transpose,
            "softmax": lambda x, *, axis: self.node("Softmax", x, axis=axis),
            "layer_norm": self._layer_norm,
            "batch_norm_inference": self._batch_norm_inference,
            "group_norm": self._group_norm,
            "instance_norm": self._instance_norm,
            "layer_norm2d": self._layer_norm2d,
            "resize": self._resize,
            "attention": self._attention,
            "gather": lambda table, rows, *, axis: self.node("Gather", table, rows, axis=axis),
            "reduce_sum": self._reduce("ReduceSum"),
            "reduce_mean": self._reduce("ReduceMean"),
            "concat": lambda *parts, axis: self.node("Concat", *parts, axis=axis),
            "max_pool": self._max_pool,
        }

    def _plain(self, kind: str) -> Emit:
        return lambda *operands: self.node(kind, *operands)

    def _reduce(self, kind: str) -> Emit:
        def emit(x: str, *, axes: tuple[int, ...], keepdims: bool) -> str:
            which = self.initializer(np.array(axes, np.int64))
            return self.node(kind, x, which, keepdims=int(keepdims))

        return emit

    def _conv(
        self,
        x: str,
        w: str,
        *,
        stride: Any,
        padding: Any,
        dilation: Any,
        input_dilation: Any,
        groups: int,
    ) -> str:
        assert not input_dilation
        given: dict[str, Any] = {"dilations": list(dilation)} if dilation else {}
        return self.node(
            "Conv", x, w, strides=list(stride), pads=_pads(padding), group=groups, **given
        )

    def _conv_transpose(
        self, x: str, w: str, *, stride: Any, padding: Any, groups: int, **_: Any
    ) -> str:
        return self.node(
            "ConvTranspose", x, w, strides=list(stride), pads=_pads(padding), group=groups
        )

    def _max_pool(
        self, x: str, *, kernel_size: Any, stride: Any, padding: Any, inner: int, **_: Any
    ) -> str:
        assert inner == 0
        size, strides = list(kernel_size), list(stride)
        return self.node("MaxPool", x, kernel_shape=size, strides=strides, pads=_pads(padding))

    def _layer_norm(self, x: str, gamma: str, beta: str, *, axis: int, eps: float) -> str:
        return self.node("LayerNormalization", x, gamma, beta, axis=axis, epsilon=eps)

    def _batch_norm_inference(
        self, x: str, gamma: str, beta: str, mean: str, variance: str, *, axis: int, eps: float
    ) -> str:
        assert axis == 1
        return self.node("BatchNormalization", x, gamma, beta, mean, variance, epsilon=eps)

    def _instance_norm(self, x: str, gamma: str, beta: str, *, axis: int, eps: float) -> str:
        assert axis == 1
        return self.node("InstanceNormalization", x, gamma, beta, epsilon=eps)

    def _group_norm(
        self, x: str, gamma: str, beta: str, *, num_groups: int, axis: int, eps: float
    ) -> str:
        """As exporters write it: an instance norm whose channels are the groups."""
        assert axis == 1
        ones, zeros = (np.full(num_groups, value, np.float32) for value in (1, 0))
        grouped = self.node("Reshape", x, self._shape(0, num_groups, -1))
        normal = self._instance_norm(
            grouped, self.initializer(ones), self.initializer(zeros), axis=1, eps=eps
        )
        whole = self.node("Reshape", normal, self.node("Shape", x))
        column = self._shape(-1, 1, 1)
        scaled = self.node("Mul", whole, self.node("Reshape", gamma, column))
        return self.node("Add", scaled, self.node("Reshape", beta, column))

    def _layer_norm2d(self, x: str, gamma: str, beta: str, *, eps: float) -> str:
        last = self.node("Transpose", x, perm=[0, 2, 3, 1])
        normal = self._layer_norm(last, gamma, beta, axis=-1, eps=eps)
        return self.node("Transpose", normal, perm=[0, 3, 1, 2])

    def _resize(self, x: str, *, size: Any, mode: str, coordinates: str, **_: Any) -> str:
        extents = self.node("Concat", self._leading(x), self._shape(*size), axis=0)
        return self.node(
            "Resize", x, "", "", extents, mode=mode, coordinate_transformation_mode=coordinates
        )

    def _leading(self, x: str) -> str:
        """Return the extents of images and channels."""
        return self.node("Slice", self.node("Shape", x), self._shape(0), self._shape(2))

    def _attention(
        self,
        q: str,
        k: str,
        v: str,
        *,
        num_heads: int,
        head_dim: int,
        mask_kind: str,
        layout: str,
        **_: Any,
    ) -> str:
        """The formula, as exporters write it; runtimes fuse it."""
        if layout != "bhsd":
            q, k, v = (self._split_heads(x, num_heads, head_dim) for x in (q, k, v))
        scale = self.initializer(np.float32(head_dim**-0.5))
        keys = self.node("Transpose", k, perm=[0, 1, 3, 2])
        scores = self.node("Mul", self.node("MatMul", q, keys), scale)
        if mask_kind == "causal":
            scores = self.node("Add", scores, self.initializer(_causal_mask()))
        y = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        if layout == "bhsd":
            return y
        y = self.node("Transpose", y, perm=[0, 2, 1, 3])
        return self.node("Reshape", y, self._shape(0, 0, num_heads * head_dim))

    def _split_heads(self, x: str, heads: int, depth: int) -> str:
        split = self.node("Reshape", x, self._shape(0, 0, heads, depth))
        return self.node("Transpose", split, perm=[0, 2, 1, 3])

    def _shape(self, *extents: int) -> str:
        return self.initializer(np.array(extents, np.int64))


def _pads(padding: Any) -> list[int]:
    """Return the pads at the beginning of all axes, then those at the end."""
    return [low for low, _ in padding] + [high for _, high in padding]


def _causal_mask(length: int = 512) -> Array:
    return np.triu(np.full((length, length), -1e9, np.float32), 1)


_PLAIN = {
    "add": "Add",
    "mul": "Mul",
    "sub": "Sub",
    "tanh": "Tanh",
    "sin": "Sin",
    "sigmoid": "Sigmoid",
    "relu": "Relu",
    "gelu": "Gelu",
    "matmul": "MatMul",
}
