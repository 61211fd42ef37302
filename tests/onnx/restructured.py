"""Models with parts that do not fit: nodes, names, attributes, weights, types and versions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import onnx

_NUMBERS = (0, 1, -1, 2, 3, -2, 5, 7, 64, 1000, 2**31, 2**40, -(2**40), 2**63 - 1, -(2**63))
_FLOATS = (0.0, -1.0, 1e30, float("nan"), float("inf"), 0.5)
_OPERATORS = (
    "Relu", "Add", "MatMul", "Concat", "Reshape", "Transpose", "Shape", "Range", "NonZero", "If",
    "ConstantOfShape", "Expand", "Tile", "Squeeze", "ReduceSum", "Softmax", "Conv", "Cast", "Loop",
    "Unique", "CumSum", "Resize", "GridSample", "STFT", "Where", "DequantizeLinear", "LSTM", "What",
)  # fmt: skip


def restructured(model: Any, rng: random.Random) -> bytes:
    """Return the file of a model with one to three parts changed."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice(_CHANGES)(made, rng)
    return bytes(made.SerializeToString())


def _chosen(items: Sequence[Any], rng: random.Random) -> Any:
    return rng.choice(items) if items else None


def _nodes(model: Any, rng: random.Random) -> None:
    """Drop a node, say it twice, move it, or make it another operator."""
    nodes = list(model.graph.node)
    place = rng.randrange(len(nodes) or 1)
    kind = rng.randrange(4)
    if kind == 0:
        del nodes[place : place + 1]
    elif kind == 1:
        nodes += nodes[place : place + 1]
    elif kind == 2:
        rng.shuffle(nodes)
    elif nodes:
        nodes[place].op_type = rng.choice(_OPERATORS)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _names(model: Any, rng: random.Random) -> None:
    """Exchange, drop or add what a node reads or gives."""
    node = _chosen(model.graph.node, rng)
    if node is None:
        return
    known = [name for each in model.graph.node for name in (*each.input, *each.output)]
    known += [tensor.name for tensor in model.graph.initializer] + ["", "nowhere"]
    names = node.output if rng.random() < 0.25 else node.input
    if names and rng.random() < 0.7:
        names[rng.randrange(len(names))] = rng.choice(known)
    elif names and rng.random() < 0.5:
        del names[-1]
    else:
        names.append(rng.choice(known))


def _attributes(model: Any, rng: random.Random) -> None:
    node = _chosen(model.graph.node, rng)
    attribute = _chosen(node.attribute, rng) if node is not None else None
    if attribute is None:
        return
    kind = rng.randrange(4)
    if kind == 0:
        node.attribute.remove(attribute)
    elif attribute.ints and kind == 1:
        del attribute.ints[-1]
    elif attribute.ints:
        attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(_NUMBERS)
    elif attribute.HasField("g"):
        inner = onnx.ModelProto(graph=attribute.g)
        rng.choice((_nodes, _names))(inner, rng)
        attribute.g.CopyFrom(inner.graph)
    else:
        attribute.i, attribute.f = rng.choice(_NUMBERS), rng.choice(_FLOATS)
        attribute.s = rng.choice((b"", b"linear", b"x,->", b"\xff"))


def _weights(model: Any, rng: random.Random) -> None:
    tensor = _chosen(model.graph.initializer, rng)
    if tensor is None:
        return
    kind = rng.randrange(4)
    if kind == 0:
        tensor.data_type = rng.randrange(30)
    elif kind == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(_NUMBERS)
    elif kind == 2 and tensor.data_type == onnx.TensorProto.INT64 and tensor.raw_data:
        numbers = [rng.choice(_NUMBERS) for _ in range(len(tensor.raw_data) // 8)]
        tensor.raw_data = b"".join(n.to_bytes(8, "little", signed=True) for n in numbers)
    else:
        model.graph.initializer.remove(tensor)


def _types(model: Any, rng: random.Random) -> None:
    """Change the element type or an extent that an input declares."""
    value = _chosen(model.graph.input, rng)
    if value is None:
        return
    declared, kind = value.type.tensor_type, rng.randrange(4)
    if kind == 0:
        declared.elem_type = rng.randrange(30)
    elif kind == 1 and declared.shape.dim:
        rng.choice(declared.shape.dim).dim_value = rng.choice(_NUMBERS)
    elif kind == 2 and declared.shape.dim:
        del declared.shape.dim[rng.randrange(len(declared.shape.dim))]
    else:
        declared.shape.dim.add().dim_value = rng.choice((0, 1, 2))


def _versions(model: Any, rng: random.Random) -> None:
    for opset in model.opset_import:
        opset.version = rng.choice((0, 1, 5, 6, 9, 10, 11, 12, 13, 15, 17, 18, 20, 23, 1000, -3))


_CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    _nodes, _names, _names, _attributes, _attributes, _weights, _weights, _types, _versions,
)  # fmt: skip
