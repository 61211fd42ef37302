"""Reads and writes at positions known at run time, and sorting, as operators of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from rlx.errors import NoRuleError
from rlx.ir.dtype import DType
from rlx.ir.graph import Node
from rlx.ir.shape import normalize_axis
from rlx.onnx.export_rules import Rule, export_rule


def _places(writer: Any, node: Node, starts: str, block: Any) -> str:
    """Return the positions of a block's elements: those of a grid, moved by the clamped starts."""
    extents = node.operands[0].type.static_shape
    most = [extent - size for extent, size in zip(extents, block, strict=True)]
    wide = writer.emit("Cast", [starts], to=TensorProto.INT64)
    raised = writer.emit("Max", [wide, writer.integers([0] * len(most))])
    first = writer.emit("Min", [raised, writer.integers(most)])
    grid = np.stack(np.meshgrid(*map(np.arange, block), indexing="ij"), -1).astype(np.int64)
    return str(writer.emit("Add", [writer.array(grid), first]))


@export_rule("dynamic_slice")
def dynamic_slice(writer: Any, node: Node, x: str, starts: str) -> str:
    sizes = node.attribute("sizes")
    if not sizes:
        return str(writer.emit("Identity", [x]))
    return str(writer.emit("GatherND", [x, _places(writer, node, starts, sizes)]))


@export_rule("dynamic_update_slice")
def dynamic_update_slice(writer: Any, node: Node, x: str, update: str, starts: str) -> str:
    block = node.operands[1].type.static_shape
    if not block:
        return str(writer.emit("Identity", [update]))
    return str(writer.emit("ScatterND", [x, _places(writer, node, starts, block), update]))


def _indices(writer: Any, node: Node, indices: str) -> str:
    """Return row numbers as positions of one coordinate."""
    wide = writer.emit("Cast", [indices], to=TensorProto.INT64)
    return str(writer.emit("Unsqueeze", [wide, writer.integers([node.operands[1].rank])]))


def _fold_into(dtype: DType, reduction: str) -> Any:
    """Return what a row without any update holds."""
    kind = dtype.numpy
    if reduction in ("add", "mul"):
        return np.asarray(int(reduction == "mul"), kind)
    limits = np.iinfo(kind) if dtype.is_int else None
    if reduction == "max":
        return np.asarray(limits.min if limits else -np.inf, kind)
    return np.asarray(limits.max if limits else np.inf, kind)


def _scatter(reduction: str) -> Rule:
    def rule(writer: Any, node: Node, updates: str, indices: str) -> str:
        fill = writer.array(_fold_into(node.result.dtype, reduction))
        rows = writer.emit("Expand", [fill, writer.integers(node.result.shape)])
        places = _indices(writer, node, indices)
        return str(writer.emit("ScatterND", [rows, places, updates], reduction=reduction))

    return rule


for _reduction in ("add", "mul", "max", "min"):
    export_rule(f"scatter_{_reduction}")(_scatter(_reduction))


@export_rule("gather_backward")
def gather_backward(writer: Any, node: Node, dy: str, indices: str) -> str:
    """Rows are scattered along the first axis; others move there and back."""
    rank, block = node.operands[0].rank, node.operands[1].rank
    axis = normalize_axis(node.attribute("axis"), rank - block + 1)
    front = [*range(axis, axis + block), *range(axis), *range(axis + block, rank)]
    shape = node.result.shape
    moved = (shape[axis], *shape[:axis], *shape[axis + 1 :])
    zero = writer.array(np.zeros((), node.result.dtype.numpy))
    rows = writer.emit("Expand", [zero, writer.integers(moved)])
    updates = writer.emit("Transpose", [dy], perm=front)
    places = _indices(writer, node, indices)
    filled = writer.emit("ScatterND", [rows, places, updates], reduction="add")
    back = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
    return str(writer.emit("Transpose", [filled], perm=back))


def _sorted(writer: Any, node: Node, x: str) -> list[str]:
    if node.operands[0].dtype is DType.BOOL:
        raise NoRuleError(f"{node.title} of bools", remedy="cast them to integers")
    count = writer.integers([node.operands[0].shape[-1]])
    found: list[str] = writer.emit_all("TopK", [x, count], 2, largest=0)
    return found


@export_rule("sort")
def sort(writer: Any, node: Node, x: str) -> str:
    return _sorted(writer, node, x)[0]


@export_rule("argsort")
def argsort(writer: Any, node: Node, x: str) -> str:
    return _sorted(writer, node, x)[1]
