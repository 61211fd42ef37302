"""Dtypes that an operator of ONNX does not take: computed in a wider one, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx

from rlx.ir.dtype import DType
from rlx.ir.graph import Node
from rlx.onnx.types import type_name

_WIDENED = frozenset(
    {
        "acos", "acosh", "add", "argmax", "argmin", "argsort", "asin", "asinh", "atan", "atanh",
        "ceil", "cos", "cosh", "cumsum", "dot_general", "erf", "exp", "floor", "ge", "gelu",
        "gelu_approx", "gt", "le", "log", "lt", "matmul", "maximum", "minimum", "mish", "mul",
        "neg", "pow", "reciprocal", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
        "reduce_sum", "relu", "round", "sigmoid", "sign", "sin", "sinh", "sort", "sqrt", "sub",
        "tan", "tanh", "topk",
    }
)  # fmt: skip
"""Ops whose operators mean the same in a wider dtype, up to the last rounding."""


def refused(nodes: Sequence[Any], types: Mapping[str, DType], opset: int) -> tuple[str, str] | None:
    """Return the first operator that does not take the dtype of an operand, and the operand."""
    for made in nodes:
        schema = onnx.defs.get_schema(made.op_type, opset)
        for place, name in enumerate(made.input):
            formal = schema.inputs[min(place, len(schema.inputs) - 1)]
            if name in types and _text(types[name]) not in formal.types:
                return made.op_type, name
    return None


def _text(dtype: DType) -> str:
    return f"tensor({type_name(onnx.helper.np_dtype_to_tensor_dtype(dtype.numpy))})"


def wider(node: Node, dtype: DType) -> DType | None:
    """Return the dtype in which a node can be computed instead; None if in none."""
    if node.op.name not in _WIDENED or dtype in (DType.I64, DType.U64, DType.F64):
        return None
    if dtype.is_int or dtype is DType.BOOL:
        return DType.I64
    return DType.F32 if dtype.is_float and dtype is not DType.F32 else None
